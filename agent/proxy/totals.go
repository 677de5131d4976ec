package proxy

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

// Totals returns the sums over all instances; all but InFlight only grow.
func (p *Proxy) Totals() Totals {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.retired
	t.InFlight = 0
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
