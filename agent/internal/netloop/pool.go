package netloop

import (
	"context"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
)

// maxLoops bounds how many loops share an agent's connections as a rule. One
// carries more than the session engine behind it does.
const maxLoops = 4

// Pool shares connections among loops. It has none before the first connection:
// in the fake time of tests a goroutine that waits for a socket would stop the
// clock.
type Pool struct {
	o Options

	mu     sync.Mutex // guards all below
	loops  []*Loop
	next   int
	run    errgroup.Group
	cancel context.CancelFunc
	closed bool
}

// NewPool returns a pool of loops that are made with o.
func NewPool(o Options) *Pool { return &Pool{o: o} }

// Next returns the loop whose turn it is to get a connection. It returns
// ErrUnsupported where there are no loops, and ErrClosed after Close.
func (p *Pool) Next() (*Loop, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if p.loops == nil {
		if err := p.start(); err != nil {
			return nil, err
		}
	}
	p.next++
	return p.loops[p.next%len(p.loops)], nil
}

func (p *Pool) start() error {
	var loops []*Loop
	n := p.o.Loops
	if n <= 0 {
		n = max(1, min(maxLoops, runtime.GOMAXPROCS(0)/2))
	}
	for range n {
		l, err := New(p.o)
		if err != nil {
			for _, l := range loops {
				l.Close()
			}
			return err
		}
		loops = append(loops, l)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.loops, p.cancel = loops, cancel
	for _, l := range loops {
		p.run.Go(func() error {
			err := l.Run(ctx)
			if err != nil && p.o.Failed != nil {
				p.o.Failed(err)
			}
			return err
		})
	}
	return nil
}

// Close ends the loops. Connections that they still have stay open; they are
// their handlers'.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	if p.cancel != nil {
		p.cancel()
	}
	p.mu.Unlock()
	return p.run.Wait()
}
