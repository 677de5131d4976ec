package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
)

// freshEnough is how long a connection may have rested to carry a request that
// must not be sent twice: the longer it rests, the likelier that its other
// side is closing it just now.
const freshEnough = time.Second

// outcome is how one try ended.
type outcome uint8

const (
	answered outcome = iota // x.resp is a final response, or a 101
	failed                  // the instance broke off, or spoke nonsense
	timedOut                // the instance did not answer in time
	hungUp                  // the client is gone
	refused                 // the client's body is not acceptable; x.side says why
)

// exchange is one client request with all tries to have it answered. It is
// used again for the next request of its connection.
type exchange struct {
	c     *conn
	p     *Proxy
	q     *http1.Request
	snap  *snapshot
	rt    *route
	began time.Time

	choose chooser
	origin origin
	reqID  [32]byte
	id     string        // of the session, as the application gets it
	minted string        // the member that id was made for, when it was made here
	sent   bool          // an instance may have seen id
	chosen *instance     // that an event loop has picked and has no connection to
	parked parked        // how waiting for room ended
	kept   chan struct{} // closed once what an answer binds is kept by all; nil: nothing to wait for

	try
	body     http1.Body
	replay   []byte
	lost     bool // more of the body is gone than replay holds
	told     bool // something of an answer has left
	hundred  bool // a 100 has left
	tries    int
	status   int  // of the answer that has begun to leave; 0: none
	counted  bool // the observer knows
	holding  bool // an answer is kept back until another instance is connected
	switched bool // both sides have switched protocols: what follows is a tunnel, see conn.tunnel
	resp     http1.Response
	flow     flow
	note     noted
}

// try is what belongs to one instance alone.
type try struct {
	inst      *instance
	pool      *http1.Pool // that up came from
	up        *http1.Conn
	reused    bool  // up carried a request before
	expects   bool  // the body waits for a 100
	touched   bool  // bytes of the request may have been received
	heard     bool  // bytes of a response have
	malformed bool  // and made no sense
	reset     error // how the instance gave up this request alone, not the connection
	stale     bool  // up had been closed while it rested: ask again over a new one
	side      *side
}

// begin takes over the request that c has read.
func (x *exchange) begin(c *conn) {
	replay, tried, resp := x.replay[:0], x.choose.tried[:0], x.resp
	if cap(replay) > clientBuffer {
		replay = nil
	}
	clear(tried[:cap(tried)])
	resp.Fields.Fields = resp.Fields.Fields[:0]
	snap := c.p.snap.Load()
	*x = exchange{c: c, p: c.p, q: &c.req, snap: snap, began: time.Now(), replay: replay, resp: resp}
	x.choose.tried, x.note = tried, c.note()
	x.body.Begin(x.q.Framing, x.q.Length, false, nil)
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	hex.Encode(x.reqID[:], id[:])
}

// serve answers the request and reports whether the client connection can
// carry another.
func (x *exchange) serve() (keep bool) {
	if x.ahead() {
		keep = x.answerAhead()
		x.finish()
		return keep
	}
	x.rt = x.snap.match(x.q.Host, x.q.Path)
	if x.rt == nil {
		x.note.end = endNoRoute
		keep = x.answer(http.StatusNotFound, "no route for this host and path")
	} else {
		keep = x.pass()
	}
	x.finish()
	return keep
}

// pass has an instance answer the request, or says why none can.
func (x *exchange) pass() (keep bool) {
	if left, ok := forwards(x.q); ok && left == 0 {
		return x.last()
	}
	x.prepare(true)
	if x.oversized() {
		x.note.end = endRefused
		return x.answer(errBodySize.Status, errBodySize.Reason)
	}
	if x.moves() {
		if answered, keep := x.redirect(); answered {
			return keep
		}
	}
	return x.attempts()
}

// prepare gathers what an instance is chosen by. It reports false, having done
// nothing that cannot be done again, where it would have to wait for an answer
// and may not: event loops ask so.
func (x *exchange) prepare(wait bool) bool {
	if !wait && (x.ahead() || x.oversized()) {
		return false
	}
	x.origin = x.c.peer.origin(x.q, x.snap.cfg.Trusted)
	x.choose.picker.now, x.choose.position = x.began, x.p.position.Load()
	x.choose.snap, x.choose.rt, x.choose.sess, x.choose.first = x.snap, x.rt, x.p.sessions, true
	if !x.claim(wait) {
		return false
	}
	if x.rt.Balance == Hash {
		x.choose.hashKey = x.hashKey()
	}
	return true
}

// attempts tries one instance after another.
func (x *exchange) attempts() (keep bool) {
	for x.connect() {
		x.identify()
		if again, keep := x.outcome(x.once()); !again {
			return keep
		}
	}
	return x.turnedAway()
}

// outcome brings a try to its end, and reports whether there may be another one.
func (x *exchange) outcome(o outcome) (again, keep bool) {
	for o == answered && x.elsewhere() {
		o = x.once()
	}
	switch o {
	case answered:
		return false, x.relay()
	case hungUp:
		x.note.end = endClient
		x.release(false)
		x.p.log.Debug("client closed the request", "addr", x.c.peer.addr, "status", 499)
		return false, false
	case refused:
		bad := x.side.refusal()
		x.note.end = endRefused
		if bad.Status == http.StatusRequestTimeout {
			x.note.end = endClientTimeout
		}
		x.release(false)
		return false, x.answer(bad.Status, bad.Reason)
	case timedOut:
		x.note.end = endInstanceTimeout
		x.fault("no answer in time")
		x.release(false)
		return false, x.answer(http.StatusGatewayTimeout, "the instance did not answer in time")
	}
	left := x.side.left()
	x.note.end = endInstance
	switch {
	case left:
		x.note.end = endClient
	case x.malformed:
		x.note.end = endInvalid
	}
	x.release(false)
	switch {
	case left:
		return false, false
	case x.again():
		return true, false
	case x.resetToo():
		return false, false
	}
	return false, x.answer(http.StatusBadGateway, "the instance broke off its answer")
}

// connect gets a connection to an instance: the one that is to be asked again,
// or the next one that there is. It fails when none is left or time is up. It
// BLOCKS where it has to make a connection, or to wait for room.
func (x *exchange) connect() bool {
	var inst *instance
	if x.stale {
		inst = x.inst
	}
	x.try = try{}
	for dialed := 0; ; dialed++ {
		now := time.Now()
		if dialed > 0 && !x.rt.Retry.Connect || (dialed > 0 || x.tries > 0) && now.Sub(x.began) > x.rt.Retry.Within {
			return false
		}
		fresh := inst != nil // a stale connection was found: no second one from the pool
		if fresh && !inst.admit() {
			x.choose.wait = inst
			if inst = x.park(); inst == nil {
				return false
			}
		}
		if inst == nil {
			inst, x.chosen = x.chosen, nil
		}
		if inst == nil {
			x.choose.picker.now = now
			inst = x.pick()
			if inst == nil && x.choose.full && !x.holding {
				inst = x.park()
				now = time.Now()
			}
			if inst == nil {
				return false
			}
		}
		if dialed > 0 || x.tries > 0 {
			x.rt.observer.Retried()
		}
		rested := freshEnough
		if x.repeatable() {
			rested = x.snap.cfg.Timeouts.Upstream
		}
		x.pool = x.c.wiresTo(inst).poolFor(x)
		if !fresh {
			x.up = x.pool.Get(now, rested)
		}
		x.reused = x.up != nil || inst.shared() && !fresh
		if x.up == nil {
			up, err := x.pool.Dial()
			if x.note.logged {
				x.note.dialed += time.Since(now)
			}
			if err != nil {
				x.note.end, x.note.inst = endUnreachable, inst
				inst.leave()
				x.p.unreachable(x.rt, inst, err)
				inst = nil
				continue
			}
			x.up = up
		}
		x.connected(inst)
		return true
	}
}

// connected begins a try over x.up at an instance that was picked.
func (x *exchange) connected(inst *instance) {
	x.inst = inst
	if x.pool == nil {
		x.pool = inst.pool
	}
	x.note.end, x.note.inst = endDone, inst
	x.tries++
	inst.requests.Add(1)
	if !x.c.use(x.up) {
		x.up.Close()
	}
}

// release ends the try: the connection rests for the next request if it may,
// and is closed otherwise.
func (x *exchange) release(reuse bool) {
	if x.side != nil {
		clean := x.side.end(x)
		reuse = reuse && clean
		x.side = nil
	}
	x.c.use(nil)
	u, inLoop := x.up.Conn.(*loopInst)
	switch {
	case !reuse || !x.body.Done():
		x.up.Close()
	case inLoop:
		u.rest(time.Now())
	default:
		x.pool.Put(x.up, time.Now())
	}
	x.up = nil
	x.inst.leave()
}

// once sends the request to the connected instance and waits for the head of
// its response.
func (x *exchange) once() outcome {
	if !x.compose() {
		return refused
	}
	now := time.Now()
	x.up.WriteWithin(now, x.rt.Timeouts.Send)
	n, err := x.up.Write(x.c.out)
	x.wrote(n, err)
	if err != nil {
		if timeout(err) {
			return timedOut
		}
		// An answer may have come before the instance closed.
		return x.await(now)
	}
	if !x.body.Done() && !x.expects {
		x.side = startSide(x, true)
	}
	return x.await(now)
}

// wrote notes how far the first write of a try came.
func (x *exchange) wrote(n int, err error) {
	x.touched = n > 0 || err == nil
	x.sent = x.sent || x.touched
}

// compose puts together what is written first: the head, and what has arrived
// of the body. It reports false where that is not acceptable, which x.side tells.
func (x *exchange) compose() bool {
	c := x.c
	x.expects = x.q.Expect && !x.hundred && len(x.replay) == 0
	out := x.appendRequest(c.out[:0])
	out = append(out, x.replay...)
	if !x.body.Done() && !x.expects && c.in.Buffered() > 0 {
		piece, _, err := x.body.Next(c.in, nil)
		if err == nil {
			err = x.measure()
		}
		if err != nil {
			var bad *http1.Error
			errors.As(err, &bad)
			x.side = refusedSide(bad)
			return false
		}
		x.record(piece)
		out = append(out, piece...)
	}
	c.out = out
	return true
}
