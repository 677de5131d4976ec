package replicate

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// call is a request that this agent answers to a client, or to an agent that
// cannot reach the owner itself: it goes to the owner, and again to the next
// one while there is time (P1, P2).
type call struct {
	id        uint64
	handle    uint64      // of the client's request here
	from      ring.Holder // or of the agent that asked for a relay
	req       *session.Request
	slot      ring.Slot
	parsed    bool
	deadline  int64
	hop       uint8
	state     callState
	sentAt    int64
	sentTo    number
	sentRe    uint64
	offeredAt int64 // when the session's record was last offered to the owner
	offeredTo ring.Holder
	offered   session.Version // what that one has of it
	tries     int
	sent      int  // how many times it left for an owner
	maybe     bool // the owner may have done it
	lost      bool // an owner was replaced while it worked on it
	done      bool
	after     uint64 // Answer.After of what it is answered with
}

type callState uint8

const (
	callWaiting   callState = iota // for a table, an owner, a lease
	callForwarded                  // sent to the owner
	callServing                    // this member is the owner and works on it
)

// op is a request at the member that serves it.
type op struct {
	req      *session.Request
	call     *call       // of this agent, or
	from     ring.Holder // the agent that forwarded it
	handle   uint64
	deadline int64
	merge    *session.Update // not a request: an offered record to be merged (S6)
	same     []*op           // the same operation, come again while this one waited
	answered bool
	exact    bool   // what its answer shows
	after    uint64 // is on disk with this log record
}

// shows notes that the answer to o tells of e as it stands now.
func (o *op) shows(e *session.Entry) {
	if o == nil {
		return
	}
	o.exact = true
	if e != nil {
		o.after = max(o.after, e.Logged)
	}
}

const retryAfter = time.Second

func retry() *session.Response { return session.Fail(session.Retry, "not_owner", "ask the owner") }

const codeOwnerLost = "owner_lost"

func lostOwner() *session.Response {
	return session.Fail(session.UnknownEnd, codeOwnerLost, "the owner changed while the write was under way")
}

func unavailable(code, msg string) *session.Response {
	r := session.Fail(session.Unavailable, code, msg)
	r.RetryAfter = retryAfter
	return r
}

func unknownEnd() *session.Response {
	return session.Fail(session.UnknownEnd, "outcome_unknown",
		"not all copies have confirmed in time; the change may or may not have happened: send it again with the same Idempotency-Key")
}

func unknownSession() *session.Response {
	return session.Fail(session.NotFound, "unknown_session", "no such session; POST /v1/sessions makes one")
}

// Request starts a client's request; its answer comes with the same handle, in
// this step or a later one, at the latest after Params.OpBudget.
func (n *Node) Request(t Time, handle uint64, req *session.Request, out *Out) {
	n.begin(t, out)
	c := &call{handle: handle, req: req, deadline: n.now.Mono + int64(n.p.OpBudget)}
	n.startCall(c)
	n.end()
}

func (n *Node) startCall(c *call) {
	n.seq++
	c.id = n.seq
	if c.req.Kind.Mutates() && c.req.Op == (session.OpID{}) {
		// An id of our own makes it safe to send the request again, to the next
		// owner too. The request is the caller's: change a copy.
		req := *c.req
		binary.LittleEndian.PutUint64(req.Op[:8], n.rng.Uint64())
		binary.LittleEndian.PutUint64(req.Op[8:], n.rng.Uint64()|1)
		req.AutoOp = true
		c.req = &req
	}
	n.route(c)
	if !c.done { // most reads are
		n.calls[c.id] = c
		n.callq = append(n.callq, c)
	}
}

// route sends the call where it can be served now, or leaves it waiting.
func (n *Node) route(c *call) {
	if c.done {
		return
	}
	c.state = callWaiting
	if h, ok := c.req.ID.Slot(); ok && !c.parsed && n.store.Get(h, c.req.ID) != nil {
		c.slot, c.parsed = h, true // it was proved when the record came
	}
	if !c.parsed {
		parts, err := n.keys.ParseAny(string(c.req.ID))
		if errors.Is(err, session.ErrForeignID) {
			n.endCall(c, unknownSession())
			return
		}
		if err != nil {
			return // no key for it yet: a newer table may bring it (I1)
		}
		c.slot, c.parsed = parts.Slot, true
	}
	if c.req.Stale && n.readStale(c) {
		return
	}
	owner := n.effective(c.slot)
	switch {
	case owner == 0:
	case owner != n.self.Num && n.offerFirst(c, owner):
	case owner == n.self.Num:
		c.state = callServing
		n.serve(c.slot, &op{req: c.req, call: c, deadline: c.deadline})
	default:
		n.forward(c, owner)
	}
}

// forward sends the call to the owner, and by way of two others where there is
// evidence that this member cannot reach it (P2).
func (n *Node) forward(c *call, owner number) {
	budget := time.Duration(c.deadline - n.now.Mono)
	if budget <= 0 || c.hop >= 3 {
		return
	}
	at := SlotRe{c.slot, n.t.Slots[c.slot].Re}
	c.state, c.sentAt, c.sentTo, c.sentRe = callForwarded, n.now.Mono, owner, at.Re
	c.tries++
	msg := &Forward{SlotRe: at, Handle: c.id, Hop: c.hop, Budget: budget, Req: c.req}
	if via := n.servedBy(c.slot, owner); via != 0 && c.from.Num == 0 {
		msg.Relay = true
		c.leaves()
		n.send(n.holder(via), msg)
		return
	}
	p := n.peer(owner)
	bad := p.badUntil > n.now.Mono
	if !bad || c.tries > 1 {
		c.leaves()
		n.send(n.holder(owner), msg)
	}
	if (bad && !p.refused || c.tries > 1) && c.from.Num == 0 {
		relay := *msg
		relay.Relay = true
		left := 2
		for i := range n.t.Members {
			m := &n.t.Members[i]
			if left > 0 && m.Num != owner && m.Num != n.self.Num && m.State == ring.Up && n.peer(m.Num).badUntil <= n.now.Mono {
				left--
				c.leaves()
				n.send(m.Holder(), &relay)
			}
		}
	}
}

// leaves notes that the request is on its way to where it may be done.
func (c *call) leaves() {
	c.sent++
	c.maybe = c.maybe || c.req.Kind.Mutates()
}

// settleCall takes the owner's answer to a call: the client's, or a reason to
// ask the next owner. answered is how many of the copies sent it answers.
//
// A refusal says that nothing was done, and nothing will be. So it is passed on
// only where no other copy is on its way, which could arrive late, at an owner
// that does it: nothing carries a copy twice (agent/wire), and each is answered
// once.
func (n *Node) settleCall(c *call, r *session.Response, answered int) {
	switch {
	case c.done:
	case r.Status == session.Retry:
		c.state = callWaiting
	case r.Status == session.UnknownEnd && r.Code == codeOwnerLost:
		c.maybe, c.lost, c.state = true, true, callWaiting
	case r.Status == session.Unavailable && c.maybe && (c.sent > answered || c.lost):
		c.state = callWaiting
	default:
		n.endCall(c, r)
	}
}

func (n *Node) endCall(c *call, r *session.Response) {
	c.done = true
	delete(n.calls, c.id)
	if c.from.Num != 0 {
		n.reply(c.from, &Reply{c.handle, r}, c.after)
		return
	}
	n.out.Answers = append(n.out.Answers, Answer{c.handle, r, c.after, c.req.Kind.Mutates()})
}

// retryCalls routes the waiting calls again, after a new table.
func (n *Node) retryCalls() {
	for _, c := range n.callq {
		if !c.done && (c.state == callWaiting || c.state == callForwarded && n.effective(c.slot) != c.sentTo) {
			n.route(c)
		}
	}
}

// tickCalls sends unanswered calls again and ends those whose time is over.
func (n *Node) tickCalls() {
	keep := n.callq[:0]
	for _, c := range n.callq {
		switch {
		case c.done:
			continue
		case c.deadline <= n.now.Mono:
			c.after = 0
			n.endCall(c, n.late(c))
			continue
		case c.state == callWaiting, c.state == callForwarded && n.now.since(c.sentAt) > n.p.Resend:
			n.route(c)
		}
		if !c.done {
			keep = append(keep, c)
		}
	}
	clear(n.callq[len(keep):])
	n.callq = keep
}

func (n *Node) late(c *call) *session.Response {
	switch {
	case c.state == callServing && c.req.Kind.Mutates() && n.isPending(c), c.maybe:
		return unknownEnd()
	case !c.parsed:
		return unavailable("no_table", "this agent has no table yet that tells whose the session is; try again")
	}
	return unavailable("no_owner", "the session's owner cannot be reached or is being replaced; try again")
}

// isPending reports whether the call's write is on its way to copies.
func (n *Node) isPending(c *call) bool {
	w := n.slots[c.slot].writes[c.req.ID]
	if w == nil || w.op == nil {
		return false
	}
	mine := func(o *op) bool { return o.call == c }
	return mine(w.op) || slices.ContainsFunc(w.sharers, mine) || slices.ContainsFunc(w.op.same, mine)
}

// finish answers an op: to the client of this agent, or to the agent that
// forwarded it.
func (n *Node) finish(o *op, r *session.Response) {
	if o == nil || o.answered || o.merge != nil {
		return
	}
	o.answered = true
	if r.Owner == 0 {
		r.Owner = n.self.Num
	}
	for _, s := range o.same {
		c := *r
		s.exact, s.after = o.exact, o.after
		n.finish(s, &c)
	}
	after := n.journal.last
	switch {
	case r.Status == session.Retry, r.Status == session.Unavailable, r.Status == session.UnknownEnd:
		after = 0 // promises nothing
	case o.exact:
		after = o.after
	}
	if o.call != nil {
		o.call.after = after
		n.settleCall(o.call, r, 0)
		return
	}
	n.reply(o.from, &Reply{o.handle, r}, after)
}

func (n *Node) reply(to ring.Holder, m *Reply, after uint64) {
	n.send(to, m)
	if k := len(n.out.Sends); k > 0 && n.out.Sends[k-1].Msg == m {
		n.out.Sends[k-1].After = after
	}
}

func (n *Node) onForward(from ring.Holder, m *Forward) {
	if m.Slot >= ring.Slots || m.Req == nil {
		return
	}
	if re := n.t.Slots[m.Slot].Re; m.Re != re {
		// What a partition held up for longer than its budget comes from before
		// the change that it caused, and others have gone on from there since. A
		// request of now is sent again as soon as both have the same table.
		if m.Re > re {
			n.send(from, &Stale{Want: true})
		}
		n.send(from, &Reply{m.Handle, retry()})
		return
	}
	deadline := n.now.Mono + int64(min(m.Budget, n.p.OpBudget))
	if n.effective(m.Slot) == n.self.Num {
		n.serve(m.Slot, &op{req: m.Req, from: from, handle: m.Handle, deadline: deadline})
		return
	}
	if m.Relay && m.Hop < 3 {
		n.startCall(&call{handle: m.Handle, from: from, req: m.Req, slot: m.Slot, hop: m.Hop + 1, deadline: deadline})
		return
	}
	n.send(from, &Reply{m.Handle, retry()})
}

func (n *Node) onReply(_ ring.Holder, m *Reply) {
	if c := n.calls[m.Handle]; c != nil && m.Resp != nil && c.state == callForwarded {
		c.after = 0 // it waited there
		r := m.Resp
		if r.Status == session.OK && (c.req.Kind == session.Get && r.Record == nil || c.req.Kind == session.GetAttr && r.Attr == nil) {
			r = unavailable("no_record", "the owner's answer is not one that this agent can read; try again")
		}
		n.settleCall(c, r, 1)
		if !c.done && c.state == callWaiting && c.sentRe != n.t.Slots[c.slot].Re {
			n.route(c) // the table that it was sent without has come with the answer
		}
	}
}
