package proxy

// Waiting returns how many requests of each route stand in line now, in no
// order.
func (p *Proxy) Waiting() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string]int, len(p.turns))
	for name, t := range p.turns {
		out[name] = int(t.waiting.Load())
	}
	return out
}
