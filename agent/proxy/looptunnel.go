package proxy

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/rondel-project/rondel/agent/accesslog"
	"github.com/rondel-project/rondel/agent/http1"
	"github.com/rondel-project/rondel/agent/internal/netloop"
)

// tunnel is a client's connection and one to an instance in an event loop, between
// which bytes pass as they come. The worker's lock guards it.
type tunnel struct {
	w     *worker
	index int          // in w.tunnels
	ends  [2]tunnelEnd // the client's, and the instance's
	over  bool

	moved bool          // bytes have passed since since
	since time.Time     // when the sweep last saw that any had
	idle  time.Duration // after which it ends
	stuck time.Duration // for which a side may take nothing that there is for it

	first    ending // the end that came first
	peer     *peer
	inst     *instance
	observer Observer
	in, out  int64            // bytes from and to the client ahead of the tunnel
	entry    *accesslog.Entry // nil: nobody wants to know
}

// tunnelEnd is one of its connections.
type tunnelEnd struct {
	socket
	t      *tunnel
	hup    bool      // it has ended its half, or failed
	ended  bool      // its end was read, and passed on
	unsent []byte    // what it has not taken: nothing is read from the other one until it has
	space  []byte    // of the worker's, that unsent is in
	since  time.Time // when it took something last, while there is something unsent
	sent   int64
}

// tunnel carries what follows a 101 from now on, if both connections can be
// held by a loop.
func (ls *loops) tunnel(x *exchange) bool {
	c := x.c
	w := ls.workerFor(c)
	if w == nil {
		return false
	}
	in, up, ok := c.depart(x.up)
	if !ok {
		return false
	}
	t := &tunnel{
		w: w, idle: x.rt.Timeouts.Tunnel, stuck: x.snap.cfg.Timeouts.Body,
		peer: c.peer, inst: x.inst, observer: x.rt.observer, entry: x.note.kept,
		in: c.in.Consumed() - x.note.inFrom, out: c.in.Sent() - x.note.outFrom,
	}
	if t.entry != nil {
		t.entry.Body = -x.note.heads
	}
	if x.note.queued > 0 {
		t.observer.Queued(x.note.queued)
	}
	t.ends[0] = tunnelEnd{socket: socket{fd: in, at: -1}, t: t}
	t.ends[1] = tunnelEnd{socket: socket{fd: up, at: -1}, t: t}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.join(c.in, x.up)
	if c.home != nil {
		c.in.Discard(c.in.Buffered())
		x.try, x.note = try{}, noted{}
		w.spare(c)
	}
	return true
}

// workerFor returns the worker that can hold a client's tunnel, or nil.
func (ls *loops) workerFor(c *conn) *worker {
	if _, ok := c.in.Conn.(*net.TCPConn); !ok || ls.n == 0 {
		return nil
	}
	if c.home != nil {
		return c.home.w
	}
	loop, err := ls.pool.Next()
	if err != nil {
		return nil
	}
	return ls.worker(loop)
}

// depart takes both sockets away from the goroutine that c has. It reports false
// where it has to go on.
func (c *conn) depart(instance *http1.Conn) (in, up int, ok bool) {
	p := c.p
	p.connMu.Lock()
	defer p.connMu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return 0, 0, false
	}
	if up, ok = netloop.Take(instance.Conn); !ok {
		return 0, 0, false
	}
	if in, ok = netloop.Take(c.in.Conn); !ok {
		nc, err := netloop.Give(up)
		if err != nil {
			p.log.Warn("a connection to an instance could not leave its event loop", "error", err)
			nc = broken{err}
		}
		instance.Become(nc, upstreamBuffer)
		return 0, 0, false
	}
	delete(p.conns, c)
	c.up = nil
	return in, up, true
}

// join puts the tunnel among the loop's. What was read ahead passes first.
func (t *tunnel) join(in, up *http1.Conn) {
	w := t.w
	t.since, t.index = time.Now(), len(w.tunnels)
	w.tunnels = append(w.tunnels, t)
	if w.p.loops.cut.Load() {
		t.end(endStopped)
		return
	}
	for i := range t.ends {
		e := &t.ends[i]
		var err error
		if e.at, err = w.loop.Add(e.fd, e); err != nil {
			t.end(endStopped) // the loop has ended
			return
		}
	}
	for i, from := range [...]*http1.Conn{up, in} {
		if e := &t.ends[i]; !t.over && from.Buffered() > 0 {
			if e.write(from.Peek()); len(e.unsent) > 0 {
				e.unsent = append([]byte(nil), e.unsent...)
			}
		}
	}
}

// other returns the connection at the other end.
func (e *tunnelEnd) other() *tunnelEnd {
	if e == &e.t.ends[0] {
		return &e.t.ends[1]
	}
	return &e.t.ends[0]
}

// fault is how the tunnel ends if this is the side that ends it.
func (e *tunnelEnd) fault() ending {
	if e == &e.t.ends[0] {
		return endClient
	}
	return endInstance
}

// Ready implements netloop.Handler.
func (e *tunnelEnd) Ready(hup bool) {
	t := e.t
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	if t.over {
		return
	}
	e.hup = e.hup || hup
	if len(e.unsent) > 0 {
		e.flush()
	}
	e.pass()
}

// pass passes on what has come from e, until there is no more, the other side
// does not take it, or it is others' turn.
func (e *tunnelEnd) pass() {
	t, w, to := e.t, e.t.w, e.other()
	if t.over || e.ended || len(to.unsent) > 0 {
		return
	}
	space := w.buffer(true)
	defer func() {
		if space != nil {
			w.spareBuffer(space)
		}
	}()
	for range loopTurn {
		n, err := e.Read(space)
		switch {
		case err == nil:
			if to.write(space[:n]); len(to.unsent) > 0 {
				to.space, space = space, nil
				return
			}
			if t.over || e.dry && !e.hup {
				return
			}
		case errors.Is(err, netloop.ErrAgain):
			return
		default:
			e.finished(err)
			return
		}
	}
	e.again()
}

// again has the loop call once more, for what is left after this turn.
func (e *tunnelEnd) again() {
	if len(e.unsent) > 0 {
		e.t.w.loop.Writable(e.at) // Again would forget that this is waited for
		return
	}
	e.t.w.loop.Again(e.at)
}

// write writes to e, and notes in unsent what it does not take now.
func (e *tunnelEnd) write(p []byte) {
	e.t.moved = true
	n, err := e.Write(p)
	e.sent += int64(n)
	switch {
	case err == nil:
	case errors.Is(err, netloop.ErrAgain):
		e.unsent, e.since = p[n:], time.Now()
		e.t.w.loop.Writable(e.at)
	default:
		e.t.end(e.fault())
	}
}

// flush writes what was kept, and goes on with what has come meanwhile.
func (e *tunnelEnd) flush() {
	n, err := e.Write(e.unsent)
	e.sent += int64(n)
	if n > 0 {
		e.t.moved, e.since = true, time.Now()
	}
	switch {
	case err == nil:
		e.unsent = nil
		e.giveBack()
		e.other().pass()
	case errors.Is(err, netloop.ErrAgain):
		e.unsent = e.unsent[n:]
	default:
		e.t.end(e.fault())
	}
}

func (e *tunnelEnd) giveBack() {
	if e.space != nil {
		e.t.w.spareBuffer(e.space)
		e.space = nil
	}
}

// finished passes on that e has said all. Any other error ends the tunnel.
func (e *tunnelEnd) finished(err error) {
	t, to := e.t, e.other()
	e.ended = true
	if t.first == endDone {
		t.first = e.fault()
	}
	if !errors.Is(err, io.EOF) || to.ended || netloop.CloseWrite(to.fd) != nil {
		t.end(e.fault())
	}
}

// end closes both connections. Why counts unless one of them had ended before.
func (t *tunnel) end(why ending) {
	w := t.w
	if t.first == endDone {
		t.first = why
	}
	t.over = true
	last := len(w.tunnels) - 1
	w.tunnels[t.index] = w.tunnels[last]
	w.tunnels[t.index].index = t.index
	w.tunnels[last] = nil
	w.tunnels = w.tunnels[:last]
	for _, i := range [...]int{1, 0} {
		e := &t.ends[i]
		w.loop.Remove(e.at)
		netloop.Close(e.fd)
		e.unsent = nil
		e.giveBack()
	}
	t.inst.leave()
	in, out := t.in+t.ends[1].sent, t.out+t.ends[0].sent
	t.observer.Passed(in, out)
	if e := t.entry; e != nil {
		e.In, e.Out, e.Body = in, out, e.Body+out
		e.Total = time.Since(e.Time)
		e.End = t.first.String()
		w.p.access.Write(e)
	}
	t.peer.leave()
	w.p.wg.Done()
}

// abort ends it whatever it is at.
func (t *tunnel) abort() {
	t.first = endStopped
	t.end(endStopped)
}

// sweep ends it if nothing has passed for long, or a side takes nothing.
func (t *tunnel) sweep(now time.Time) {
	if t.moved {
		t.moved, t.since = false, now
	}
	for i := range t.ends {
		if e := &t.ends[i]; len(e.unsent) > 0 && now.Sub(e.since) > t.stuck {
			t.end(e.fault())
			return
		}
	}
	if now.Sub(t.since) > t.idle {
		t.end(endIdle)
	}
}
