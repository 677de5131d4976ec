package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

// inboundKey names the one connection from which a lane of a peer is read.
type inboundKey struct {
	id   member.ID
	boot member.Boot
	lane Lane
}

type inbound struct {
	conn io.Closer
	done chan struct{} // closed when no handler will be called any more
}

// serve starts the life of an accepted connection.
func (t *Transport) serve(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		// Only the dialling end pings; this finds those that vanished.
		err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true,
			Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3})
		if err != nil {
			t.log.Debug("cannot set keep-alive", "addr", conn.RemoteAddr().String(), "error", err)
		}
	}
	if !t.track(conn) {
		conn.Close()
		return
	}
	started := t.group.Go(func(ctx context.Context) {
		kept := t.serveConn(ctx, conn)
		t.untrack(conn)
		if !kept {
			conn.Close()
		}
	})
	if !started {
		conn.Close()
	}
}

// track makes Close end the connection. It reports false when too many have not
// greeted yet, or the transport is closed.
func (t *Transport) track(conn net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.greeting >= t.opts.MaxGreetings {
		return false
	}
	t.greeting++
	t.conns[conn] = struct{}{}
	return true
}

func (t *Transport) untrack(conn net.Conn) {
	t.mu.Lock()
	delete(t.conns, conn)
	t.mu.Unlock()
}

// serveConn reports whether somebody else owns the connection now.
func (t *Transport) serveConn(ctx context.Context, conn net.Conn) (kept bool) {
	addr := conn.RemoteAddr().String()
	lane, from, err := welcome(conn, t.opts.Self(), t.opts.HandshakeTimeout)
	t.mu.Lock()
	t.greeting--
	t.mu.Unlock()
	var refused *RefusedError
	switch {
	case ctx.Err() != nil:
		return false
	case errors.As(err, &refused):
		t.stats.turned.Add(1)
		t.log.Debug("turned away a connection", "addr", addr, "member", from.ID, "lane", lane.String(),
			"reason", refused.Reason.String())
		return false
	case err == io.EOF:
		return false // somebody looked whether the port is open
	case err != nil:
		t.stats.broken.Add(1)
		t.log.Warn("closed a connection without a greeting", "addr", addr, "error", err)
		return false
	}
	switch lane {
	case Raft:
		return t.raft.offer(ctx, conn)
	case Call:
		err = t.serveCalls(ctx, conn, from)
	default:
		err = t.serveLane(ctx, conn, from, lane)
	}
	if errors.Is(err, errBadFrame) {
		t.stats.broken.Add(1)
		t.log.Warn("closed a connection for a broken frame", "addr", addr, "member", from.ID,
			"lane", lane.String(), "error", err)
	}
	return false
}

// serveLane reads messages until the connection ends. A new connection of the
// same lane ends the one before it first: what that still held counts as lost,
// so that nothing overtakes.
func (t *Transport) serveLane(ctx context.Context, conn net.Conn, from Hello, lane Lane) error {
	key := inboundKey{from.ID, from.Boot, lane}
	var looped *loopedLane
	if lane == Foreground { // what is bulky must hold up nobody
		looped = t.loopLane(conn, from)
	}
	in := &inbound{conn: conn, done: make(chan struct{})}
	if looped != nil {
		in.conn = looped
	}
	t.mu.Lock()
	before := t.inbound[key]
	t.inbound[key] = in
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		if t.inbound[key] == in {
			delete(t.inbound, key)
		}
		t.mu.Unlock()
		close(in.done)
	}()
	if before != nil {
		before.conn.Close()
		<-before.done
	}
	if looped != nil {
		return looped.run(ctx)
	}
	return t.readLane(ctx, conn, from)
}

func (t *Transport) readLane(ctx context.Context, conn net.Conn, from Hello) error {
	r := newFrameReader(reader(conn), t.opts.MaxFrame)
	b := batch{t: t, from: from}
	for {
		pings, err := b.take(r)
		if err != nil {
			return err
		}
		if pings > 0 {
			if err := t.pong(conn); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.fill(); err != nil {
			return err
		}
	}
}

// batch is the messages of one kind that came with one read.
type batch struct {
	t        *Transport
	from     Hello
	kind     byte
	payloads [][]byte
}

// take handles all frames that a reader has, and returns how many were pings.
func (b *batch) take(r *frameReader) (pings int, err error) {
	defer b.handle()
	for {
		kind, payload, ok, err := r.next()
		switch {
		case err != nil, !ok:
			return pings, err
		case kind == kindPing:
			pings++
		default:
			b.add(kind, payload)
		}
	}
}

func (b *batch) add(kind byte, payload []byte) {
	if kind != b.kind {
		b.handle()
	}
	b.kind, b.payloads = kind, append(b.payloads, payload)
}

func (b *batch) handle() {
	if len(b.payloads) == 0 {
		return
	}
	// A kind of a later version is passed over.
	if h := b.t.handlers[b.kind]; h != nil {
		h(b.from, b.payloads)
	}
	clear(b.payloads)
	b.payloads = b.payloads[:0]
}

func (t *Transport) pong(conn net.Conn) error {
	if err := conn.SetWriteDeadline(time.Now().Add(t.opts.WriteTimeout)); err != nil {
		return err
	}
	_, err := conn.Write(appendFrame(nil, kindPing, nil, nil))
	return err
}
