package agent

import (
	"github.com/rondel-project/rondel/agent/telemetry"
)

// proxyFigures makes known what the proxy counts by itself.
func (a *Agent) proxyFigures(s *telemetry.Sources) {
	p := a.doors.proxy
	s.AccessLogDropped = a.doors.access.Dropped
	s.ProxyWaiting = p.Waiting
	s.ProxyConnections = func() telemetry.Connections {
		c := p.Connections()
		return telemetry.Connections{Open: c.Open, Accepted: c.Accepted, Refused: c.Refused}
	}
	s.ProxyInstances = func() []telemetry.Instance {
		list := p.Counters()
		seen := make(map[[3]string]int, len(list))
		var out []telemetry.Instance
		for _, c := range list {
			i := telemetry.Instance{
				Service: c.Service, ID: c.ID, Member: string(c.Member), InFlight: c.InFlight, Requests: c.Requests,
				NewSessions: c.NewSessions, Failures: c.Failures, Queued: c.Queued, Ejected: !c.Ejected.IsZero(),
			}
			// One that has moved to another address is two here, and the same for who looks.
			name := [3]string{i.Service, i.ID, i.Member}
			at, twice := seen[name]
			if !twice {
				seen[name] = len(out)
				out = append(out, i)
				continue
			}
			o := &out[at]
			o.InFlight, o.Requests, o.NewSessions = o.InFlight+i.InFlight, o.Requests+i.Requests, o.NewSessions+i.NewSessions
			o.Failures, o.Queued, o.Ejected = o.Failures+i.Failures, o.Queued+i.Queued, o.Ejected || i.Ejected
		}
		return out
	}
}
