package replicate

import (
	"time"

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
	left     time.Duration // how long a merged session has, which is no use of it; 0: this is one
	began    int64
	sentAt   int64
	sharers  []*op // the same operation, sent again
	queue    []*op
	after    []*op // reads that must see the write's end
	detached bool
	few      bool // answered before all copies had it (S1)
	done     bool
	base     session.Version // of what it changes
	logged   uint64          // the log record that holds it; 0: none yet
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
			if len(q.same) >= n.p.MaxWaiting {
				n.finish(o, unknownEnd()) // the first of them may still be done
				return true
			}
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
		if n.leaseOver() {
			n.finish(o, retry()) // it waited for copies, and they for longer than the lease lasts
			continue
		}
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
			o.shows(e)
			n.finish(o, resp)
			return nil
		}
		if c.Twin != nil && !n.meetsTwin(h, o, c) {
			return nil
		}
	}
	return n.launch(h, o, e, c, resp)
}

// meetsTwin allows for the session into which another is rotated being there already:
// both parts of a divided cluster may do one rotation, and what has become of the new
// session since then stands, its end above all. It reports false where the op waits
// for a write to that session.
func (n *Node) meetsTwin(h ring.Slot, o *op, c *session.Change) bool {
	if w := n.slots[h].writes[c.Twin.ID]; w != nil {
		if len(w.queue) >= n.p.MaxQueue {
			n.finish(o, unavailable("overloaded", "too many writes wait for this session; try again"))
		} else {
			w.queue = append(w.queue, o)
		}
		return false
	}
	if e := n.store.Get(h, c.Twin.ID); e != nil {
		m, conflicts := session.Merge(e.Rec, c.Twin)
		n.Stats.MergeConflicts += uint64(conflicts)
		c.Twin = m.Restamp(session.Version{Gen: n.gen(h, m), Ver: max(e.Rec.Ver, c.Twin.Ver) + 1})
	}
	return true
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
		if parts, err := n.keys.ParseAny(string(req.ID)); err == nil {
			age := time.Duration(n.now.Wall-parts.Issued.UnixMilli()) * time.Millisecond
			env.MayCreate = age <= min(d.TTL, n.ttl)+clockSlack && age >= -clockSlack
			if n.isDetached() && (!n.owns(h) || !n.open(h)) {
				env.MayCreate = parts.Issued.UnixMilli() >= n.detach.sinceWall-1000
			}
			env.MayCreate = env.MayCreate || parts.Named
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
	if o != nil && o.merge != nil && !c.Next.Dead && c.Next.TTL > 0 && o.merge.Left > 0 {
		if w.left = o.merge.Left; e != nil && !e.Rec.Dead {
			w.left = max(w.left, time.Duration(e.Deadline-n.now.Mono))
		}
		w.updates[0].Left = w.left
	}
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
	n.logPending(w, e)
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
		if w.left > 0 {
			ups[0].Left = w.left
		}
		if w.twin != nil {
			ups = append(ups, n.fullUpdate(e, w.twin))
		}
		w.full = &Replicate{SlotRe{w.slot, re}, ups}
	}
	return w.full
}
