package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Bounds of a connection, whoever carries it.
const (
	headTime = 10 * time.Second
	idleTime = 2 * time.Minute
	maxHead  = 64 << 10
)

// door accepts connections. Each begins in an event loop (loopserver.go), which
// carries plain operations on one session. What else there is about sessions is
// carried on the quick path (quick.go), from which the connection returns, and
// with the first request that is anything else it goes over to net/http, for
// good. The last two run the same handlers; the loop answers what these would.
type door struct {
	log   hclog.Logger
	http  *http.Server
	rest  *handed
	quick quickOptions
	loops *loopServer // nil: without

	// A connection says that it is busy and then looks whether the door is
	// stopping; stop says so and then looks who is busy. So no request that has
	// begun is cut off.
	stopping atomic.Bool

	mu   sync.Mutex // guards open, and what is added to ends
	open map[*quick]struct{}
	ends sync.WaitGroup
}

// newDoor returns a door to a handler. Requests on the quick path run under
// ctx, and may have bodies of as many bytes as maxBody says.
func newDoor(ctx context.Context, log hclog.Logger, h http.Handler, maxBody func() int) *door {
	return &door{
		log: log,
		http: &http.Server{
			Handler:                      answering(h),
			DisableGeneralOptionsHandler: true, // OPTIONS * is answered like any unknown path
			ReadHeaderTimeout:            headTime,
			IdleTimeout:                  idleTime,
			MaxHeaderBytes:               maxHead,
			ConnState:                    onState,
			ConnContext:                  withConn,
			ErrorLog:                     log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		},
		rest:  &handed{conns: make(chan net.Conn), closed: make(chan struct{})},
		quick: quickOptions{ctx, log, h, maxBody},
		open:  make(map[*quick]struct{}),
	}
}

// serveRest runs net/http until stop.
func (d *door) serveRest() error {
	if err := d.http.Serve(d.rest); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// accept takes connections until the listener is closed.
func (d *door) accept(l net.Listener) error {
	var pause time.Duration
	for {
		nc, err := l.Accept()
		if err == nil {
			pause = 0
			if d.loops == nil || !d.loops.take(nc) {
				d.begin(nc)
			}
			continue
		}
		var temporary interface{ Temporary() bool }
		if !errors.As(err, &temporary) || !temporary.Temporary() {
			if d.stopping.Load() {
				return nil
			}
			return err
		}
		// Out of file descriptors, as a rule: it passes.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		d.log.Debug("accept failed, will try again", "error", err)
		select {
		case <-time.After(pause):
		case <-d.rest.closed:
		}
	}
}

func (d *door) begin(nc net.Conn) { d.carry(newQuick(d, nc)) }

// carry gives a connection a goroutine. While the door stops, only one with an
// answer that has yet to leave gets one.
func (d *door) carry(q *quick) {
	d.mu.Lock()
	if d.stopping.Load() && len(q.unsent) == 0 {
		d.mu.Unlock()
		q.conn.Close()
		return
	}
	d.open[q] = struct{}{}
	d.ends.Add(1)
	d.mu.Unlock()
	go func() {
		defer d.ends.Done()
		over := q.run()
		d.mu.Lock()
		delete(d.open, q)
		d.mu.Unlock()
		switch {
		case over == nil:
			q.conn.Close()
		case q.back:
			if !d.loops.take(over) {
				d.begin(over)
			}
		default:
			d.rest.take(over)
		}
	}()
}

// stop closes the listeners and the idle connections, lets requests end until
// ctx does, then ends the rest with abort, which ends the context of requests.
func (d *door) stop(ctx context.Context, listeners []net.Listener, abort func()) error {
	d.mu.Lock()
	d.stopping.Store(true)
	for q := range d.open {
		if !q.busy.Load() {
			q.conn.Close()
		}
	}
	d.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
	if d.loops != nil {
		d.loops.stop()
	}
	ended := make(chan struct{})
	go func() {
		d.ends.Wait()
		close(ended)
	}()
	err := d.http.Shutdown(ctx)
	select {
	case <-ended:
	case <-ctx.Done():
	}
	if err != nil {
		err = d.http.Close()
	}
	abort()
	if d.loops != nil {
		d.loops.abort()
	}
	d.mu.Lock()
	for q := range d.open {
		q.conn.Close()
	}
	d.mu.Unlock()
	<-ended
	return err
}

// handed is the listener from which net/http takes what the quick path gives
// up.
type handed struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (h *handed) take(nc net.Conn) {
	select {
	case h.conns <- nc:
	case <-h.closed:
		nc.Close()
	}
}

// Accept implements net.Listener.
func (h *handed) Accept() (net.Conn, error) {
	select {
	case nc := <-h.conns:
		return &conn{Conn: nc}, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handed) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements net.Listener.
func (h *handed) Addr() net.Addr { return &net.TCPAddr{} }

// replayed is a connection of which some bytes have been read already.
type replayed struct {
	net.Conn
	first []byte
}

// Read implements net.Conn.
func (r *replayed) Read(b []byte) (int, error) {
	if len(r.first) == 0 {
		return r.Conn.Read(b)
	}
	n := copy(b, r.first)
	if r.first = r.first[n:]; len(r.first) == 0 {
		r.first = nil
	}
	return n, nil
}

// CloseWrite is what net/http calls before it closes a connection whose client
// may still be sending.
func (r *replayed) CloseWrite() error {
	if c, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}
