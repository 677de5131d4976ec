package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/http1"
	"github.com/rondel-project/rondel/agent/http2"
)

const (
	lingerFor   = 2 * time.Second
	stayFor     = 100 * time.Millisecond // with a goroutine, after a request that was none for a loop
	retainedOut = 32 << 10
)

// conn is one client connection. Its goroutine reads a request, has it
// answered, and reads the next.
type conn struct {
	p      *Proxy
	home   *loopClient // to which it returns when it has nothing to do; nil: none
	in     *http1.Conn
	opens  bool        // something comes ahead of the first request, see open
	secure *tls.Config // what open speaks; nil: no TLS
	peer   *peer
	req    http1.Request
	out    []byte // what is being put together to be written, to either side
	memo   *memo
	stream *conn // the HTTP/2 connection whose streams come here; nil: HTTP/1
	x      exchange

	inFrom, outFrom int64 // bytes read and written before the present request

	mu      sync.Mutex    // guards the rest
	idle    bool          // waiting for a request
	up      *http1.Conn   // that the present request uses
	dead    bool          // aborted
	streams *http2.Server // it speaks HTTP/2

	rested  bool // it has been served before
	evicted bool // it had to make room for another one
}

func newConn(p *Proxy, nc net.Conn, peer *peer, secure *tls.Config) *conn {
	c := &conn{p: p, secure: secure, peer: peer, memo: &memo{}, idle: true}
	buffer := clientBuffer
	if c.opens = secure != nil || p.config().PeerHeader != PeerHeaderOff; c.opens {
		buffer = 0 // nothing is read into it before that
	}
	c.in = http1.NewConn(nc, buffer)
	return c
}

// serve answers requests until either side wants no more. It reports false
// where the connection has not ended but gone back to its event loop.
func (c *conn) serve(h handed) (ended bool) {
	if c.opens {
		c.opens = false
		switch {
		case !c.open(c.p.config()):
			c.in.Close()
			return true
		case c.negotiated(protocolHTTP2):
			c.serveHTTP2("")
			return true
		case c.secure == nil && c.p.loops.adopt(c):
			return false
		}
	}
	linger, back := h.linger, false
	switch {
	case h.refused != nil:
		linger = c.refuse(h.refused, c.p.config())
	case !h.linger:
		linger, back = c.converse(h)
	}
	if back {
		return false
	}
	if linger {
		c.linger()
	}
	c.in.Close()
	return true
}

// converse reads requests and has them answered; the first one may have been
// begun elsewhere. At the end it reports whether the client has yet to be
// listened to, or has gone back to its loop.
func (c *conn) converse(h handed) (linger, back bool) {
	first, resume, odd := c.home == nil, h.resume, h.odd
	for {
		if resume == nil {
			snap := c.p.snap.Load()
			wait := snap.cfg.Timeouts.Idle
			switch {
			case first:
				wait = snap.cfg.Timeouts.Header
			case c.home != nil:
				wait = stayFor
			}
			c.inFrom, c.outFrom = c.in.Consumed(), c.in.Sent()
			c.in.ReadWithin(time.Now(), wait)
			if c.p.draining.Load() && c.stream == nil { // looked at after the deadline, which undoes endIfIdle's
				return false, false
			}
			head, err := c.in.ReadHead(http1.Limits{Head: snap.cfg.Limits.RequestHead, Time: snap.cfg.Timeouts.Header})
			if c.home != nil && timeout(err) && c.in.Buffered() == 0 && c.goHome() {
				return false, true
			}
			c.busy()
			if err == nil {
				err = c.req.Parse(head)
			}
			if err != nil {
				return c.refuse(err, &snap.cfg), false
			}
			odd = !c.plain() && !c.gathers(len(head))
		}
		if keep := c.answer(resume); !keep {
			if c.x.switched {
				return false, c.tunnel()
			}
			return !c.x.body.Done() || c.in.Buffered() > 0, false
		}
		first, resume = false, nil
		odd = odd || c.x.inst != nil && !c.x.inst.key.plain()
		if !c.rest() {
			return false, false
		}
		if c.home != nil && !odd && c.goHome() {
			return false, true
		}
	}
}

// answer has the request answered that was just read, or goes on with it by
// resume. Only meanwhile the connection holds a buffer to write from: most
// connections wait, most of the time.
func (c *conn) answer(resume func() (keep bool)) (keep bool) {
	buf := c.p.outs.Get().(*[]byte)
	c.out = (*buf)[:0]
	if resume != nil {
		keep = resume()
	} else {
		keep = c.fresh()
	}
	if cap(c.out) <= retainedOut {
		*buf = c.out
		c.p.outs.Put(buf)
	}
	c.out = nil
	return keep
}

// refuse answers a request that could not be read, unless the client just
// left, or begins to speak HTTP/2. It reports whether anything was answered.
func (c *conn) refuse(err error, cfg *Config) bool {
	if c.prefaced(err, cfg) {
		c.serveHTTP2(prefaceHead)
		return false
	}
	var bad *http1.Error
	status, reason := 0, ""
	switch {
	case errors.As(err, &bad):
		status, reason = bad.Status, bad.Reason
	case timeout(err) && c.in.Buffered() > 0 && !c.p.draining.Load():
		status, reason = http.StatusRequestTimeout, "the request head took too long"
	default:
		return false
	}
	level := hclog.Debug
	if status == http.StatusRequestURITooLong || status == http.StatusRequestHeaderFieldsTooLarge {
		level = hclog.Info // someone may want another limit
	}
	c.p.log.Log(level, "request refused", "addr", c.peer.addr, "status", status,
		"limit", cfg.Limits.RequestHead, "received", c.in.Buffered(), "error", reason)
	c.in.WriteWithin(time.Now(), cfg.Timeouts.Body)
	_, err = c.in.Write(appendAnswer(nil, answer{status: status, text: reason, date: c.p.date.at(time.Now()), close: true, body: true}))
	c.noteRefused(status)
	return err == nil
}

// linger reads on for a while after an answer that came before the client had
// said all: closing with unread bytes would reset the connection, and the client might never see that answer.
func (c *conn) linger() {
	if c.in.CloseWrite() != nil {
		return
	}
	c.in.SetReadDeadline(time.Now().Add(lingerFor))
	c.in.Release()
	for {
		c.in.Discard(c.in.Buffered())
		if c.in.Fill() != nil {
			return
		}
	}
}

// busy notes that a request has come.
func (c *conn) busy() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = false
	if c.p.draining.Load() || c.evicted {
		c.in.Resume() // endIfIdle may have come a moment too late, and so may evict
	}
	c.evicted = false
}

// rest notes that the connection waits for the next request, and reports
// whether it may.
func (c *conn) rest() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle, c.rested = true, true
	return !c.dead && !c.p.draining.Load()
}

// endIfIdle makes a connection that waits for a request end.
func (c *conn) endIfIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.streams != nil:
		c.streams.Shutdown()
	case c.idle && c.stream == nil: // streams are ended by their connection, which knows whether one has just begun
		c.in.Interrupt()
	}
}

// use notes the connection to an instance, so that abort can end it too. It
// reports false when the client connection was aborted meanwhile.
func (c *conn) use(up *http1.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.up = up
	return !c.dead
}

// abort ends the connection and what it waits for.
func (c *conn) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
	if t, ok := c.in.Conn.(*tls.Conn); ok {
		t.NetConn().Close() // TLS would say goodbye first, and wait if it cannot
	}
	c.in.Close()
	if c.up != nil {
		c.up.Close()
	}
}

// aborted reports whether abort was called.
func (c *conn) aborted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

func timeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// departed reports whether an error means that the other side is no longer there,
// as opposed to slow.
func departed(err error) bool {
	return err != nil && !timeout(err) && !errors.Is(err, io.ErrShortBuffer)
}
