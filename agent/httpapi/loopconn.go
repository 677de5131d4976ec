package httpapi

import (
	"bytes"
	"errors"
	"net"
	"runtime/debug"
	"sync/atomic"

	"github.com/rondel-project/rondel/agent/http1"
	"github.com/rondel-project/rondel/agent/internal/netloop"
	"github.com/rondel-project/rondel/agent/session"
)

// Sizes of a connection's receive buffer. A request that does not fit is left
// to a goroutine.
const (
	loopBuffer    = 2 << 10
	maxLoopBuffer = 64 << 10
)

// loopTurn is how many requests of one connection are started in a row. One
// that has more, sent ahead of the answers, would hold up the others, and gets
// a goroutine.
const loopTurn = 64

// A connection's state says who may touch it: whoever made it busy, until he
// lays it to rest.
const (
	connIdle  = iota
	connBusy  // a goroutine is at it, or an operation is under way
	connAgain // busy, and more has arrived
)

// A request's phase decides who goes on with the connection: Start's caller,
// if the answer has left when Start returns, and else whoever brings it.
const (
	phaseNone      = iota
	phaseStarting  // Start has not returned
	phaseWaiting   // Start has returned, and the answer is to come
	phaseAnswering // the answer came before Start returned, and is being written
	phaseAnswered  // it has been written, and Start's caller goes on
	phaseTaken     // whoever brings the answer goes on
	phaseDropped   // nobody waits for the answer any more
)

// loopConn is a connection in an event loop. It takes one request at a time,
// starts its operation, and goes on when that is answered, in whatever
// goroutine the answer comes.
type loopConn struct {
	ls   *loopServer
	loop *netloop.Loop
	fd   int
	at   int32 // its place in the loop

	state atomic.Int32
	phase atomic.Int32
	hup   atomic.Bool  // the other side has ended its half
	since atomic.Int64 // the second in which the request began that has not wholly arrived, or else that of the last one
	dry   bool         // a read came back with less than it could have

	buf  []byte
	r, w int // buf[r:w] is unconsumed

	head http1.Request
	ask  loopAsk
	out  []byte // of the answer, what could not be sent
	last bool   // the connection ends behind the answer
	done int    // requests answered here
}

// Ready implements netloop.Handler.
func (c *loopConn) Ready(hup bool) {
	if hup {
		c.hup.Store(true)
	}
	for {
		switch c.state.Load() {
		case connIdle:
			if c.state.CompareAndSwap(connIdle, connBusy) {
				c.dry = false
				c.proceed()
				return
			}
		case connBusy:
			if c.state.CompareAndSwap(connBusy, connAgain) {
				return
			}
		default:
			return
		}
	}
}

// proceed reads and starts requests until one has to wait for its answer or
// nothing is left to do. The connection is the caller's.
func (c *loopConn) proceed() {
	for requests := 0; ; {
		if c.w > c.r {
			if requests++; requests > loopTurn {
				c.leave()
				return
			}
			switch c.step() {
			case stepNext:
				continue
			case stepWait:
				return
			case stepMore:
			case stepLeave:
				c.leave()
				return
			case stepEnd:
				c.end()
				return
			}
		}
		if c.dry && !c.hup.Load() {
			if c.ls.door.stopping.Load() {
				c.end()
				return
			}
			if c.rest() {
				return
			}
		}
		if !c.fill() {
			return
		}
	}
}

// rest gives the connection up until more arrives. It reports false where more
// has arrived already.
func (c *loopConn) rest() bool {
	if c.r == c.w && cap(c.buf) > loopBuffer {
		c.buf = nil
	}
	if c.state.CompareAndSwap(connBusy, connIdle) {
		// The door may have begun to stop and passed by meanwhile.
		if c.ls.door.stopping.Load() && c.state.CompareAndSwap(connIdle, connBusy) {
			c.end()
		}
		return true
	}
	c.state.Store(connBusy)
	c.dry = false
	return false
}

// fill reads once. It reports false where the connection has ended.
func (c *loopConn) fill() bool {
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
	if c.w == len(c.buf) {
		c.room()
	}
	space := c.buf[c.w:]
	n, err := netloop.Read(c.fd, space)
	if errors.Is(err, netloop.ErrAgain) {
		c.hup.Store(false) // it will be told again if it was meant
	} else if err != nil {
		if c.w > c.r {
			c.leave() // within a request: what is said to that is not for here
		} else {
			c.end()
		}
		return false
	}
	if n > 0 && c.r == c.w {
		c.since.Store(c.ls.second.Load())
	}
	c.w += n
	c.dry = n < len(space)
	return true
}

// room makes space behind the unconsumed bytes.
func (c *loopConn) room() {
	switch {
	case c.r > 0:
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	case len(c.buf) == 0:
		c.buf = make([]byte, loopBuffer)
	default:
		c.buf = append(c.buf, make([]byte, len(c.buf))...)
	}
}

// What one step came to.
type step uint8

const (
	stepNext  step = iota // answered: there may be another request
	stepWait              // the answer is to come, and whoever brings it goes on
	stepMore              // the request has not wholly arrived
	stepLeave             // it is not one for a loop
	stepEnd               // the connection is no good any more
)

// step takes the first request of those received.
func (c *loopConn) step() (did step) {
	defer func() {
		if p := recover(); p != nil {
			c.ls.s.log.Error("panic in a request", "panic", p, "stack", string(debug.Stack()))
			c.phase.Store(phaseDropped)
			did = stepEnd
		}
	}()
	op, did := c.next()
	if op == nil {
		return did
	}
	c.phase.Store(phaseStarting)
	c.ls.s.o.Sessions.Start(op, c)
	if c.phase.CompareAndSwap(phaseStarting, phaseWaiting) {
		// The door may have ended what waits, and passed by while this one did not yet.
		if c.ls.aborted.Load() && c.phase.CompareAndSwap(phaseWaiting, phaseDropped) {
			return stepEnd
		}
		return stepWait
	}
	if c.phase.CompareAndSwap(phaseAnswering, phaseTaken) {
		return stepWait
	}
	return c.after()
}

// Answered implements Waiter.
func (c *loopConn) Answered(resp *session.Response) {
	if !c.phase.CompareAndSwap(phaseWaiting, phaseTaken) && !c.phase.CompareAndSwap(phaseStarting, phaseAnswering) &&
		!c.phase.CompareAndSwap(phaseWaiting, phaseTaken) { // Start has returned meanwhile
		return
	}
	c.answerSafely(resp)
	if c.phase.CompareAndSwap(phaseAnswering, phaseAnswered) {
		return
	}
	switch c.after() {
	case stepLeave:
		c.leave()
	case stepEnd:
		c.end()
	default:
		c.proceed()
		c.ls.s.o.Sessions.Flush() // the loop's own round may be far
	}
}

// answerSafely makes a panic cost this connection only.
func (c *loopConn) answerSafely(resp *session.Response) {
	defer func() {
		if p := recover(); p != nil {
			c.ls.s.log.Error("panic in an answer", "panic", p, "stack", string(debug.Stack()))
			c.out, c.last = nil, true
		}
	}()
	c.answer(resp)
	c.done++
}

// drop ends the connection if it is idle, or waits for an answer that may never
// come.
func (c *loopConn) drop() {
	if c.phase.CompareAndSwap(phaseWaiting, phaseDropped) || c.state.CompareAndSwap(connIdle, connBusy) {
		c.end()
	}
}

// after says how a connection goes on behind an answer, which is in out as far
// as it could not be sent.
func (c *loopConn) after() step {
	switch {
	case len(c.out) > 0:
		return stepLeave
	case c.last:
		return stepEnd
	}
	return stepNext
}

// send writes an answer. What would have to wait is kept, and leaves from a
// goroutine.
func (c *loopConn) send(answer []byte) {
	n, err := netloop.Write(c.fd, answer)
	switch {
	case errors.Is(err, netloop.ErrAgain):
		c.out = bytes.Clone(answer[n:])
	case err != nil:
		c.last = true
	}
}

// manyTurns is how many requests a connection has carried elsewhere before it
// comes back, if the first one that it brought here was none for a loop: one
// like that has more of them.
const manyTurns = 64

// leave gives the connection to a goroutine, with what was received and is
// unconsumed, and what has yet to be sent.
func (c *loopConn) leave() {
	c.forget()
	d := c.ls.door
	defer d.ends.Done()
	nc, err := netloop.Give(c.fd)
	if err != nil {
		c.ls.s.log.Warn("a connection was closed: it could not leave its event loop", "error", err)
		return
	}
	q := newQuick(d, &replayed{nc, bytes.Clone(c.buf[c.r:c.w])})
	q.unsent, q.last = c.out, c.last
	q.busy.Store(len(q.unsent) > 0)
	if c.done == 0 {
		q.turns = manyTurns
	}
	d.carry(q)
}

// end closes the connection.
func (c *loopConn) end() {
	c.forget()
	netloop.Close(c.fd)
	c.ls.door.ends.Done()
}

// forget takes the connection out of the loop.
func (c *loopConn) forget() {
	c.loop.Remove(c.at)
	c.ls.mu.Lock()
	delete(c.ls.conns, c)
	c.ls.mu.Unlock()
}

// unwrapped returns the connection below, once all that was read ahead has been
// consumed.
func unwrapped(nc net.Conn) net.Conn {
	if r, ok := nc.(*replayed); ok && len(r.first) == 0 {
		return r.Conn
	}
	return nc
}
