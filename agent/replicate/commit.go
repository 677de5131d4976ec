package replicate

import (
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

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
	e, twin := n.putCommitted(w, age, left)
	if w.next.Dead {
		e.Told = 0 // of what a named id is in its next life its copies know nothing
	}
	if w.op == nil || w.op.merge == nil {
		e.Used = n.now.Mono
		if !w.few && !w.detached && w.next.TTL > 0 && !w.next.Dead {
			e.Told = max(e.Told, w.began+int64(w.next.TTL)) // which its copies took from it
		}
	}
	if n.passedOver(w) || w.detached || w.few {
		n.markUnsettled(e, w.began)
		if twin != nil {
			n.markUnsettled(twin, w.began)
		}
	}
	n.answer(w, w.acked(s), e, twin)
	if w.op != nil && w.op.merge != nil {
		n.offerDone(w.slot, w.op)
	}
	n.startNext(w.slot, w.queue, w.after)
}

// passedOver reports whether a detached owner did not ask all copies in sync,
// and notes which ones: they get the write as soon as they can be reached, or
// it is offered to whoever owns the slot by then (S2, S6). It may have heard of
// the leader again since it asked.
func (n *Node) passedOver(w *write) (any bool) {
	if n.refuse {
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

func (n *Node) answer(w *write, replicas []number, e, twin *session.Entry) {
	if w.resp == nil {
		return
	}
	w.resp.Owner, w.resp.Replicas = n.self.Num, replicas
	if w.op != nil && w.op.req != nil && w.op.req.Kind == session.Create {
		w.resp.Record, w.resp.Left = w.next, w.next.TTL
		if age := w.next.MaxAge; age > 0 {
			w.resp.Left = min(w.resp.Left, age)
		}
	}
	w.op.shows(e)
	w.op.shows(twin)
	if w.op != nil && w.op.req != nil && int(w.op.req.Acks) > len(replicas) {
		n.finish(w.op, unknownEnd())
	} else {
		n.finish(w.op, w.resp)
	}
	for _, o := range w.sharers {
		r := *w.resp
		r.Replay = true
		o.exact, o.after = w.op.exact, w.op.after
		n.finish(o, &r)
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
	w.few = true
	n.commit(w)
}

// ids returns the sessions that the write changes.
func (w *write) ids() []session.ID {
	if w.twin != nil {
		return []session.ID{w.id, w.twin.ID}
	}
	return []session.ID{w.id}
}
