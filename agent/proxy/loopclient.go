package proxy

import (
	"errors"
	"net"
	"os"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
	"github.com/rondel-project/rondel/agent/internal/netloop"
)

type loopState uint8

const (
	reading  loopState = iota // a request, or waiting for one
	awaiting                  // the head of its answer
	relaying                  // the answer
	gone                      // out of the loop
)

// loopClient is a client connection in an event loop. The worker's lock guards
// it. As a net.Conn, for the http1.Conn above it, it reads without waiting.
type loopClient struct {
	socket
	w     *worker
	index int // in w.clients
	peer  *peer
	memo  memo

	state   loopState
	head    time.Time // when the request's head began to arrive; zero: it has not
	more    bool      // something has arrived since the last read
	hup     bool      // the client has ended its half
	served  bool      // it has had an answer
	since   time.Time // it waits for what state says
	c       *conn     // what the request is worked at with; nil between requests
	u       *loopInst // that the request is at
	unsent  []byte    // of the answer, what the client has not taken
	failure error     // that ends the answer's body
	moved   bool      // something of the body has passed since since
	quiet   bool      // nothing has for long
	full    bool      // it has not taken all of the answer at once
	rests   bool      // the request's head is here, and the rest of its body is waited for
	slow    bool      // the answer has taken longer than the clock need not be asked for

	awaited       bool // among w.waiting
	before, after *loopClient
}

// join puts the client among the loop's.
func (l *loopClient) join() {
	w := l.w
	l.state, l.index = reading, len(w.clients)
	l.rests = false
	l.more, l.hup, l.quiet, l.failure, l.head = false, false, false, nil, time.Time{}
	w.clients = append(w.clients, l)
	var err error
	if l.at, err = w.loop.Add(l.fd, l); err != nil || w.p.draining.Load() {
		l.end()
		return
	}
	if l.c != nil {
		l.read()
	}
}

// part takes it out of the loop, with its descriptor still open.
func (l *loopClient) part() {
	l.w.loop.Remove(l.at)
	l.drop()
}

func (l *loopClient) drop() {
	w := l.w
	w.unwait(l)
	last := len(w.clients) - 1
	w.clients[l.index] = w.clients[last]
	w.clients[l.index].index = l.index
	w.clients[last] = nil
	w.clients = w.clients[:last]
	l.state = gone
}

// end closes the connection.
func (l *loopClient) end() {
	l.w.loop.Leave(l.at)
	l.drop()
	netloop.Close(l.fd)
	l.peer.leave()
	if l.c != nil {
		l.c.in.Discard(l.c.in.Buffered())
		l.w.spare(l.c)
		l.c = nil
	}
	l.unsent = nil
	l.w.p.wg.Done()
}

// abort ends it whatever it is at.
func (l *loopClient) abort() {
	if l.state != reading {
		x := &l.c.x
		x.note.end = endClient
		l.c.dead = true
		x.release(false)
		x.finish()
		l.c.dead = false
	}
	l.end()
}

// Close implements net.Conn. The loop closes the connection itself.
func (l *loopClient) Close() error { return nil }

// RemoteAddr implements net.Conn.
func (l *loopClient) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(l.peer.addr) }

// Ready implements netloop.Handler.
func (l *loopClient) Ready(hup bool) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.hup = l.hup || hup
	switch {
	case l.state == gone:
	case l.state == reading:
		l.read()
	case len(l.unsent) > 0:
		l.more = true
		l.flush()
	case hup && l.quiet:
		l.left(nil)
	default:
		l.more = true
	}
}

// read reads what has arrived, and begins with the request if that is whole.
func (l *loopClient) read() {
	w := l.w
	l.more = false
	if l.c == nil {
		l.c = w.work(l)
	}
	c := l.c
	if l.rests && !l.fill() {
		return
	}
	c.inFrom, c.outFrom = c.in.Consumed(), c.in.Sent()
	head, err := c.in.ReadHead(http1.Limits{Head: w.p.config().Limits.RequestHead, Since: l.head})
	if err == nil {
		err = c.req.Parse(head)
	}
	switch {
	case err == nil && c.gathers(len(head)):
		c.in.Rewind(len(head))
		if l.rests = true; !l.awaited {
			w.await(l, time.Now())
		}
		if !l.dry || l.hup {
			l.read()
		}
	case err == nil:
		l.rests = false
		w.unwait(l)
		l.request()
	case errors.Is(err, netloop.ErrAgain):
		if c.in.Buffered() == 0 {
			w.spare(c)
			l.c = nil
		} else {
			l.head = c.in.HeadSince()
			l.since = l.head
		}
	case malformed(err):
		l.leave(handed{refused: err})
	default:
		l.end()
	}
}

// malformed reports whether an error is about what was said, not about how it came.
func malformed(err error) bool {
	var bad *http1.Error
	return errors.As(err, &bad)
}

// plain reports whether the request is one for a loop: all of it is there, and
// nothing about it is unusual.
func (c *conn) plain() bool {
	q := &c.req
	if q.Minor != 1 || q.Expect || q.UpgradeAsk {
		return false
	}
	switch q.Framing {
	case http1.NoBody:
	case http1.Sized:
		if q.Length > int64(c.in.Buffered()) {
			return false
		}
	default:
		return false
	}
	_, bounded := forwards(q)
	return !bounded
}

// gathers reports whether the request would be plain once its body has come,
// which is small: clients that write heads and bodies one by one are not slow.
func (c *conn) gathers(head int) bool {
	q := &c.req
	return q.Framing == http1.Sized && q.Length > int64(c.in.Buffered()) && q.Length <= int64(clientBuffer-head) &&
		q.Minor == 1 && !q.Expect && !q.UpgradeAsk
}

// fill reads more of a body. It reports false where there is no more yet.
func (l *loopClient) fill() bool {
	err := l.c.in.Fill()
	if errors.Is(err, netloop.ErrAgain) {
		return false
	}
	if err != nil {
		l.hasty()
		return false
	}
	return true
}

// hasty gives the client a goroutine before the body of its request has come.
func (l *loopClient) hasty() {
	c := l.c
	l.rests = false
	head, err := c.in.ReadHead(http1.Limits{Head: l.w.p.config().Limits.RequestHead, Since: l.head})
	if err == nil {
		err = c.req.Parse(head)
	}
	if err != nil { // it was good before
		l.leave(handed{refused: err})
		return
	}
	l.leave(handed{resume: c.fresh, odd: true})
}

// request begins with the request that was read: it chooses an instance and
// sends it there, if no more than the answer has to be waited for.
func (l *loopClient) request() {
	w, c := l.w, l.c
	x := &c.x
	l.head, l.slow, l.full = time.Time{}, false, false
	if !c.plain() {
		l.leave(handed{resume: c.fresh, odd: true})
		return
	}
	x.begin(c)
	l.served = true
	x.rt = x.snap.match(x.q.Host, x.q.Path)
	if x.rt == nil || !x.prepare(false) || x.moves() {
		l.leave(handed{resume: c.fresh, odd: true})
		return
	}
	if x.chosen = x.pick(); x.chosen == nil { // nobody, or not now
		l.leave(handed{resume: c.attempts})
		return
	}
	if !x.chosen.key.plain() {
		l.leave(handed{resume: c.attempts, odd: true})
		return
	}
	most, repeatable := freshEnough, x.repeatable()
	if repeatable {
		most = x.snap.cfg.Timeouts.Upstream
	}
	u := w.rested(x.chosen.backend, x.began, most, !repeatable)
	if u == nil {
		l.leave(handed{resume: c.attempts})
		return
	}
	x.up, x.reused = u.hc, true
	l.u, u.l = u, l
	x.connected(x.chosen)
	x.chosen = nil
	x.identify()
	l.send()
}

// send sends the request to the instance that it is connected to.
func (l *loopClient) send() {
	w, c := l.w, l.c
	x := &c.x
	c.out = w.out
	if !x.compose() {
		l.leave(handed{resume: func() bool { return x.resume(refused) }})
		return
	}
	n, err := l.u.hc.Write(c.out)
	x.wrote(n, err)
	switch {
	case errors.Is(err, netloop.ErrAgain):
		rest := append([]byte(nil), c.out[n:]...)
		l.leave(handed{resume: func() bool { return x.resumeSending(rest) }})
	case err != nil: // an answer may have come before the instance closed
		l.leave(handed{resume: func() bool { return x.resume(x.await(x.began)) }})
	default:
		w.out, c.out = c.out[:0], nil
		l.state = awaiting
		w.await(l, x.began)
	}
}

// sweep ends a client that is too slow, or has been idle for too long.
func (l *loopClient) sweep(now time.Time, t *Timeouts) {
	waits := now.Sub(l.since)
	switch {
	case l.state == reading && l.c != nil:
		if waits > t.Header {
			l.leave(handed{refused: os.ErrDeadlineExceeded})
		}
	case l.state == reading:
		if waits > t.Idle || !l.served && waits > t.Header {
			l.end()
		}
	case len(l.unsent) > 0:
		if waits > t.Body {
			l.left(os.ErrDeadlineExceeded)
		}
	case l.quiet && waits > l.c.x.rt.Timeouts.Tunnel:
		l.c.x.broken(os.ErrDeadlineExceeded)
		l.finished(false)
	}
}
