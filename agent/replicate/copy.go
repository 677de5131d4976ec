package replicate

import (
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

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
	if u.Full == nil {
		n.see(u.Set) // what the session holds beside came before
	} else {
		n.see(u.Full.Attrs)
	}
	if !n.refuse && rec != nil && u.Full != nil {
		return n.storeMerged(h, e, u, fromOwner)
	}
	n.moved(h, u.ID)
	n.put(h, next, u.Age, u.Left, u)
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
		n.put(h, u.Full, u.Age, u.Left, nil)
		return true
	}
	merged, conflicts := session.Merge(e.Rec, u.Full)
	if session.SameContent(merged, e.Rec) && newer <= 0 {
		if !session.SameContent(merged, u.Full) {
			n.markUnsettled(e, n.now.Mono)
		}
		return true
	}
	n.Stats.MergeConflicts += uint64(conflicts)
	known := session.SameContent(merged, u.Full)
	left := u.Left
	if merged.Dead && !u.Full.Dead {
		left = max(time.Duration(e.Deadline-n.now.Mono), 1) // of the tombstone
	}
	e = n.put(h, merged, u.Age, left, nil)
	if !known {
		n.markUnsettled(e, n.now.Mono)
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
