package agent

import (
	"github.com/rondel-project/rondel/agent/accesslog"
	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/proxy"
)

// proxyPhases takes over how long the proxy waits for what, and how much it
// puts up with.
func proxyPhases(p *proxy.Config, cfg config.Proxy) {
	t, l := cfg.Timeouts, cfg.Limits
	p.Timeouts.Handshake, p.Timeouts.Header, p.Timeouts.Body, p.Timeouts.Idle = t.Handshake, t.Header, t.Body, t.Idle
	p.Timeouts.Connect, p.Timeouts.Send, p.Timeouts.Response, p.Timeouts.Tunnel = t.Connect, t.Send, t.Response, t.Tunnel
	p.Timeouts.Upstream, p.Timeouts.Drain = t.InstanceIdle, t.Drain
	p.Limits = proxy.Limits{
		RequestHead: int(l.RequestHead), ResponseHead: int(l.ResponseHead), IdlePerHost: l.IdlePerInstance,
		RequestBody: l.RequestBody, MinRate: l.MinRate, Connections: l.Connections, PerClient: l.ConnectionsPerClient,
	}
}

// routePhases is the same for one route.
func routePhases(out *proxy.Route, r config.Route) {
	out.Timeouts = proxy.RouteTimeouts{
		Connect: r.Timeouts.Connect, Response: r.Timeouts.Response, Send: r.Timeouts.Send, Tunnel: r.Timeouts.Tunnel,
	}
	out.MaxBody = r.Limits.RequestBody
}

// accessLog is the configuration as the log takes it.
func accessLog(cfg config.AccessLog) accesslog.Config {
	return accesslog.Config{
		Path:   cfg.Path,
		Format: map[string]accesslog.Format{"json": accesslog.JSON, "combined": accesslog.Combined}[cfg.Format],
		Query: map[string]accesslog.Query{
			"names": accesslog.QueryNames, "none": accesslog.QueryNone, "full": accesslog.QueryFull,
		}[cfg.Query],
	}
}
