package replicate

import (
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// serve works on an op for a slot that this member owns, by the table or, cut
// off from the leader in serve mode, by gossip (S2).
func (n *Node) serve(h ring.Slot, o *op) {
	switch {
	case n.owns(h):
		if !n.open(h) && n.isDetached() {
			n.serveDetached(h, o) // those that it would have to ask may be gone for good
			return
		}
		if !n.open(h) {
			n.wait(h, o)
			return
		}
		if n.leaseOver() {
			n.finish(o, retry()) // R1, W1; the asking agent tries until its time is over
			return
		}
		if !n.refuse && n.wakeup.dozing {
			n.askAwake(h, o)
			return
		}
		if n.waitsForReturned(h, o) {
			return
		}
		n.perform(h, o)
	case n.effective(h) == n.self.Num:
		n.serveDetached(h, o)
	default:
		n.finish(o, retry())
	}
}

// wait keeps the op until the slot opens.
func (n *Node) wait(h ring.Slot, o *op) {
	sl := &n.slots[h]
	if len(sl.waiting) >= n.p.MaxWaiting {
		n.finish(o, unavailable("overloaded", "too many requests wait for this slot to open; try again"))
		return
	}
	sl.waiting = append(sl.waiting, o)
}

// perform does the op on this member's own record.
func (n *Node) perform(h ring.Slot, o *op) {
	if o.deadline <= n.now.Mono {
		n.finish(o, retry())
		return
	}
	id := o.req.ID
	e := n.store.Get(h, id)
	if e != nil && !e.Rec.Dead && (n.ended(e) || n.ending(h, id)) {
		// Past its deadline a session is gone only when the copies know it (E1).
		w := n.slots[h].writes[id]
		if w == nil {
			if w = n.expire(h, e); w == nil {
				n.finish(o, unavailable("too_few_copies", "not enough copies are in sync to end the session; try again"))
				return
			}
		}
		if !w.done && len(w.after) >= n.p.MaxWaiting {
			n.finish(o, unavailable("overloaded", "too many requests wait for this session to end; try again"))
			return
		}
		if !w.done {
			w.after = append(w.after, o)
			return
		}
		e = n.store.Get(h, id)
	}
	if o.req.Kind.Mutates() {
		n.enqueue(h, o)
		return
	}
	n.Stats.Reads++
	o.shows(e)
	r := n.read(h, e, o.req)
	if r.Status == session.OK && (o.req.Kind == session.Touch || o.req.Touch) && n.awaitTold(h, e, o, r) {
		return
	}
	n.finish(o, r)
}

// ended reports whether the session's time is over.
func (n *Node) ended(e *session.Entry) bool {
	at, ok := e.Ends()
	return ok && at <= n.now.Mono && n.now.Mono >= n.wakeup.grace
}

// ending reports whether its tombstone is under way, because its time was over or it
// was the least recently used. A use that becomes known then does not save it: some
// copies may believe already that it is gone.
func (n *Node) ending(h ring.Slot, id session.ID) bool {
	w := n.slots[h].writes[id]
	return w != nil && w.op == nil && w.next.Dead
}

// read answers Get, GetAttr, Head and Touch from the committed record (R1).
func (n *Node) read(h ring.Slot, e *session.Entry, req *session.Request) *session.Response {
	if e == nil || e.Rec.Dead {
		r := unknownSession()
		if e != nil && req.Kind == session.Head {
			r.Code = codeEnded
		}
		return r
	}
	r := &session.Response{Status: session.OK, ID: e.Rec.ID, Version: e.Rec.Version(), Owner: n.self.Num, Stale: n.wakeup.alone}
	if req.Kind == session.Touch && len(req.IfMatch) > 0 && !slices.Contains(req.IfMatch, r.Version) {
		f := session.Fail(session.VersionDiffs, "version_mismatch", "the session has changed since the version in If-Match; read it again")
		f.ID, f.Version = r.ID, r.Version
		return f
	}
	switch {
	case req.Kind == session.Touch:
		n.used(e, n.now.Mono, req.TTL) // the asker tells of later uses only so often
	case req.Touch:
		n.used(e, n.now.Mono, 0)
	}
	switch req.Kind {
	case session.Get:
		r.Record = e.Rec
	case session.GetAttr:
		if r.Attr = e.Rec.Attr(req.Name); r.Attr == nil {
			f := session.Fail(session.NoAttr, "unknown_attribute", "the session has no such attribute")
			f.ID, f.Version = r.ID, r.Version
			return f
		}
	}
	n.times(e, r)
	if req.Kind != session.Head {
		r.Replicas = n.holders(h, e.Rec.ID)
	}
	return r
}

func (n *Node) times(e *session.Entry, r *session.Response) {
	r.Age, r.Idle = n.now.since(e.Born), n.now.since(e.Used)
	if at, ok := e.Ends(); ok {
		r.Left = max(time.Duration(at-n.now.Mono), 0)
	}
}

// holders returns the members beside this one that hold the session's present
// version. Only an owner that has opened the slot knows; a detached member, which asks
// for each session by itself, does not.
func (n *Node) holders(h ring.Slot, id session.ID) []number {
	if !n.owns(h) || !n.open(h) {
		return nil
	}
	s := &n.t.Slots[h]
	out := make([]number, 0, len(s.InSync))
	for _, x := range s.InSync {
		if x == n.self {
			continue
		}
		if lag := n.slots[h].lag; lag != nil && lag[lagKey{x.Num, id}] != nil {
			continue
		}
		out = append(out, x.Num)
	}
	return out
}

// readStale answers a ?consistency=stale read from whatever copy this member
// has.
func (n *Node) readStale(c *call) bool {
	if c.req.Kind != session.Get && c.req.Kind != session.GetAttr {
		return false
	}
	e := n.store.Get(c.slot, c.req.ID)
	if e == nil || e.Rec.Dead || n.ended(e) {
		return false
	}
	if n.owns(c.slot) && n.open(c.slot) && !n.leaseOver() {
		return false // it can tell what is true
	}
	req := *c.req
	req.Touch = false
	r := n.read(c.slot, e, &req)
	r.Stale, r.Owner = true, n.t.Slots[c.slot].Owner
	r.Replicas = nil
	c.after = e.Logged
	n.endCall(c, r)
	return true
}
