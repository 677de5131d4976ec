package http1

import (
	"net"
	"sync"
	"time"
)

// PoolOptions say how a pool connects and what it keeps.
type PoolOptions struct {
	Dial    func() (net.Conn, error) // bounded in time by itself
	Buffer  int                      // receive buffer of a connection
	MaxIdle func() int               // connections kept; the rest are closed
}

// Pool keeps the idle connections to one instance, the one used last on top.
// Its methods may be called from any goroutine.
type Pool struct {
	opt PoolOptions

	mu     sync.Mutex // guards the rest
	idle   []*Conn
	closed bool
}

// NewPool returns an empty pool.
func NewPool(opt PoolOptions) *Pool { return &Pool{opt: opt} }

// Get returns an idle connection that has rested at most maxIdle and looks
// alive, or nil.
func (p *Pool) Get(now time.Time, maxIdle time.Duration) *Conn {
	for {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 || now.Sub(p.idle[n-1].idleSince) > maxIdle {
			p.mu.Unlock()
			return nil
		}
		c := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if !c.probe.readable() {
			return c
		}
		c.Close()
	}
}

// Dial makes a new connection.
func (p *Pool) Dial() (*Conn, error) {
	nc, err := p.opt.Dial()
	if err != nil {
		return nil, err
	}
	return NewConn(nc, p.opt.Buffer), nil
}

// Put takes back a connection whose last message ended cleanly. One with bytes
// left over is closed: nobody asked for them.
func (p *Pool) Put(c *Conn, now time.Time) {
	c.idleSince = now
	most := p.opt.MaxIdle()
	p.mu.Lock()
	if c.Buffered() == 0 && !p.closed && len(p.idle) < most {
		p.idle = append(p.idle, c)
		c = nil
	}
	p.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// Sweep closes connections that have rested longer than maxIdle.
func (p *Pool) Sweep(now time.Time, maxIdle time.Duration) {
	p.mu.Lock()
	n := 0
	for n < len(p.idle) && now.Sub(p.idle[n].idleSince) > maxIdle {
		n++
	}
	old := append([]*Conn(nil), p.idle[:n]...)
	p.idle = append(p.idle[:0], p.idle[n:]...)
	clear(p.idle[len(p.idle):cap(p.idle)])
	p.mu.Unlock()
	for _, c := range old {
		c.Close()
	}
}

// Idle returns how many connections rest.
func (p *Pool) Idle() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

// Close closes the idle connections, and those that come back later.
func (p *Pool) Close() {
	p.mu.Lock()
	old := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, c := range old {
		c.Close()
	}
}
