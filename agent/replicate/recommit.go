package replicate

import (
	"slices"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

const fetchBatch = 64

func (n *Node) fetchMore(h ring.Slot) {
	a := n.slots[h].act
	a.sentAt = n.now.Mono
	waiting := false
	for _, s := range a.members {
		if len(s.fetch) > 0 {
			waiting = true
			n.fetchFrom(h, s)
		}
	}
	if !waiting {
		n.recommit(h)
	}
}

func (n *Node) fetchFrom(h ring.Slot, s *sealed) {
	n.send(s.who, &Fetch{SlotRe{h, n.slots[h].act.re}, 0, slices.Clone(s.fetch[:min(len(s.fetch), fetchBatch)])})
}

// fetchBytes bounds the answer to one Fetch; the rest is asked for again.
const fetchBytes = 2 << 20

func (n *Node) onFetch(from ring.Holder, m *Fetch) {
	if m.Slot >= ring.Slots || m.Re != n.t.Slots[m.Slot].Re {
		n.send(from, &Stale{Want: true})
		return
	}
	r := &Records{SlotRe: m.SlotRe, Tag: m.Tag}
	size := 0
	for _, id := range m.IDs {
		e := n.store.Get(m.Slot, id)
		if e != nil {
			size += int(recordSize(e.Rec))
			if size > fetchBytes && len(r.Updates) > 0 {
				break // one alone must do, of whatever size
			}
			r.Updates = append(r.Updates, n.storedUpdate(e))
		}
		r.Asked = append(r.Asked, id)
	}
	n.send(from, r)
}

func (n *Node) onRecords(from ring.Holder, m *Records) {
	if m.Slot >= ring.Slots || m.Re != n.t.Slots[m.Slot].Re {
		return
	}
	if m.Tag != 0 {
		n.detachedRecords(from, m)
		return
	}
	a := n.slots[m.Slot].act
	if a == nil || a.phase != phaseFetch {
		return
	}
	waiting := false
	for _, s := range a.members {
		if s.who == from {
			before := len(s.fetch)
			s.fetch = slices.DeleteFunc(s.fetch, func(id session.ID) bool { return slices.Contains(m.Asked, id) })
			for _, u := range m.Updates {
				if f := a.found[u.ID]; f != nil && u.Full != nil {
					n.foundRecord(f, u)
				}
			}
			// An answer that came twice asks for nothing more.
			if len(s.fetch) > 0 && len(s.fetch) < before {
				n.fetchFrom(m.Slot, s)
			}
		}
		waiting = waiting || len(s.fetch) > 0
	}
	if !waiting {
		n.recommit(m.Slot)
	}
}

func (n *Node) foundRecord(f *found, u *session.Update) {
	n.see(u.Full.Attrs)
	f.age, f.left = max(f.age, u.Age), max(f.left, u.Left)
	switch {
	case n.refuse:
		if f.best == nil || u.Full.Version().Compare(f.best.Version()) > 0 {
			f.best = u.Full
		}
	default:
		m, conflicts := session.Merge(f.best, u.Full)
		n.Stats.MergeConflicts += uint64(conflicts)
		f.best = m
	}
}

// recommit stamps what was found with the new generation and has every member
// in sync store it. A merged state gets a version above both (S5).
func (n *Node) recommit(h ring.Slot) {
	a := n.slots[h].act
	a.phase, a.sentAt = phaseCommit, n.now.Mono
	for _, f := range a.order {
		if f.best == nil {
			continue // it ended between listing and fetching
		}
		v := session.Version{Gen: session.Gen{Re: a.re}, Ver: f.best.Ver}
		if !n.refuse {
			v.Ver++
			if f.best.Gen.Compare(v.Gen) > 0 {
				v.Gen = f.best.Gen
			}
		}
		f.best = f.best.Restamp(v)
		if f.best.ID.Named() && !f.best.Dead {
			f.left = min(f.left, f.best.TTL) // what there is of it may be the time of a tombstone
		}
		n.put(h, f.best, f.age, f.left, nil)
		a.left++
	}
	n.sendCommits(h)
	if a.left == 0 {
		n.opened(h)
	}
}

// commitsAtOnce bounds the records on their way to the copies in one slot.
const commitsAtOnce = 256

// sendCommits sends the next records, as many as may be on their way.
func (n *Node) sendCommits(h ring.Slot) {
	a := n.slots[h].act
	for ; a.next < len(a.order) && a.flying < commitsAtOnce; a.next++ {
		if f := a.order[a.next]; f.best != nil {
			a.flying++
			n.sendCommit(h, f)
		}
	}
}

// resendCommits sends again what not all copies have acknowledged.
func (n *Node) resendCommits(h ring.Slot) {
	a := n.slots[h].act
	a.sentAt = n.now.Mono
	for _, f := range a.order[:a.next] {
		if f.best != nil {
			n.sendCommit(h, f)
		}
	}
}

func (n *Node) sendCommit(h ring.Slot, f *found) {
	a := n.slots[h].act
	var msg *Replicate
	for _, s := range a.members {
		if f.reach[s.who] {
			continue
		}
		if msg == nil {
			msg = &Replicate{SlotRe{h, a.re}, []*session.Update{{ID: f.id, Full: f.best, Age: f.age, Left: f.left}}}
		}
		n.send(s.who, msg)
	}
}

func (n *Node) ackActivation(h ring.Slot, from ring.Holder, m *Ack) {
	a := n.slots[h].act
	f := a.found[m.ID]
	if a.phase != phaseCommit || f == nil || f.best == nil || f.best.Version() != m.Version || f.reach[from] {
		return
	}
	f.reach[from] = true
	for _, s := range a.members {
		if !f.reach[s.who] {
			return
		}
	}
	a.flying--
	if a.left--; a.left == 0 {
		n.opened(h)
		return
	}
	n.sendCommits(h)
}
