package wire

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rondel-project/rondel/agent/member"
)

// RaftLayer is the raft lane as hashicorp/raft wants it: raft.StreamLayer.
// Closing it closes every connection that came through it, since raft leaves
// accepted ones open.
type RaftLayer struct {
	t      *Transport
	accept chan net.Conn
	done   chan struct{}

	mu     sync.Mutex // guards all below
	conns  map[*raftConn]struct{}
	closed bool
}

var _ raft.StreamLayer = (*RaftLayer)(nil)

func newRaftLayer(t *Transport) *RaftLayer {
	return &RaftLayer{t: t, accept: make(chan net.Conn), done: make(chan struct{}), conns: map[*raftConn]struct{}{}}
}

// offer hands an accepted connection to whoever calls Accept, and waits for
// that no longer than a greeting may take.
func (r *RaftLayer) offer(ctx context.Context, conn net.Conn) bool {
	timer := time.NewTimer(r.t.opts.HandshakeTimeout)
	defer timer.Stop()
	select {
	case r.accept <- conn:
		return true
	case <-timer.C:
	case <-r.done:
	case <-ctx.Done():
	}
	return false
}

// Accept waits for a connection from another agent's raft.
func (r *RaftLayer) Accept() (net.Conn, error) {
	select {
	case conn := <-r.accept:
		return r.track(conn)
	case <-r.done:
		return nil, net.ErrClosed
	}
}

// Dial connects to the raft of whatever agent is at the address.
func (r *RaftLayer) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return r.DialServer("", string(addr), timeout)
}

// DialServer connects to the raft of one agent; another at its address refuses.
func (r *RaftLayer) DialServer(id member.ID, addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, _, err := r.t.dial(ctx, addr, Raft, want{id: id})
	if err != nil {
		return nil, err
	}
	return r.track(conn)
}

// Addr returns the address of the transport's listener.
func (r *RaftLayer) Addr() net.Addr { return r.t.Addr() }

// Close ends Accept and all connections; the transport serves the other lanes
// on.
func (r *RaftLayer) Close() error {
	r.mu.Lock()
	conns := r.conns
	if !r.closed {
		r.closed = true
		close(r.done)
	}
	r.conns = map[*raftConn]struct{}{}
	r.mu.Unlock()
	for c := range conns {
		c.Conn.Close()
	}
	return nil
}

func (r *RaftLayer) track(conn net.Conn) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		conn.Close()
		return nil, fmt.Errorf("raft connection: %w", net.ErrClosed)
	}
	c := &raftConn{Conn: unwatched(conn), layer: r}
	r.conns[c] = struct{}{}
	return c, nil
}

// raftConn forgets itself when it is closed.
type raftConn struct {
	net.Conn
	layer *RaftLayer
}

// Close closes the connection.
func (c *raftConn) Close() error {
	c.layer.mu.Lock()
	delete(c.layer.conns, c)
	c.layer.mu.Unlock()
	return c.Conn.Close()
}
