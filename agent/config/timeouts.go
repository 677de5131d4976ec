package config

import "time"

// ProxyTimeoutsFile is the block "timeouts" of the section "proxy".
type ProxyTimeoutsFile struct {
	Handshake    *Duration `opt:"handshake"`
	Header       *Duration `opt:"header"`
	Body         *Duration `opt:"body"`
	Idle         *Duration `opt:"idle"`
	Connect      *Duration `opt:"connect"`
	Send         *Duration `opt:"send"`
	Response     *Duration `opt:"response"`
	Tunnel       *Duration `opt:"tunnel"`
	InstanceIdle *Duration `opt:"instance_idle"`
	Drain        *Duration `opt:"drain"`
}

// ProxyTimeouts bound each phase of a request.
type ProxyTimeouts struct {
	Handshake    time.Duration `opt:"proxy.timeouts.handshake,reload"`
	Header       time.Duration `opt:"proxy.timeouts.header,reload"`
	Body         time.Duration `opt:"proxy.timeouts.body,reload"`
	Idle         time.Duration `opt:"proxy.timeouts.idle,reload"`
	Connect      time.Duration `opt:"proxy.timeouts.connect,reload"`
	Send         time.Duration `opt:"proxy.timeouts.send,reload"`
	Response     time.Duration `opt:"proxy.timeouts.response,reload"`
	Tunnel       time.Duration `opt:"proxy.timeouts.tunnel,reload"`
	InstanceIdle time.Duration `opt:"proxy.timeouts.instance_idle,reload"`
	Drain        time.Duration `opt:"proxy.timeouts.drain,reload"`
}

func defaultProxyTimeouts() *ProxyTimeoutsFile {
	seconds := func(n int) *Duration { return ptr(Duration(n) * Duration(time.Second)) }
	return &ProxyTimeoutsFile{
		Handshake: seconds(10), Header: seconds(10), Body: seconds(60), Idle: seconds(75),
		Connect: seconds(1), Send: seconds(60), Response: seconds(60), Tunnel: seconds(3600),
		InstanceIdle: seconds(30), Drain: seconds(30),
	}
}

func (f *ProxyTimeoutsFile) runtime(c *checker) ProxyTimeouts {
	read := func(name string, d *Duration) time.Duration {
		c.durationBetween("proxy.timeouts."+name, *d, time.Millisecond, 30*24*time.Hour)
		return time.Duration(*d)
	}
	// Stopping may take no time at all.
	c.durationBetween("proxy.timeouts.drain", *f.Drain, 0, 24*time.Hour)
	return ProxyTimeouts{
		Handshake: read("handshake", f.Handshake), Header: read("header", f.Header), Body: read("body", f.Body), Idle: read("idle", f.Idle),
		Connect: read("connect", f.Connect), Send: read("send", f.Send), Response: read("response", f.Response),
		Tunnel: read("tunnel", f.Tunnel), InstanceIdle: read("instance_idle", f.InstanceIdle), Drain: time.Duration(*f.Drain),
	}
}

// RouteTimeoutsFile is the block "timeouts" of a route.
type RouteTimeoutsFile struct {
	Connect  *Duration `opt:"connect"`
	Send     *Duration `opt:"send"`
	Response *Duration `opt:"response"`
	Tunnel   *Duration `opt:"tunnel"`
}

// RouteTimeouts are a route's own; 0 means the proxy's.
type RouteTimeouts struct {
	Connect  time.Duration
	Send     time.Duration
	Response time.Duration
	Tunnel   time.Duration
}

func defaultRouteTimeouts() *RouteTimeoutsFile {
	return &RouteTimeoutsFile{Connect: ptr(Duration(0)), Send: ptr(Duration(0)), Response: ptr(Duration(0)), Tunnel: ptr(Duration(0))}
}

func (f *RouteTimeoutsFile) runtime(c *checker, at string) RouteTimeouts {
	read := func(name string, d *Duration) time.Duration {
		if *d != 0 {
			c.durationBetween(at+"."+name, *d, time.Millisecond, 30*24*time.Hour)
		}
		return time.Duration(*d)
	}
	return RouteTimeouts{
		Connect: read("connect", f.Connect), Send: read("send", f.Send),
		Response: read("response", f.Response), Tunnel: read("tunnel", f.Tunnel),
	}
}
