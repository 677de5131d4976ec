package proxy

import (
	"errors"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
	"github.com/rondel-project/rondel/agent/internal/netloop"
)

// loopTurn is how many pieces of a body pass in a row before others get their turn.
const loopTurn = 4

// answered goes on when something came from the instance.
func (l *loopClient) answered() {
	if l.state == relaying {
		l.advance()
		return
	}
	x, u := &l.c.x, l.u
	u.lend()
	head, err := u.hc.ReadHead(http1.Limits{Head: x.snap.cfg.Limits.ResponseHead})
	if err == nil {
		x.heard = true
		if err = x.resp.Parse(head, x.q.Method); err != nil {
			l.resume(x.nonsense(err))
			return
		}
		switch s := x.resp.Status; {
		case s == 101:
			l.resume(answered)
		case x.unwanted(), x.givesOut(): // to look elsewhere, or to wait
			l.resume(answered)
		case s < 200:
			u.hc.Rewind(len(head))
			l.resumeAwaiting()
		default:
			l.relay()
		}
		return
	}
	switch {
	case errors.Is(err, netloop.ErrAgain):
		u.strip()
	case malformed(err):
		l.resume(x.nonsense(err))
	default:
		x.heard = x.heard || u.hc.Buffered() > 0
		l.resume(failed)
	}
}

// relay passes the final response on, as far as it has come.
func (l *loopClient) relay() {
	c := l.c
	l.state = relaying
	c.out = l.w.out
	l.failure = c.x.respond()
	sent := l.pass(c.out)
	l.w.out, c.out = c.out[:0], nil
	if !sent {
		l.left(nil)
		return
	}
	c.x.status = c.x.resp.Status
	l.advance()
}

// pass writes to the client, and keeps what it does not take now. It reports
// false where the client is gone.
func (l *loopClient) pass(out []byte) bool {
	l.moved, l.quiet = true, false
	n, err := l.c.in.Write(out)
	switch {
	case err == nil:
		return true
	case errors.Is(err, netloop.ErrAgain):
		l.unsent = append(l.unsent[:0], out[n:]...)
		l.w.unwait(l)
		l.since, l.slow, l.full = time.Now(), true, true
		l.w.loop.Writable(l.at)
		return true
	}
	return false
}

// flush writes what was kept.
func (l *loopClient) flush() {
	n, err := l.c.in.Write(l.unsent)
	if err != nil && !errors.Is(err, netloop.ErrAgain) {
		l.left(nil)
		return
	}
	if n > 0 {
		l.since = time.Now()
	}
	if n < len(l.unsent) {
		l.unsent = l.unsent[:copy(l.unsent, l.unsent[n:])]
		return
	}
	l.unsent = nil
	l.u.dry = false // nobody has looked meanwhile
	l.advance()
}

// advance passes the body on until the client takes no more, the instance has
// no more, or it is others' turn.
func (l *loopClient) advance() {
	x, u := &l.c.x, l.u
	body := &x.flow.body
	for turn := 0; len(l.unsent) == 0; turn++ {
		switch {
		case l.failure != nil:
			x.broken(l.failure)
			l.finished(false)
			return
		case body.Done():
			l.finished(x.relayed())
			return
		case u.hc.Buffered() == 0 && u.dry && !u.hup:
			l.wait()
			return
		case turn == loopTurn:
			l.w.loop.Again(u.at)
			l.wait()
			return
		}
		u.lend()
		piece, done, err := body.Next(u.hc, nil)
		if errors.Is(err, netloop.ErrAgain) {
			l.wait()
			return
		}
		l.failure = err
		if x.flow.chunk {
			l.w.out = appendPiece(l.w.out[:0], piece, done, true)
			piece = l.w.out
		}
		if len(piece) > 0 && !l.pass(piece) {
			l.left(nil)
			return
		}
	}
}

// wait waits for the instance to say more.
func (l *loopClient) wait() {
	l.u.strip()
	if !l.awaited && !l.quiet {
		l.w.await(l, time.Now())
	}
}

// overdue is called when the instance has been silent for a while.
func (l *loopClient) overdue(now time.Time) {
	l.slow = true
	switch {
	case l.state == reading:
		l.hasty()
	case l.state == awaiting:
		l.resumeAwaiting()
	case l.moved:
		l.moved = false
		l.w.await(l, now)
	case l.hup:
		l.left(nil)
	default:
		l.quiet = true
	}
}

// left ends the exchange with a client that is not there any more, or too slow.
func (l *loopClient) left(err error) {
	l.c.x.lostClient(err)
	l.c.x.release(false)
	l.finished(false)
}

// finished ends the exchange, and goes on to the next one if there may be one.
func (l *loopClient) finished(keep bool) {
	w, c := l.w, l.c
	c.x.finish()
	w.unwait(l)
	l.u, l.unsent, l.failure, l.quiet, l.moved = nil, nil, nil, false, false
	l.state, l.since = reading, c.x.began
	if l.slow {
		l.since = time.Now() // it waits for the next request from now on
	}
	if !keep || w.p.draining.Load() {
		if c.in.Buffered() > 0 || l.more {
			l.leave(handed{linger: true})
		} else {
			l.end()
		}
		return
	}
	if c.in.Buffered() > 0 || l.more || l.hup || !l.dry {
		l.read()
		return
	}
	w.spare(c)
	l.c = nil
}
