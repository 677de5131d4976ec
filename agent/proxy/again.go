package proxy

import (
	"slices"

	"github.com/rondel-project/rondel/agent/http1"
)

// keyed reports whether the request carries a key by which the application
// knows it again, so that sending it twice is asking for it once. An empty one
// tells no request from another.
func (x *exchange) keyed() bool {
	return x.rt.Retry.IdempotencyKey && len(fieldValue(x.q, "idempotency-key")) > 0
}

// repeatable reports whether the request may reach an instance twice.
func (x *exchange) repeatable() bool { return x.q.Idempotent() || x.keyed() }

// repeats reports whether the route wants such a request to be tried again
// although an instance may have seen it.
func (x *exchange) repeats() bool {
	return x.rt.Retry.Idempotent && x.q.Idempotent() || x.keyed()
}

// again decides, after a failed try that was released, whether there is another one. It leaves
// x.inst set if the same instance is to be asked over a new connection.
func (x *exchange) again() bool {
	inst := x.inst
	if x.calledOff(x.reset) {
		return false
	}
	stale := x.reused && !x.heard && x.reset == nil
	if !stale {
		x.fault("the connection broke off")
	}
	x.p.log.Debug("try failed", "instance", inst.ID, "addr", inst.Addr, "attempt", x.tries, "stale", stale)
	switch {
	case x.told || x.lost || x.malformed:
		return false
	case !x.touched: // nothing of the request reached anybody
	case stale && !x.repeatable(), !stale && !x.repeats():
		return false
	}
	if x.tries >= x.rt.Retry.Attempts && !stale {
		return false
	}
	x.stale = stale
	return true
}

// unwanted reports whether the route wants an answer of this status to be
// looked for elsewhere; elsewhere may then wait.
func (x *exchange) unwanted() bool {
	return x.resp.Status >= 400 && slices.Contains(x.rt.Retry.Statuses, x.resp.Status)
}

// elsewhere gives an answer up whose status the route does not want, for that
// of another instance, and reports whether that one is connected. It is given
// up no sooner than that: where there is no other instance with room, it is what
// the client gets. It BLOCKS where it has to make a connection, but does not
// wait in line: two instances' requests could wait for each other there.
func (x *exchange) elsewhere() bool {
	if !x.unwanted() {
		return false
	}
	x.unwell()
	if x.told || !x.repeats() || x.tries >= x.rt.Retry.Attempts {
		return false
	}
	if s := x.side; s != nil {
		whole := s.end(x)
		x.resp.Close = x.resp.Close || !whole
		x.side = nil
		if s.verdict() != answered {
			return false
		}
	}
	if x.lost {
		return false
	}
	x.p.log.Debug("answer not wanted", "instance", x.inst.ID, "addr", x.inst.Addr, "attempt", x.tries, "status", x.resp.Status)
	old, note := x.try, x.note
	x.stale, x.holding = false, true
	found := x.connect()
	x.holding = false
	if !found {
		dialed := x.note.dialed
		x.try, x.note = old, note
		x.note.dialed = dialed
		return false
	}
	x.forgo(&old)
	return true
}

// forgo ends a try whose answer nobody gets. Its connection is good for another
// request if the rest of the answer is there already.
func (x *exchange) forgo(old *try) {
	var body http1.Body
	body.Begin(x.resp.Framing, x.resp.Length, true, nil)
	old.up.Release()
	for !body.Done() && old.up.Buffered() > 0 {
		if _, _, err := body.Next(old.up, nil); err != nil {
			break
		}
	}
	if body.Done() && !x.resp.Close && x.body.Done() {
		old.pool.Put(old.up, x.choose.picker.now)
	} else {
		old.up.Close()
	}
	old.inst.leave()
}

// record keeps what was taken of the body, to send it again where that may be:
// an instance that speaks HTTP/2 may yet say that it did not look at the request.
func (x *exchange) record(piece []byte) {
	if x.lost || len(x.replay)+len(piece) > x.rt.Retry.Body || x.touched && !x.repeatable() && !x.inst.shared() {
		x.lost, x.replay = true, x.replay[:0]
		return
	}
	x.replay = append(x.replay, piece...)
}
