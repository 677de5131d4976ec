package proxy

import (
	"net/http"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
)

// RouteTimeouts count for one route instead of those of all. 0 means the same
// as everywhere.
type RouteTimeouts struct {
	Connect  time.Duration // as connections are shared, the longest of all routes to a service counts
	Response time.Duration
	Send     time.Duration
	Tunnel   time.Duration
}

// settle fills in what the route leaves to the proxy.
func (r *Route) settle(cfg *Config) {
	own := func(d *time.Duration, all time.Duration) {
		if *d == 0 {
			*d = all
		}
	}
	own(&r.Timeouts.Connect, cfg.Timeouts.Connect)
	own(&r.Timeouts.Response, cfg.Timeouts.Response)
	own(&r.Timeouts.Send, cfg.Timeouts.Send)
	own(&r.Timeouts.Tunnel, cfg.Timeouts.Tunnel)
	if r.MaxBody == 0 {
		r.MaxBody = cfg.Limits.RequestBody
	}
}

// connectWithin returns how long an instance of a service may take to accept.
func (c *Config) connectWithin(service string) time.Duration {
	longest := time.Duration(0)
	for i := range c.Routes {
		if r := &c.Routes[i]; r.Service == service {
			d := r.Timeouts.Connect
			if d == 0 {
				d = c.Timeouts.Connect
			}
			longest = max(longest, d)
		}
	}
	if longest == 0 {
		return c.Timeouts.Connect
	}
	return longest
}

// errBodySize is the verdict on a body that is longer than the route allows.
var errBodySize = &http1.Error{Status: http.StatusRequestEntityTooLarge, Reason: "the body is longer than is allowed here"}

// oversized reports whether the request says that its body is too long.
func (x *exchange) oversized() bool {
	return x.rt.MaxBody > 0 && x.q.HasLength() && x.q.Length > x.rt.MaxBody
}

// measure refuses a body that has become too long without saying so before.
func (x *exchange) measure() error {
	if x.rt.MaxBody > 0 && x.body.Unframed() > x.rt.MaxBody {
		return errBodySize
	}
	return nil
}

// pace holds a client that sends a body to a rate.
type pace struct {
	waited time.Duration
	got    int64
}

// tooSlow counts n bytes that were waited for, and reports whether the client has
// sent less than the rate asks for over the whole of a period. Time in which the
// instance takes no more is none of the client's.
func (p *pace) tooSlow(n int, waited time.Duration, rate int64, period time.Duration) bool {
	if rate == 0 {
		return false
	}
	p.got += int64(n)
	if p.waited += waited; p.waited < period {
		return false
	}
	slow := float64(p.got) < float64(rate)*p.waited.Seconds()
	*p = pace{}
	return slow
}
