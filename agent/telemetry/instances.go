package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Connections are clients' connections to the proxy.
type Connections struct {
	Open     int64
	Accepted uint64
	Refused  uint64
}

// Instance is what the proxy has sent to an instance.
type Instance struct {
	Service, ID, Member string
	InFlight            int64
	Requests            uint64
	NewSessions         uint64
	Failures            uint64
	Queued              int
	Ejected             bool
}

// proxied shows what the proxy counts by itself. There are as many series as
// instances that are known, and routes.
type proxied struct {
	connections func() Connections
	instances   func() []Instance
	waiting     func() map[string]int

	open, accepted, refused                             *prometheus.Desc
	inFlight, requests, fresh, failures, queue, ejected *prometheus.Desc
	line                                                *prometheus.Desc
}

func newProxied(s *Sources) *proxied {
	of := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("rondel_proxy_instance_"+name, help, []string{"service", "instance", "member"}, nil)
	}
	plain := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("rondel_proxy_"+name, help, labels, nil)
	}
	return &proxied{
		connections: s.ProxyConnections, instances: s.ProxyInstances, waiting: s.ProxyWaiting,
		open:     plain("connections", "Connections of clients that are open."),
		accepted: plain("connections_total", "Connections of clients that were accepted."),
		refused:  plain("connections_refused_total", "Connections closed as their client had as many as it may."),
		line:     plain("queue", "Requests that stand in line until an instance has room.", "route"),
		inFlight: of("in_flight", "Requests, streams and tunnels at the instance, from this agent."),
		requests: of("requests_total", "Requests that the instance got from this agent, each try counted."),
		fresh:    of("new_sessions_total", "Clients that this agent has sent there first."),
		failures: of("failures_total", "Failed connections, broken and missing answers of the instance."),
		queue:    of("queue", "Requests of the instance's own clients that wait until it has room."),
		ejected:  of("ejected", "1 while the instance gets no traffic as its answers failed."),
	}
}

// Describe implements prometheus.Collector.
func (p *proxied) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.open, p.accepted, p.refused, p.line, p.inFlight, p.requests, p.fresh, p.failures, p.queue, p.ejected} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (p *proxied) Collect(ch chan<- prometheus.Metric) {
	say := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, t, v, labels...)
	}
	c := p.connections()
	say(p.open, prometheus.GaugeValue, float64(c.Open))
	say(p.accepted, prometheus.CounterValue, float64(c.Accepted))
	say(p.refused, prometheus.CounterValue, float64(c.Refused))
	for route, n := range p.waiting() {
		say(p.line, prometheus.GaugeValue, float64(n), route)
	}
	for _, i := range p.instances() {
		at := []string{i.Service, i.ID, i.Member}
		say(p.inFlight, prometheus.GaugeValue, float64(i.InFlight), at...)
		say(p.requests, prometheus.CounterValue, float64(i.Requests), at...)
		say(p.fresh, prometheus.CounterValue, float64(i.NewSessions), at...)
		say(p.failures, prometheus.CounterValue, float64(i.Failures), at...)
		say(p.queue, prometheus.GaugeValue, float64(i.Queued), at...)
		ejected := 0.0
		if i.Ejected {
			ejected = 1
		}
		say(p.ejected, prometheus.GaugeValue, ejected, at...)
	}
}
