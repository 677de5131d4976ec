package proxy

import (
	"net"
	"time"

	"github.com/rondel-project/rondel/agent/internal/netloop"
)

// handed is what the goroutine has to do first that gets a connection from an
// event loop. At most one of the first three is set.
type handed struct {
	resume  func() (keep bool) // goes on with a request
	refused error              // by the request's head
	linger  bool               // all was answered

	odd bool // the request is none for a loop: others like it will follow
}

// leave gives the client a goroutine, and so the connection to the instance
// that its request is at.
func (l *loopClient) leave(h handed) {
	c, p, u := l.c, l.w.p, l.u
	l.part()
	if c == nil {
		c = l.w.work(l)
	}
	l.c, l.u = nil, nil
	if u != nil && u.open {
		if err := u.leave(); err != nil {
			p.log.Warn("a connection to an instance could not leave its event loop", "error", err)
		}
	}
	nc, err := netloop.Give(l.fd)
	if err != nil {
		p.log.Warn("a connection could not leave its event loop", "error", err)
		nc = broken{err}
	}
	c.in.Become(nc, clientBuffer)
	c.idle, c.dead, c.rested, c.evicted = false, false, false, false
	p.connMu.Lock()
	p.conns[c] = struct{}{}
	if p.loops.cut.Load() {
		c.abort()
	}
	p.connMu.Unlock()
	go p.carry(c, h)
}

// home takes the connection back into its loop. It reports false where that is
// not possible, and otherwise c is not the caller's any more.
func (c *conn) goHome() bool {
	p, l := c.p, c.home
	if p.draining.Load() {
		return false
	}
	p.connMu.Lock()
	c.mu.Lock()
	dead := c.dead
	if !dead {
		delete(p.conns, c)
	}
	c.mu.Unlock()
	p.connMu.Unlock()
	if dead {
		return false
	}
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	fd, ok := netloop.Take(c.in.Conn)
	if !ok {
		c.in.Close()
		c.peer.leave()
		p.wg.Done()
		return true
	}
	l.fd = fd
	c.in.Conn = l
	l.c = c
	l.since = time.Now()
	l.join()
	return true
}

// resume goes on in a goroutine with a try that came to an outcome in a loop.
func (l *loopClient) resume(o outcome) {
	x := &l.c.x
	l.leave(handed{resume: func() bool { return x.resume(o) }})
}

// resumeAwaiting goes on in a goroutine with waiting for the answer.
func (l *loopClient) resumeAwaiting() {
	x := &l.c.x
	l.leave(handed{resume: func() bool { return x.resume(x.await(x.began)) }})
}

func (x *exchange) resume(o outcome) (keep bool) {
	again, keep := x.outcome(o)
	if again {
		keep = x.attempts()
	}
	x.finish()
	return keep
}

// resumeSending goes on with the rest of a first write.
func (x *exchange) resumeSending(rest []byte) (keep bool) {
	now := time.Now()
	x.up.WriteWithin(now, x.rt.Timeouts.Send)
	n, err := x.up.Write(rest)
	if n > 0 || err == nil { // the loop may not have got rid of a single byte
		x.wrote(n, err)
	}
	if timeout(err) {
		return x.resume(timedOut)
	}
	return x.resume(x.await(now))
}

// fresh answers a request of which no more has happened than that it was read.
func (c *conn) fresh() (keep bool) {
	c.x.begin(c)
	return c.x.serve()
}

// attempts goes on with a request that no instance was asked for.
func (c *conn) attempts() (keep bool) {
	keep = c.x.attempts()
	c.x.finish()
	return keep
}

// broken is a connection that could not be made from its descriptor.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error)         { return 0, b.err }
func (b broken) Write([]byte) (int, error)        { return 0, b.err }
func (b broken) Close() error                     { return nil }
func (b broken) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (b broken) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (b broken) SetDeadline(time.Time) error      { return nil }
func (b broken) SetReadDeadline(time.Time) error  { return nil }
func (b broken) SetWriteDeadline(time.Time) error { return nil }
