package agenttest

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// window is how many bytes may be under way in one direction, as in a socket's
// buffers.
const window = 1 << 20

// pipe is one direction of a connection. What is written arrives after the
// link's delay; while the link is cut it waits, as TCP would send it again.
type pipe struct {
	from, to netip.Addr

	mu       sync.Mutex    // guards all below
	changed  chan struct{} // closed when something has changed for those who wait
	waiting  int
	queue    []segment
	size     int
	lastDue  time.Time
	delay    time.Duration
	held     bool // the link is cut
	finished bool // the writer has closed its end
	reset    bool // the connection is gone: one end closed it, or died
	readBy   time.Time
	writeBy  time.Time

	count *atomic.Int64 // of bytes written; nil: not counted
}

type segment struct {
	due  time.Time
	data []byte
}

func newPipe(from, to netip.Addr, delay time.Duration, held bool) *pipe {
	return &pipe{from: from, to: to, delay: delay, held: held, changed: make(chan struct{})}
}

// set changes the pipe's state and wakes who waits for that.
func (p *pipe) set(f func()) {
	p.mu.Lock()
	f()
	p.wakeLocked()
	p.mu.Unlock()
}

func (p *pipe) wakeLocked() {
	if p.waiting > 0 {
		close(p.changed)
		p.changed, p.waiting = make(chan struct{}), 0
	}
}

// waitLocked waits for a change, or until the first of the times that are not
// zero. There is no goroutine for each byte and each deadline, which are many.
func (p *pipe) waitLocked(times ...time.Time) {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	p.waiting++
	changed := p.changed
	p.mu.Unlock()
	defer p.mu.Lock()
	if first.IsZero() {
		<-changed
		return
	}
	timer := time.NewTimer(time.Until(first))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

func passed(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

func (p *pipe) read(b []byte, closed *bool) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		var due time.Time
		switch {
		case *closed:
			return 0, net.ErrClosed
		case passed(p.readBy):
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case p.held:
		case len(p.queue) > 0 && !p.queue[0].due.After(time.Now()):
			n := copy(b, p.queue[0].data)
			p.size -= n
			if p.queue[0].data = p.queue[0].data[n:]; len(p.queue[0].data) == 0 {
				p.queue = p.queue[1:]
			}
			p.wakeLocked()
			return n, nil
		case len(p.queue) > 0 && !p.reset:
			due = p.queue[0].due
		case p.reset:
			return 0, syscall.ECONNRESET
		case p.finished && len(p.queue) == 0:
			return 0, io.EOF
		}
		p.waitLocked(due, p.readBy)
	}
}

func (p *pipe) write(b []byte, closed *bool) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case *closed:
			return 0, net.ErrClosed
		case passed(p.writeBy):
			return 0, os.ErrDeadlineExceeded
		case p.reset && !p.held:
			return 0, syscall.EPIPE
		case p.size+len(b) <= window || p.size == 0:
			due := time.Now().Add(p.delay)
			if due.Before(p.lastDue) {
				due = p.lastDue
			}
			p.lastDue = due
			p.queue = append(p.queue, segment{due, append([]byte(nil), b...)})
			p.size += len(b)
			if p.count != nil {
				p.count.Add(int64(len(b)))
			}
			p.wakeLocked()
			return len(b), nil
		}
		p.waitLocked(p.writeBy)
	}
}

// conn is one end of a connection.
type conn struct {
	in, out       *pipe
	local, remote netip.AddrPort
	forget        func()
	other         *conn

	// Guarded by the lock of the pipe that looks at it.
	closedIn, closedOut bool
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) { return c.in.read(b, &c.closedIn) }

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) { return c.out.write(b, &c.closedOut) }

// Close implements net.Conn. What was written before still arrives.
func (c *conn) Close() error {
	c.out.set(func() { c.closedOut, c.out.finished = true, true })
	c.in.set(func() { c.closedIn, c.in.reset = true, true })
	// A cut link keeps what was written before: it arrives when that is mended,
	// unless the other end is closed by then.
	closed, kept := false, false
	c.other.out.set(func() { closed = c.other.closedOut })
	c.out.set(func() { kept = len(c.out.queue) > 0 })
	if closed || !kept {
		c.forget()
	}
	if closed {
		c.other.forget()
	}
	return nil
}

// die ends the connection as the death of its process does.
func (c *conn) die() {
	c.out.set(func() { c.closedOut, c.out.reset, c.out.queue = true, true, nil })
	c.in.set(func() { c.closedIn, c.in.reset = true, true })
	c.forget()
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.local) }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.set(func() { c.in.readBy = t })
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.set(func() { c.out.writeBy = t })
	return nil
}
