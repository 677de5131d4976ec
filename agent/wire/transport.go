package wire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/internal/stopper"
)

// Handler takes messages of one kind that came together, in the order sent: what
// they make this agent say can go out together too. The payloads are valid only
// during the call. Calls for one lane of one peer come in order, one at a time,
// from the goroutine that reads its connection: a handler that waits holds up that
// peer's lane, and for longer than the patience with pings looks dead to it.
type Handler func(from Hello, payloads [][]byte)

// CallHandler answers one call, in a goroutine of its own. Its context ends
// when the caller gave up, the caller's deadline passed or the connection broke.
type CallHandler func(ctx context.Context, from Hello, body []byte) ([]byte, error)

// Transport is this agent's end of all connections with other agents.
type Transport struct {
	opts  Options
	log   hclog.Logger
	group *stopper.Group
	raft  *RaftLayer

	handlers      [256]Handler // fixed once Run is called, as are the next three
	callHandlers  [256]CallHandler
	onUnreachable func(Unreachable)
	onConnected   func(Hello, Peer, Lane)

	senders  atomic.Pointer[map[senderKey]*sender] // copied on change, so that Send takes no shared lock
	mu       sync.Mutex                            // guards changes of senders, and all below
	callers  map[string]*caller
	inbound  map[inboundKey]*inbound
	conns    map[net.Conn]struct{} // accepted and served here
	greeting int                   // how many of them have not said who they are
	closed   bool

	stats counters
}

type senderKey struct {
	peer Peer
	lane Lane
}

// New returns a transport that serves the listener of opts once Run is called.
// Handlers are registered between the two. The transport owns the listener.
func New(opts Options, log hclog.Logger) *Transport {
	t := &Transport{
		opts:    opts.withDefaults(),
		log:     log.Named("wire"),
		group:   stopper.New(),
		callers: map[string]*caller{},
		inbound: map[inboundKey]*inbound{},
		conns:   map[net.Conn]struct{}{},
	}
	t.senders.Store(&map[senderKey]*sender{})
	t.raft = newRaftLayer(t)
	return t
}

// Handle registers the handler of a kind; kind 0 belongs to the transport.
func (t *Transport) Handle(kind byte, h Handler) {
	if kind == kindPing || t.handlers[kind] != nil {
		panic(fmt.Sprintf("wire: kind %d is taken", kind))
	}
	t.handlers[kind] = h
}

// HandleCall registers the handler of a method.
func (t *Transport) HandleCall(method byte, h CallHandler) {
	if t.callHandlers[method] != nil {
		panic(fmt.Sprintf("wire: method %d is taken", method))
	}
	t.callHandlers[method] = h
}

// OnUnreachable registers a function that is told of every failed attempt to
// reach a peer. It is called from many goroutines and must not wait.
func (t *Transport) OnUnreachable(f func(Unreachable)) { t.onUnreachable = f }

// OnConnected registers a function that is told of every connection made to a
// peer for messages: what had been sent before may be lost. It is called from
// many goroutines and must not wait.
func (t *Transport) OnConnected(f func(hello Hello, to Peer, lane Lane)) { t.onConnected = f }

// RaftLayer returns the stream layer to give to raft.NewNetworkTransport.
func (t *Transport) RaftLayer() *RaftLayer { return t.raft }

// Addr returns the listener's address.
func (t *Transport) Addr() net.Addr { return t.opts.Listener.Addr() }

// Send queues a message and returns. The payload is copied. ErrFull,
// ErrTooLarge, a RefusedError and ErrClosed mean that it was dropped; nil does
// not mean that it will arrive. It must be Foreground or Bulk.
func (t *Transport) Send(to Peer, lane Lane, kind byte, payload []byte) error {
	_, err := t.send(senderKey{to, lane}, kind, payload, true)
	return err
}

// send returns the sender that took the message, if one did.
func (t *Transport) send(key senderKey, kind byte, payload []byte, flush bool) (*sender, error) {
	if 1+len(payload) > t.opts.MaxFrame {
		t.stats.dropped.Add(1)
		return nil, ErrTooLarge
	}
	for {
		s := (*t.senders.Load())[key]
		if s == nil {
			var err error
			if s, err = t.newSender(key); err != nil {
				return nil, err
			}
		}
		err := s.out.push(kind, nil, payload, flush)
		if err == errRetired {
			t.forget(key, s)
			continue
		}
		if err != nil {
			t.stats.dropped.Add(1)
			return nil, err
		}
		return s, nil
	}
}

func (t *Transport) newSender(key senderKey) (*sender, error) {
	if key.lane != Foreground && key.lane != Bulk {
		panic("wire: messages travel by the foreground or the bulk lane")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old := *t.senders.Load()
	if s := old[key]; s != nil {
		return s, nil
	}
	s := &sender{t: t, peer: key.peer, lane: key.lane, out: newOutbox(t.opts.QueueBytes)}
	started := t.group.Go(func(ctx context.Context) {
		s.run(ctx)
		s.out.refuse(errRetired)
		t.forget(key, s)
	})
	if !started {
		return nil, ErrClosed
	}
	next := maps.Clone(old)
	next[key] = s
	t.senders.Store(&next)
	return s, nil
}

func (t *Transport) forget(key senderKey, s *sender) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := *t.senders.Load()
	if old[key] != s {
		return
	}
	next := maps.Clone(old)
	delete(next, key)
	t.senders.Store(&next)
}

// dial connects and greets. Its errors unwrap to ErrUnreachable or ctx's.
func (t *Transport) dial(ctx context.Context, addr string, lane Lane, w want) (net.Conn, Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, t.opts.DialTimeout)
	defer cancel()
	conn, err := t.opts.Dial(ctx, addr)
	if err != nil {
		return nil, Hello{}, fmt.Errorf("dial %s: %w: %w", addr, ErrUnreachable, err)
	}
	// The greeting has a deadline of its own; this ends it when ctx does.
	release := context.AfterFunc(ctx, func() { conn.Close() })
	hello, err := greet(conn, t.opts.Self(), lane, w, t.opts.HandshakeTimeout)
	if !release() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, Hello{}, fmt.Errorf("dial %s: %w: %w", addr, ErrUnreachable, err)
	}
	return conn, hello, nil
}

func (t *Transport) link(conn net.Conn, out *outbox, lane Lane) *link {
	l := &link{conn: conn, out: out, max: t.opts.MaxFrame, ping: t.opts.PingInterval,
		patience: t.opts.PingTimeout, write: t.opts.WriteTimeout, idle: t.opts.IdleTimeout}
	if lane == Bulk {
		// A ping waits behind what the kernel has buffered, on a slow line for
		// seconds; the foreground lane tells sooner who is dead.
		l.patience *= bulkPatience
	}
	return l
}

func (t *Transport) unreachable(u Unreachable) {
	t.stats.unreachable.Add(1)
	if t.onUnreachable != nil {
		t.onUnreachable(u)
	}
}

func (t *Transport) connected(h Hello, p Peer, l Lane) {
	if t.onConnected != nil {
		t.onConnected(h, p, l)
	}
}

// Run accepts connections until ctx ends or Close is called, then closes the
// transport; it returns when all its goroutines have ended.
func (t *Transport) Run(ctx context.Context) error {
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		t.opts.Listener.Close()
	})
	defer func() {
		if !stop() {
			<-closed
		}
	}()
	err := t.accept()
	if ctx.Err() != nil || t.isClosed() {
		err = nil
	}
	t.Close()
	return err
}

// isClosed reports whether Close was called; the listener ends after that.
func (t *Transport) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

func (t *Transport) accept() error {
	var delay time.Duration
	for {
		conn, err := t.opts.Listener.Accept()
		if err == nil {
			delay = 0
			t.serve(conn)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept: %w", err)
		}
		// Out of file descriptors, as a rule: it passes.
		t.log.Error("cannot accept connections", "error", err)
		delay = min(max(2*delay, 5*time.Millisecond), time.Second)
		timer := time.NewTimer(delay)
		select {
		case <-t.group.Done():
			timer.Stop()
			return fmt.Errorf("accept: %w", err)
		case <-timer.C:
		}
	}
}

// Close ends all connections and waits for all goroutines but that of Run. It
// may be called more than once, and not from a handler.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	conns := t.conns
	t.conns = map[net.Conn]struct{}{}
	t.mu.Unlock()
	err := t.opts.Listener.Close()
	t.raft.Close()
	for conn := range conns {
		conn.Close()
	}
	t.group.Stop()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
