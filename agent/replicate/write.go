package replicate

import (
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// write is the one change of a session that is under way, and what waits for
// it (W2).
type write struct {
	seq      uint64
	slot     ring.Slot
	id       session.ID
	op       *op // nil: the session ended by itself
	resp     *session.Response
	updates  []*session.Update
	full     *Replicate // the whole records, made when a copy needs them
	next     *session.Record
	twin     *session.Record
	need     []need
	began    int64
	sentAt   int64
	sharers  []*op // the same operation, sent again
	queue    []*op
	after    []*op // reads that must see the write's end
	detached bool
	done     bool
}

// need is one copy whose acknowledgement a write waits for.
type need struct {
	who   ring.Holder
	acked bool
}

// enqueue begins the op's write, or puts it behind the one under way.
func (n *Node) enqueue(h ring.Slot, o *op) {
	w := n.slots[h].writes[o.req.ID]
	if w == nil {
		n.startNext(h, []*op{o}, nil)
		return
	}
	if n.shares(w, o) {
		return
	}
	if len(w.queue) >= n.p.MaxQueue {
		n.finish(o, unavailable("overloaded", "too many writes wait for this session; try again"))
		return
	}
	w.queue = append(w.queue, o)
}

// shares lets an operation that has come again share the outcome of the one
// under way, or of the one in the queue: when the turn of that comes, it is
// remembered for both.
func (n *Node) shares(w *write, o *op) bool {
	if o.req == nil || o.req.Op == (session.OpID{}) {
		return false
	}
	if w.op != nil && w.op.req != nil && sameOp(w.op.req, o.req) && len(w.sharers) < n.p.MaxWaiting {
		w.sharers = append(w.sharers, o)
		return true
	}
	for _, q := range w.queue {
		if q.req != nil && sameOp(q.req, o.req) {
			q.same = append(q.same, o)
			return true
		}
	}
	return false
}

func sameOp(a, b *session.Request) bool { return a.Op == b.Op && a.Body == b.Body && a.Kind == b.Kind }

// startNext begins what waited for a write, in its order: one write for each
// session (those that waited for a rotation may be of two), the others behind
// it; ops that make no write are answered at once.
func (n *Node) startNext(h ring.Slot, queue, after []*op) {
	for _, o := range queue {
		if w := n.slots[h].writes[n.opID(o)]; w != nil {
			if !n.shares(w, o) {
				w.queue = append(w.queue, o)
			}
			continue
		}
		if o.merge == nil && (o.deadline <= n.now.Mono || !n.mayWrite()) {
			n.finish(o, retry())
			continue
		}
		n.start(h, o)
	}
	for _, o := range after {
		n.perform(h, o)
	}
}

// start begins a write, or answers the op at once and returns nil.
func (n *Node) start(h ring.Slot, o *op) *write {
	id := n.opID(o)
	e := n.store.Get(h, id)
	var rec *session.Record
	if e != nil {
		rec = e.Rec
	}
	if few := n.tooFew(h, o); few != nil {
		n.finish(o, few)
		return nil
	}
	var c *session.Change
	var resp *session.Response
	if o.merge != nil {
		c = n.mergeChange(h, rec, o.merge)
		if c == nil {
			n.offerDone(h, o)
			return nil
		}
	} else {
		c, resp = session.Apply(rec, o.req, n.env(h, rec, o.req))
		if c == nil {
			if resp.Status == session.OK && resp.Replay {
				resp.Replicas = n.holders(h, id)
				n.times(e, resp)
			}
			n.finish(o, resp)
			return nil
		}
	}
	return n.launch(h, o, e, c, resp)
}

func (n *Node) opID(o *op) session.ID {
	if o.merge != nil {
		return o.merge.ID
	}
	return o.req.ID
}

// tooFew refuses a write for which not enough copies are in sync (W1, ?acks=).
func (n *Node) tooFew(h ring.Slot, o *op) *session.Response {
	s := &n.t.Slots[h]
	if n.refuse && len(s.InSync) < int(n.t.Settings.MinCopies) {
		return unavailable("too_few_copies", "too few copies of the session are in sync to accept a write; try again")
	}
	if o.req != nil && o.req.Acks > 0 && len(s.InSync)-1 < int(o.req.Acks) {
		return unavailable("too_few_copies", "fewer copies are in sync than ?acks= asks for")
	}
	return nil
}

// gen returns the generation of the next version of rec.
func (n *Node) gen(h ring.Slot, rec *session.Record) session.Gen {
	g := session.Gen{Re: n.t.Slots[h].Re}
	if !n.owns(h) || !n.open(h) {
		g.Detach, g.Num = n.detach.count, n.self.Num
	}
	if rec != nil && rec.Gen.Compare(g) > 0 {
		g = rec.Gen // written by a detached member under this same Re: go on from there
	}
	return g
}

const clockSlack = 5 * time.Minute

func (n *Node) env(h ring.Slot, rec *session.Record, req *session.Request) session.Env {
	d := n.cfg.Defaults
	env := session.Env{
		Gen: n.gen(h, rec), Stamp: n.stamp(), Now: n.now.Mono, Wall: n.now.Wall,
		MaxSize: d.MaxSize, TTL: d.TTL, MaxAge: d.MaxAge,
		KeepDead: !n.refuse, KeepDeadAt: n.p.Tombstone,
	}
	if rec == nil {
		if parts, err := n.keys.Parse(string(req.ID)); err == nil {
			age := time.Duration(n.now.Wall-parts.Issued.UnixMilli()) * time.Millisecond
			env.MayCreate = age <= min(d.TTL, n.ttl)+clockSlack && age >= -clockSlack
			if n.isDetached() && (!n.owns(h) || !n.open(h)) {
				env.MayCreate = parts.Issued.UnixMilli() >= n.detach.sinceWall-1000
			}
		}
	}
	return env
}

// launch sends a change to the copies.
func (n *Node) launch(h ring.Slot, o *op, e *session.Entry, c *session.Change, resp *session.Response) *write {
	sl := &n.slots[h]
	n.seq++
	n.Stats.Writes++
	w := &write{
		seq: n.seq, slot: h, id: c.Next.ID, op: o, resp: resp, next: c.Next, twin: c.Twin,
		began: n.now.Mono, need: n.copies(h), detached: !n.owns(h) || !n.open(h),
	}
	w.updates = append(w.updates, n.update(e, c))
	if c.Twin != nil {
		w.updates = append(w.updates, n.fullUpdate(e, c.Twin))
	}
	for _, u := range w.updates {
		n.moved(h, u.ID)
	}
	if sl.writes == nil {
		sl.writes = make(map[session.ID]*write)
	}
	sl.writes[w.id] = w
	if w.twin != nil {
		sl.writes[w.twin.ID] = w // nobody writes the new session before it is there
	}
	n.pending = append(n.pending, w)
	n.sendWrite(w)
	if o != nil && o.req != nil && o.req.Acks == 0 && resp != nil {
		early := *resp
		early.Owner = n.self.Num
		n.finish(o, &early)
	}
	n.checkCommit(w)
	return w
}

// update returns what travels of a change.
func (n *Node) update(e *session.Entry, c *session.Change) *session.Update {
	if c.Full || e == nil {
		return n.fullUpdate(e, c.Next)
	}
	return &session.Update{
		ID: c.Next.ID, Base: e.Rec.Version(), Next: c.Next.Version(), Set: c.Set, Op: c.Op,
		Left: n.idle(c.Next), Age: n.now.since(e.Born),
	}
}

// fullUpdate returns the whole of a new state of e's session.
func (n *Node) fullUpdate(e *session.Entry, rec *session.Record) *session.Update {
	u := &session.Update{ID: rec.ID, Full: rec, Left: n.idle(rec)}
	if e != nil {
		u.Age = n.now.since(e.Born)
	}
	return u
}

// storedUpdate returns the record as it stands, with the time that it has left.
func (n *Node) storedUpdate(e *session.Entry) *session.Update {
	u := &session.Update{ID: e.Rec.ID, Full: e.Rec, Age: n.now.since(e.Born)}
	if e.Deadline != 0 {
		u.Left = max(time.Duration(e.Deadline-n.now.Mono), 1)
	}
	return u
}

// idle returns how long a record lasts from now if nobody uses it.
func (n *Node) idle(rec *session.Record) time.Duration {
	if rec.Dead {
		return n.p.Tombstone
	}
	return rec.TTL
}

// sendWrite sends the write to all copies that have not acknowledged it.
func (n *Node) sendWrite(w *write) {
	w.sentAt = n.now.Mono
	msg := &Replicate{SlotRe{w.slot, n.t.Slots[w.slot].Re}, w.updates}
	for i := range w.need {
		if !w.need[i].acked {
			n.send(w.need[i].who, msg)
		}
	}
}

// whole returns the write with whole records, for a copy that lacks the base.
func (n *Node) whole(w *write) *Replicate {
	re := n.t.Slots[w.slot].Re
	if w.full == nil || w.full.Re != re {
		e := n.store.Get(w.slot, w.id)
		ups := []*session.Update{n.fullUpdate(e, w.next)}
		if w.twin != nil {
			ups = append(ups, n.fullUpdate(e, w.twin))
		}
		w.full = &Replicate{SlotRe{w.slot, re}, ups}
	}
	return w.full
}

// checkCommit commits the write when every copy has acknowledged it (W5).
func (n *Node) checkCommit(w *write) {
	if w.done || slices.ContainsFunc(w.need, func(x need) bool { return !x.acked }) {
		if !w.done && w.op != nil && w.op.req != nil && w.op.req.Acks == 1 && !w.op.answered && w.acked(&n.t.Slots[w.slot]) != nil {
			early := *w.resp
			early.Replicas = w.acked(&n.t.Slots[w.slot])
			n.finish(w.op, &early)
		}
		return
	}
	n.commit(w)
}

// acked returns the members in sync that have acknowledged the write.
func (w *write) acked(s *ring.SlotState) []member.Number {
	var out []number
	for _, x := range w.need {
		if x.acked && s.InSyncHas(x.who) {
			out = append(out, x.who.Num)
		}
	}
	return out
}

// commit makes the write the session's state, answers it and begins the next.
func (n *Node) commit(w *write) {
	sl := &n.slots[w.slot]
	s := &n.t.Slots[w.slot]
	w.done = true
	delete(sl.writes, w.id)
	if w.twin != nil {
		delete(sl.writes, w.twin.ID)
	}
	var age time.Duration
	if e := n.store.Get(w.slot, w.id); e != nil {
		age = n.now.since(e.Born)
	} else if w.op != nil && w.op.merge != nil {
		age = w.op.merge.Age
	}
	left := n.idle(w.next)
	if w.op != nil && w.op.merge != nil && !w.next.Dead {
		left = w.op.merge.Left // a merge is no use
	}
	e := n.store.Put(w.slot, w.next, n.now.Mono, age, left)
	if w.op == nil || w.op.merge == nil {
		e.Used = n.now.Mono
	}
	unsettled := n.passedOver(w) || w.detached
	if unsettled {
		n.markUnsettled(e)
	}
	if w.twin != nil {
		e := n.store.Put(w.slot, w.twin, n.now.Mono, age, n.idle(w.twin))
		if unsettled {
			n.markUnsettled(e)
		}
	}
	n.answer(w, w.acked(s))
	if w.op != nil && w.op.merge != nil {
		n.offerDone(w.slot, w.op)
	}
	n.startNext(w.slot, w.queue, w.after)
}

// passedOver reports whether a detached owner did not ask all copies in sync,
// and notes which ones: they get the write as soon as they can be reached, or
// it is offered to whoever owns the slot by then (S2, S6).
func (n *Node) passedOver(w *write) (any bool) {
	if n.refuse || !n.isDetached() {
		return false
	}
	for _, x := range n.t.Slots[w.slot].InSync {
		if x == n.self || slices.ContainsFunc(w.need, func(d need) bool { return d.who == x }) {
			continue
		}
		any = true
		if n.owns(w.slot) {
			n.addLag(w.slot, x, w.id)
			if w.twin != nil {
				n.addLag(w.slot, x, w.twin.ID)
			}
		}
	}
	return any
}

func (n *Node) answer(w *write, replicas []number) {
	if w.resp == nil {
		return
	}
	w.resp.Owner, w.resp.Replicas = n.self.Num, replicas
	if w.op != nil && w.op.req != nil && w.op.req.Kind == session.Create {
		w.resp.Record, w.resp.Left = w.next, w.next.TTL
	}
	if w.op != nil && w.op.req != nil && int(w.op.req.Acks) > len(replicas) {
		n.finish(w.op, unknownEnd())
	} else {
		n.finish(w.op, w.resp)
	}
	for _, o := range w.sharers {
		r := *w.resp
		r.Replay = true
		n.finish(o, &r)
	}
}

func (n *Node) onReplicate(from ring.Holder, m *Replicate) {
	if m.Slot >= ring.Slots || len(m.Updates) == 0 {
		return
	}
	s := &n.t.Slots[m.Slot]
	switch {
	case m.Re < s.Re:
		n.send(from, &Stale{})
		return
	case m.Re > s.Re:
		n.send(from, &Stale{Want: true})
		return
	}
	fromOwner := from.Num == s.Owner
	if n.refuse && !fromOwner {
		return
	}
	ack := &Ack{SlotRe: m.SlotRe, ID: m.Updates[0].ID, Version: m.Updates[0].Version()}
	if !fromOwner && n.owns(m.Slot) && n.open(m.Slot) {
		// A detached member served this session; its record is merged here (S6).
		for _, u := range m.Updates {
			if u.Full == nil {
				ack.NeedFull = true
				n.send(from, ack)
				return
			}
			n.takeOffer(m.Slot, from, u)
		}
		n.send(from, ack)
		return
	}
	for _, u := range m.Updates {
		if !n.storeUpdate(m.Slot, u, fromOwner) {
			ack.NeedFull = true
			break
		}
	}
	n.send(from, ack)
}

// storeUpdate brings this copy to the update's version, or beyond; false where
// it lacks the base (W4).
func (n *Node) storeUpdate(h ring.Slot, u *session.Update, fromOwner bool) bool {
	e := n.store.Get(h, u.ID)
	var rec *session.Record
	if e != nil {
		rec = e.Rec
	}
	if n.refuse && rec != nil {
		// One version has one content: another one here is damage, and is repaired.
		later := rec.Version().Compare(u.Version())
		if damaged := later == 0 && fromOwner && u.Full != nil && u.Full.Sum() != rec.Sum(); later >= 0 && !damaged {
			return true
		}
	}
	next, err := u.ApplyTo(rec, !n.refuse, n.now.Mono)
	if err != nil {
		// In serve mode two members may have made the same version: the whole
		// record tells.
		return n.refuse && rec != nil && rec.Version() == u.Version()
	}
	if !n.refuse {
		n.see(next.Attrs)
		if rec != nil && u.Full != nil {
			return n.storeMerged(h, e, u, fromOwner)
		}
	}
	n.moved(h, u.ID)
	n.store.Put(h, next, n.now.Mono, u.Age, u.Left)
	return true
}

// storeMerged joins a whole record with the one held, so that what another
// member wrote at the same time is not lost (S3). What the sender lacks is
// offered to the owner.
func (n *Node) storeMerged(h ring.Slot, e *session.Entry, u *session.Update, fromOwner bool) bool {
	newer := u.Full.Version().Compare(e.Rec.Version())
	if newer == 0 && u.Full.Sum() == e.Rec.Sum() {
		return true
	}
	n.moved(h, u.ID)
	if newer > 0 && fromOwner && u.Full.Gen.Detach == 0 && !e.Unsettled && !e.Rec.Dead {
		n.store.Put(h, u.Full, n.now.Mono, u.Age, u.Left)
		return true
	}
	merged, conflicts := session.Merge(e.Rec, u.Full)
	if session.SameContent(merged, e.Rec) && newer <= 0 {
		if !session.SameContent(merged, u.Full) {
			n.markUnsettled(e)
		}
		return true
	}
	n.Stats.MergeConflicts += uint64(conflicts)
	known := session.SameContent(merged, u.Full)
	left := u.Left
	if merged.Dead && !u.Full.Dead {
		left = max(time.Duration(e.Deadline-n.now.Mono), 1) // of the tombstone
	}
	e = n.store.Put(h, merged, n.now.Mono, u.Age, left)
	if !known {
		n.markUnsettled(e)
	}
	return true
}

func (n *Node) onAck(from ring.Holder, a *Ack) {
	if a.Slot >= ring.Slots {
		return
	}
	sl := &n.slots[a.Slot]
	if a.Re == n.t.Slots[a.Slot].Re {
		if w := sl.writes[a.ID]; w != nil && w.id == a.ID && w.next.Version() == a.Version {
			n.ackWrite(w, from, a)
		}
		if sl.act != nil {
			n.ackActivation(a.Slot, from, a)
		}
	}
	if sl.add != nil {
		n.ackAdding(a.Slot, from, a)
	}
	if sl.lag != nil && !a.NeedFull {
		n.ackLag(a.Slot, from, a)
	}
}

func (n *Node) ackWrite(w *write, from ring.Holder, a *Ack) {
	if a.NeedFull {
		n.send(from, n.whole(w))
		return
	}
	for i := range w.need {
		if w.need[i].who == from && !w.need[i].acked {
			w.need[i].acked = true
			n.checkCommit(w)
			return
		}
	}
}

// tickWrites sends unacknowledged writes again, tells the leader who holds them
// up, and in serve mode answers those that have waited long enough (S1).
func (n *Node) tickWrites() {
	began := len(n.pending)
	keep := n.pending[:0]
	for _, w := range n.pending[:began] {
		if w.done {
			continue
		}
		age := n.now.since(w.began)
		if n.now.since(w.sentAt) >= n.p.Resend {
			n.sendWrite(w)
		}
		if age > n.p.Degrade {
			for _, x := range w.need {
				if !x.acked {
					n.holdsUp(x.who)
				}
			}
			if !n.refuse {
				n.degrade(w)
			}
		}
		if !w.done {
			keep = append(keep, w)
		}
	}
	// Commits in the loop have let others begin; those stand behind.
	n.pending = append(keep, n.pending[began:]...)
}

// degrade commits a write that not all copies have confirmed, once another
// member has it, or at once where a detached member is alone; the others get it
// as soon as they can be reached (S1).
func (n *Node) degrade(w *write) {
	if w.op != nil && w.op.req != nil && w.op.req.Acks > 0 && !w.op.answered && w.op.deadline > n.now.Mono {
		return
	}
	acked := w.acked(&n.t.Slots[w.slot])
	if len(acked) == 0 && !(n.isDetached() && !n.wakeup.dozing) {
		return
	}
	n.Stats.Degraded++
	for _, x := range w.need {
		if !x.acked {
			n.addLag(w.slot, x.who, w.id)
		}
	}
	if w.twin != nil {
		for _, x := range w.need {
			if !x.acked {
				n.addLag(w.slot, x.who, w.twin.ID)
			}
		}
	}
	n.commit(w)
	for _, id := range w.ids() {
		if e := n.store.Get(w.slot, id); e != nil {
			n.markUnsettled(e)
		}
	}
}

// ids returns the sessions that the write changes.
func (w *write) ids() []session.ID {
	if w.twin != nil {
		return []session.ID{w.id, w.twin.ID}
	}
	return []session.ID{w.id}
}
