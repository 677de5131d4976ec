package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Front is the one address that browsers open. It passes connections on to the
// first agent that serves, which is what a virtual address or a load balancer
// does elsewhere: cookies belong to one host name, so a browser needs an address
// that outlives each agent.
type Front struct {
	listen  net.Listener
	targets []target

	mu    sync.Mutex // guards conns
	conns map[net.Conn]struct{}
	done  sync.WaitGroup // all connections
}

// target is one agent.
type target struct {
	proxy   string                     // host:port
	asks    func(context.Context) bool // whether the agent serves, by its own word
	serving *atomic.Bool               // what it said last
}

// The bounds of what is asked of an agent.
const (
	dialTime = time.Second // to accept a connection
	askEvery = 250 * time.Millisecond
	askTime  = time.Second
)

func newFront(l net.Listener, targets ...target) *Front {
	return &Front{listen: l, targets: targets, conns: map[net.Conn]struct{}{}}
}

// URL returns the address to open.
func (f *Front) URL() string { return "http://" + f.listen.Addr().String() + "/" }

// Address returns host:port.
func (f *Front) Address() string { return f.listen.Addr().String() }

// Run passes connections on until ctx ends.
func (f *Front) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { f.listen.Close() })
	defer stop()
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	for _, t := range f.targets {
		asking.Go(func() { t.watch(ctx) })
	}
	defer f.closeAll()
	for {
		c, err := f.listen.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			var temporary net.Error
			if errors.As(err, &temporary) {
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Millisecond):
				}
				continue
			}
			return fmt.Errorf("accept on the front address: %w", err)
		}
		f.done.Go(func() { f.serve(ctx, c) })
	}
}

func (f *Front) serve(ctx context.Context, client net.Conn) {
	defer f.drop(client)
	f.keep(client)
	target := f.dial(ctx)
	if target == nil {
		const text = "No agent of the demo is up.\n"
		_, _ = fmt.Fprintf(client, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		return
	}
	defer f.drop(target)
	f.keep(target)
	var both sync.WaitGroup
	both.Go(func() { pass(target, client) })
	pass(client, target)
	both.Wait()
}

// pass copies one direction. Where it breaks both ends are closed; where it
// ends in order the other direction may go on.
func pass(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		from.Close()
		return
	}
	if half, ok := to.(*net.TCPConn); !ok || half.CloseWrite() != nil {
		to.Close()
	}
}

// dial connects to the first agent that says it serves. Where none says so, the
// first that takes connections will do.
func (f *Front) dial(ctx context.Context) net.Conn {
	dialer := net.Dialer{Timeout: dialTime}
	for _, serving := range []bool{true, false} {
		for _, t := range f.targets {
			if t.serving.Load() != serving {
				continue
			}
			if c, err := dialer.DialContext(ctx, "tcp", t.proxy); err == nil {
				return c
			}
			t.serving.Store(false)
		}
	}
	return nil
}

// watch keeps asking the agent.
func (t target) watch(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, askTime)
		t.serving.Store(t.asks(asking))
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (f *Front) keep(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns[c] = struct{}{}
}

func (f *Front) drop(c net.Conn) {
	c.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
}

// closeAll ends all connections and waits for their goroutines. Those that are
// still dialling end by their context.
func (f *Front) closeAll() {
	ended := make(chan struct{})
	go func() { f.done.Wait(); close(ended) }()
	for {
		f.mu.Lock()
		for c := range f.conns {
			c.Close()
		}
		f.mu.Unlock()
		select {
		case <-ended:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
