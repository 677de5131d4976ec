package http2

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// pipe is an in-memory connection on which requests come, or go, one after
// the other, each as a stream. At most one goroutine reads and one writes.
type pipe struct {
	mu   *sync.Mutex // guards the rest; that of the connection
	host host
	m    *mux
	s    *stream // the request under way, or the last one
	held bool    // a stream of m is promised
	in   []byte  // received, as HTTP/1.1; in[r:] is unread
	r    int

	rd, wr waiter
	closed bool
	why    http2.ErrCode // of a request that is given up at the end; NO_ERROR: what Close finds
	over   bool          // nothing will come any more

	o outgoing // used by the writer alone
}

// host is what differs between the pipes of the two ends. The lock is held in
// its methods.
type host interface {
	done(p *pipe)   // a request has ended at both ends, and all of it was read
	closed(p *pipe) // its user has
	// head sends the head that was written to p, whose body begins with rest.
	head(p *pipe, head, rest []byte) (used int, err error)
}

func newPipe(mu *sync.Mutex, h host, m *mux) *pipe {
	p := &pipe{mu: mu, host: h, m: m}
	p.rd.cond.L, p.wr.cond.L = mu, mu
	return p
}

// Read returns what the peer sent, as HTTP/1.1.
func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.closed {
			return 0, net.ErrClosed
		}
		if p.rd.late() {
			return 0, os.ErrDeadlineExceeded
		}
		s := p.s
		switch {
		case s == nil:
		case s.err != nil && !p.answered():
			return 0, s.err
		case p.r < len(p.in):
			n := copy(b, p.in[p.r:])
			if p.r += n; p.r == len(p.in) {
				p.in, p.r = p.in[:0], 0
			}
			s.readLocked(n)
			s.m.kickLocked()
			return n, nil
		case s.got && s.body == tunnel:
			return 0, io.EOF
		case s.got && s.sent:
			p.host.done(p)
		}
		if p.over && p.s == nil {
			return 0, io.EOF
		}
		if err := p.rd.wait(); err != nil {
			return 0, err
		}
	}
}

// answered reports whether a whole answer is here that has yet to be read. It
// counts although its request was cut short: instances that have said all there
// is to say reset what they do not want of an upload (RFC 9113, section 8.1).
func (p *pipe) answered() bool {
	_, client := p.host.(*Client)
	return client && p.s.got && p.r < len(p.in)
}

// Write sends HTTP/1.1 on its way. It waits for the peer's window.
func (p *pipe) Write(b []byte) (int, error) {
	rest := b
	var err error
	for len(rest) > 0 && err == nil {
		var n int
		n, err = p.o.step(p, rest)
		rest = rest[n:]
	}
	p.mu.Lock()
	if p.s != nil {
		p.s.m.flushLocked()
	}
	p.mu.Unlock()
	return len(b) - len(rest), err
}

// beginLocked makes the pipe ready for another request.
func (p *pipe) beginLocked(s *stream) {
	p.s, p.r, p.over = s, 0, false
	if p.in = p.in[:0]; cap(p.in) > outEnough {
		p.in = nil
	}
	s.p = p
	p.rd.cond.Broadcast()
}

// clearLocked waits until something may be sent on s.
func (p *pipe) clearLocked(s *stream) error {
	for {
		switch {
		case p.closed:
			return net.ErrClosed
		case s.err != nil:
			return s.err
		case s.sent:
			return errBeyond
		case p.wr.late():
			return os.ErrDeadlineExceeded
		case len(s.m.out) < outEnough:
			return nil
		}
		if err := p.blockLocked(s.m); err != nil {
			return err
		}
	}
}

// blockLocked waits until something has changed at m.
func (p *pipe) blockLocked(m *mux) error {
	if !m.writing && len(m.out) > 0 {
		m.flushLocked()
		return nil
	}
	m.blocked[p] = struct{}{}
	err := p.wr.wait()
	delete(m.blocked, p)
	return err
}

// data sends a piece of a body.
func (p *pipe) data(b []byte, end bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.s
	for {
		if err := p.clearLocked(s); err != nil {
			return err
		}
		m := s.m
		n := min(int64(len(b)), int64(m.frame), s.window, m.window)
		if n <= 0 && len(b) > 0 {
			if err := p.blockLocked(m); err != nil {
				return err
			}
			continue
		}
		last := end && int(n) == len(b)
		m.out = appendFrame(m.out, int(n), 0, flagEnd(last), s.id)
		m.out = append(m.out, b[:n]...)
		s.window -= n
		m.window -= n
		if b = b[n:]; len(b) > 0 {
			continue
		}
		if last {
			s.sentLocked()
		}
		return nil
	}
}

// CloseWrite ends this side of a tunnel.
func (p *pipe) CloseWrite() error {
	p.mu.Lock()
	s := p.s
	open := s != nil && s.body == tunnel && p.o.state == inTunnel
	p.mu.Unlock()
	if !open {
		return errNoTunnel
	}
	if err := p.data(nil, true); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.m.flushLocked()
	return nil
}

// CloseFor is Close for an answer that err keeps from being whole. Where that is
// an instance's [ResetError], the client's stream is reset for the same reason,
// as far as it is one between the two: what an instance says of itself, of its
// connection, or of not having looked at the request would be wrong of this one.
func (p *pipe) CloseFor(err error) error {
	var reset *ResetError
	if errors.As(err, &reset) && (reset.Code == http2.ErrCodeCancel || reset.Code == http2.ErrCodeEnhanceYourCalm) {
		p.mu.Lock()
		p.why = reset.Code
		p.mu.Unlock()
	}
	return p.Close()
}

// Close ends the request under way, if there is one, and the pipe.
func (p *pipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	p.closed = true
	p.host.closed(p)
	if s := p.s; s != nil {
		m := s.m
		if m.owedLocked(s.owed); m.err == nil {
			m.kickLocked()
		}
		s.owed = 0
	}
	p.in = nil
	p.rd.stop()
	p.wr.stop()
	return nil
}

// SetDeadline implements net.Conn.
func (p *pipe) SetDeadline(t time.Time) error {
	p.rd.set(t)
	p.wr.set(t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (p *pipe) SetReadDeadline(t time.Time) error {
	p.rd.set(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (p *pipe) SetWriteDeadline(t time.Time) error {
	p.wr.set(t)
	return nil
}

// LocalAddr implements net.Conn: that of the connection below.
func (p *pipe) LocalAddr() net.Addr { return p.below().LocalAddr() }

// RemoteAddr implements net.Conn.
func (p *pipe) RemoteAddr() net.Addr { return p.below().RemoteAddr() }

func (p *pipe) below() net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.m.nc
}
