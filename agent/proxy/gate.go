package proxy

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// gate counts clients' connections and holds them to the limits. It is passed
// once per connection.
type gate struct {
	open     atomic.Int64
	accepted atomic.Uint64
	refused  atomic.Uint64 // one client's too many
	freed    chan struct{} // a connection has ended while somebody waited

	waiting atomic.Int32
	mu      sync.Mutex // guards clients
	clients map[netip.Addr]int
}

func newGate() *gate {
	return &gate{freed: make(chan struct{}, 1), clients: map[netip.Addr]int{}}
}

// seat is what one connection takes up, until its peer leaves.
type seat struct {
	gate *gate
	addr netip.Addr // that it is counted for; not valid: for none
}

// await waits until there may be one more connection. While there may not, it
// closes idle ones. It reports whether there was anything to wait for, and
// BLOCKS the listener.
func (p *Proxy) await(ctx context.Context, stop <-chan struct{}) (waited bool) {
	g := p.gate
	if most := p.config().Limits.Connections; most == 0 || g.open.Load() < int64(most) {
		return false
	}
	g.waiting.Add(1)
	defer g.waiting.Add(-1)
	tick := time.NewTicker(50 * time.Millisecond) // the limit may change, and others become idle
	defer tick.Stop()
	for {
		most := p.config().Limits.Connections
		if most == 0 || g.open.Load() < int64(most) {
			return true
		}
		p.evict()
		select {
		case <-ctx.Done():
			return true
		case <-stop:
			return true
		case <-g.freed:
		case <-tick.C:
		}
	}
}

// enter counts a connection for its peer, and reports false where that is one
// too many of its address. The peer has to leave then, too.
func (g *gate) enter(p *peer, cfg *Config) bool {
	g.open.Add(1)
	g.accepted.Add(1)
	p.seat.gate = g
	if cfg.PeerHeader != PeerHeaderOff && p.addr.IsValid() && within(p.addr.Addr(), cfg.PeerHeaderFrom) {
		return true // it is counted for the client that it will name
	}
	return g.count(p, cfg)
}

// count counts the connection for its peer's address.
func (g *gate) count(p *peer, cfg *Config) bool {
	most := cfg.Limits.PerClient
	if most == 0 || !p.addr.IsValid() || within(p.addr.Addr(), cfg.Trusted) {
		return true
	}
	a := p.addr.Addr()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.clients[a] >= most {
		g.refused.Add(1)
		return false
	}
	g.clients[a]++
	p.seat.addr = a
	return true
}

// leave gives the seat back.
func (s *seat) leave() {
	g := s.gate
	if g == nil {
		return
	}
	if s.addr.IsValid() {
		g.mu.Lock()
		if g.clients[s.addr]--; g.clients[s.addr] <= 0 {
			delete(g.clients, s.addr)
		}
		g.mu.Unlock()
	}
	*s = seat{}
	g.open.Add(-1)
	if g.waiting.Load() > 0 {
		select {
		case g.freed <- struct{}{}:
		default:
		}
	}
}

// fewLooks bounds the search for a connection that can be closed.
const fewLooks = 256

// evict closes a connection that has been served and waits for another request,
// if one can be found quickly.
func (p *Proxy) evict() {
	done := false
	p.loops.each(func(w *worker) {
		done = done || w.evict()
	})
	if done {
		return
	}
	p.connMu.Lock()
	defer p.connMu.Unlock()
	looks := 0
	for c := range p.conns {
		if looks++; looks > fewLooks || c.evict() {
			return
		}
	}
}

// evict ends the client that has been idle for longest among a few.
func (w *worker) evict() bool {
	var oldest *loopClient
	for i, l := range w.clients {
		if i == fewLooks {
			break
		}
		if l.state == reading && l.c == nil && l.served && (oldest == nil || l.since.Before(oldest.since)) {
			oldest = l
		}
	}
	if oldest == nil {
		return false
	}
	oldest.end()
	return true
}

// evict ends the connection if it waits for a further request.
func (c *conn) evict() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams != nil {
		return c.streams.Retire()
	}
	if !c.idle || !c.rested || c.evicted || c.stream != nil { // streams take no seat
		return false
	}
	c.evicted = true
	c.in.Interrupt()
	return true
}

// Connections is what the proxy has to do with clients' connections.
type Connections struct {
	Open     int64
	Accepted uint64
	Refused  uint64 // as too many of one address
}

// Connections returns the figures of now.
func (p *Proxy) Connections() Connections {
	return Connections{Open: p.gate.open.Load(), Accepted: p.gate.accepted.Load(), Refused: p.gate.refused.Load()}
}
