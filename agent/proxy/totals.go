package proxy

import (
	"slices"
	"time"
)

// Totals is what this proxy has passed on altogether.
type Totals struct {
	InFlight    int64
	Requests    uint64
	NewSessions uint64
	Failures    uint64
}

func (t *Totals) add(b *backend) {
	t.InFlight += b.inFlight.Load()
	t.Requests += b.requests.Load()
	t.NewSessions += b.fresh.Load()
	t.Failures += b.failures.Load()
}

// lateFor is how long a request may yet come to an instance that was
// deregistered and had none: one that was decided before, and waited or was
// tried elsewhere meanwhile.
const lateFor = 5 * time.Minute

// retiring is an instance that was deregistered. Requests, streams and tunnels
// that it has go on and count.
type retiring struct {
	*backend
	busy time.Time // when it was last seen to have any
}

// retireLocked adds those up for good that nothing is counted of any more.
func (p *Proxy) retireLocked(now time.Time) {
	p.retiring = slices.DeleteFunc(p.retiring, func(r *retiring) bool {
		if r.inFlight.Load() > 0 {
			r.busy = now
		}
		if now.Sub(r.busy) <= lateFor {
			return false
		}
		p.retired.add(r.backend)
		return true
	})
	p.retired.InFlight = 0 // one that came just now will not be taken off again
}

// Totals returns the sums over all instances, those that are gone included; all
// but InFlight only grow.
func (p *Proxy) Totals() Totals {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.retired
	for _, r := range p.retiring {
		t.add(r.backend)
	}
	for _, b := range p.backends {
		t.add(b)
	}
	return t
}

// Counters returns what was sent to each instance that is known now, in no order.
func (p *Proxy) Counters() []Counters {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Counters, 0, len(p.backends))
	for _, b := range p.backends {
		list = append(list, b.counters())
	}
	return list
}
