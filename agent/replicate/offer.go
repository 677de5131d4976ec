package replicate

import (
	"slices"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// unsettled is a session whose state was acknowledged without the slot's owner,
// or without all copies. It is offered until an owner has it (S6).
type unsettled struct {
	*session.Entry
	since int64
}

func (n *Node) markUnsettled(e *session.Entry, since int64) {
	if n.refuse || e.Unsettled {
		return
	}
	n.settle(e, false)
	n.unsettled = append(n.unsettled, unsettled{e, since})
}

// tickOffers hands unsettled records to their owners; this member's own are
// settled when no copy lags behind any more.
func (n *Node) tickOffers() {
	if len(n.unsettled) == 0 || n.now.since(n.offerAt) < 2*n.p.Resend {
		return
	}
	n.offerAt = n.now.Mono
	n.keepOld()
	all := n.unsettled
	n.unsettled = nil
	budget, late := offersAtOnce, []unsettled(nil)
	for i, e := range all {
		if budget == 0 {
			n.unsettled = append(n.unsettled, all[i:]...) // first the next time
			break
		}
		h := e.Slot()
		if !e.Unsettled || n.store.Get(h, e.Rec.ID) != e.Entry {
			continue
		}
		late = append(late, e)
		switch s := &n.t.Slots[h]; {
		case n.owns(h) && n.open(h):
			n.settleOwn(h, e.Entry)
		case s.Owner != 0 && s.Owner != n.self.Num:
			budget--
			n.post(n.holder(s.Owner), &Offer{SlotRe{h, s.Re}, n.storedUpdate(e.Entry)}, true)
		}
	}
	n.unsettled = append(n.unsettled, late...)
}

// keepOld stops offering what this member kept to itself for longer than tombstones
// are remembered: what was deleted meanwhile would come back (E2).
func (n *Node) keepOld() {
	n.unsettled = slices.DeleteFunc(n.unsettled, func(u unsettled) bool {
		old := n.now.since(u.since) >= n.p.Tombstone && !n.owns(u.Slot())
		if old && !u.Gone() {
			n.settle(u.Entry, true)
		}
		return old
	})
}

// followDiscards forgets what is old where the table says so (E2), or where this
// member knows by its own clock that it was away for as long: leaders that came
// and went meanwhile cannot tell.
func (n *Node) followDiscards(count uint32, old *ring.Table) {
	switch {
	case count > n.discarded:
		n.noteDiscards(count)
		n.discardOld(func(ring.Slot) bool { return true })
	case n.contact != nil && n.now.since(*n.contact) > n.p.Away:
		// Where it may be in the course of being filled, its owner counts on what it
		// has said that it holds.
		n.discardOld(func(h ring.Slot) bool {
			return n.slots[h].listed <= *n.contact && !slices.Contains(old.Slots[h].Learners, n.self)
		})
	}
}

// inContact notes that this member counted for something at that time.
func (n *Node) inContact(at int64) { n.contact = &at }

// discardOld forgets what this member holds from before it was away for longer
// than deletions are certain to be remembered (E2). What nobody else may have
// stays: copies in sync, of slots that waited for this member, and what is
// unsettled for less time than tombstones are kept.
func (n *Node) discardOld(which func(ring.Slot) bool) {
	spared := map[*session.Entry]bool{}
	for _, u := range n.unsettled {
		if n.now.since(u.since) < n.p.Tombstone {
			spared[u.Entry] = true
		}
	}
	for h := range ring.Slot(ring.Slots) {
		if n.t.Slots[h].InSyncHas(n.self) {
			continue
		}
		n.store.Each(h, func(e *session.Entry) bool {
			switch {
			case e.Unsettled && spared[e]:
			case which(h):
				n.remove(e)
			default:
				n.settle(e, true) // not to be offered any more
			}
			return true
		})
	}
}

// offersAtOnce bounds what is offered in one round, so that a healed partition
// does not bury its owners in merges.
const offersAtOnce = 256

// settleOwn makes sure that every copy has the owner's record.
func (n *Node) settleOwn(h ring.Slot, e *session.Entry) {
	sl := &n.slots[h]
	if sl.writes[e.Rec.ID] != nil {
		return
	}
	behind := false
	for _, x := range n.t.Slots[h].InSync {
		if x != n.self && sl.lag[lagKey{x.Num, e.Rec.ID}] != nil {
			behind = true
		}
	}
	if !behind {
		n.settle(e, true)
	}
}

func (n *Node) onOffer(from ring.Holder, m *Offer) {
	if m.Slot >= ring.Slots || m.Update == nil || m.Update.Full == nil || n.refuse {
		return
	}
	n.takeOffer(m.Slot, from, m.Update)
}

// takeOffer merges a record that another member wrote, as a write of its own.
func (n *Node) takeOffer(h ring.Slot, from ring.Holder, u *session.Update) {
	if !n.owns(h) || !n.open(h) {
		return
	}
	n.see(u.Full.Attrs)
	o := &op{merge: u, from: from, deadline: n.now.Mono + int64(n.p.OpBudget)}
	if w := n.slots[h].writes[u.ID]; w != nil {
		if len(w.queue) < n.p.MaxQueue {
			w.queue = append(w.queue, o)
		}
		return
	}
	n.startNext(h, []*op{o}, nil)
}

// mergeChange returns the change that brings rec to its merge with the offered
// record, or nil where rec has all of it. Equal contents under a higher version
// are merged too: the new version is above both, so that all copies take it.
func (n *Node) mergeChange(h ring.Slot, rec *session.Record, u *session.Update) *session.Change {
	if over := u.Left <= 1 && u.Full.TTL > 0 || u.Full.MaxAge > 0 && u.Age >= u.Full.MaxAge; rec == nil && over && !u.Full.Dead {
		return nil // it has ended where nobody could write its tombstone
	}
	m, conflicts := session.Merge(rec, u.Full)
	if rec != nil && session.SameContent(m, rec) && u.Full.Version().Compare(rec.Version()) <= 0 {
		return nil
	}
	n.Stats.MergeConflicts += uint64(conflicts)
	v := session.Version{Gen: n.gen(h, m), Ver: m.Ver + 1}
	if rec != nil {
		v.Ver = max(rec.Ver, u.Full.Ver) + 1
	}
	return &session.Change{Next: m.Restamp(v), Full: true}
}

// offerDone tells the member that offered a record that it is in the owner's. While
// that is not at all copies, the member goes on offering: this one may die with it.
func (n *Node) offerDone(h ring.Slot, o *op) {
	if o.from.Num == 0 {
		return
	}
	at := SlotRe{h, n.t.Slots[h].Re}
	if e := n.store.Get(h, o.merge.ID); e != nil && e.Unsettled {
		at.Re = 0
	}
	n.post(o.from, &OfferAck{at, o.merge.ID, o.merge.Version()}, true)
}

func (n *Node) onOfferAck(from ring.Holder, m *OfferAck) {
	if m.Slot >= ring.Slots {
		return
	}
	e := n.store.Get(m.Slot, m.ID)
	switch {
	case e == nil || !e.Unsettled || e.Rec.Version().Compare(m.Version) > 0:
	case m.Re != 0:
		n.settle(e, true)
	default:
		for _, c := range n.callq { // the owner can answer what waited for it to have this
			if !c.done && c.state == callWaiting && c.req.ID == m.ID && c.offeredTo == from {
				c.offered = m.Version
				n.route(c)
			}
		}
	}
}
