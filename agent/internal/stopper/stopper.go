package stopper

import (
	"context"
	"sync"
)

// Group is a set of goroutines with one end. Its methods may be called at any
// time from anywhere.
type Group struct {
	// A context is kept here, against the custom, because it is the life of the
	// group itself and not of any call.
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex // guards stopped against wg.Add
	stopped bool
	wg      sync.WaitGroup
}

// New returns an empty group.
func New() *Group {
	ctx, cancel := context.WithCancel(context.Background())
	return &Group{ctx: ctx, cancel: cancel}
}

// Go runs f in a goroutine of the group, with a context that ends at Stop. It
// reports false, and runs nothing, once the group was stopped.
func (g *Group) Go(f func(ctx context.Context)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return false
	}
	g.wg.Go(func() { f(g.ctx) })
	return true
}

// Done is closed when the group is told to stop.
func (g *Group) Done() <-chan struct{} { return g.ctx.Done() }

// Stop ends the context and waits for all goroutines. It may be called twice,
// and not from one of the group's own.
func (g *Group) Stop() {
	g.mu.Lock()
	g.stopped = true
	g.mu.Unlock()
	g.cancel()
	g.wg.Wait()
}
