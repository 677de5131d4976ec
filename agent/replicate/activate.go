package replicate

import (
	"slices"
	"strings"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// activation is a new owner's way to an open slot (N3): seal the other members
// in sync, find where they differ, take the latest state of each session there
// and have all of them store it under the new configuration.
type activation struct {
	re      uint64
	members []*sealed
	sentAt  int64
	phase   activationPhase
	found   map[session.ID]*found
	order   []*found // found, sorted by id
	left    int      // commits not acknowledged by all
	next    int      // in order: not sent yet from here on
	flying  int      // sent and not acknowledged by all
}

type activationPhase uint8

const (
	phaseSeal activationPhase = iota
	phaseCompare
	phaseFetch
	phaseCommit
)

// sealed is one other member in sync.
type sealed struct {
	who    ring.Holder
	sealed bool
	sum    uint64
	listed bool
	mask   uint32
	items  map[session.ID]Item
	fetch  []session.ID // records still to come from it
}

// found is one session in which the copies differ.
type found struct {
	id    session.ID
	best  *session.Record
	age   time.Duration
	left  time.Duration
	reach map[ring.Holder]bool // has acknowledged the commit
}

// activate begins the activation of a slot that this member has come to own.
func (n *Node) activate(h ring.Slot) {
	s := &n.t.Slots[h]
	a := &activation{re: s.Re}
	for _, x := range s.InSync {
		if x != n.self {
			a.members = append(a.members, &sealed{who: x})
		}
	}
	n.slots[h].act = a
	if len(a.members) == 0 {
		n.opened(h)
		return
	}
	n.sealSlot(h)
}

func (n *Node) sealSlot(h ring.Slot) {
	a := n.slots[h].act
	a.sentAt = n.now.Mono
	for _, m := range a.members {
		if !m.sealed {
			n.seals[m.who.Num] = append(n.seals[m.who.Num], SlotRe{h, a.re})
		}
	}
}

func (n *Node) onSeal(from ring.Holder, m *Seal) {
	ack := &SealAck{}
	stale := false
	for _, x := range m.Slots {
		if x.Slot >= ring.Slots {
			continue
		}
		s := &n.t.Slots[x.Slot]
		switch {
		case x.Re != s.Re:
			stale = true // older: it gets our table; newer: ours comes with its resend
		case s.Owner == from.Num && s.InSyncHas(n.self):
			ack.Slots = append(ack.Slots, SlotSum{x, n.store.Sum(x.Slot)})
		}
	}
	if stale {
		n.send(from, &Stale{Want: true})
	}
	if len(ack.Slots) > 0 {
		n.send(from, ack)
	}
}

func (n *Node) onSealAck(from ring.Holder, m *SealAck) {
	for _, x := range m.Slots {
		if x.Slot >= ring.Slots {
			continue
		}
		a := n.slots[x.Slot].act
		if a == nil || a.re != x.Re || a.phase != phaseSeal {
			continue
		}
		for _, s := range a.members {
			if s.who == from {
				s.sealed, s.sum = true, x.Sum
			}
		}
		if !slices.ContainsFunc(a.members, func(s *sealed) bool { return !s.sealed }) {
			n.compareSealed(x.Slot)
		}
	}
}

// compareSealed opens the slot where all copies are equal: what all hold is
// committed by definition. Else it asks those that differ for a listing.
func (n *Node) compareSealed(h ring.Slot) {
	a := n.slots[h].act
	mine := n.store.Sum(h)
	same := true
	for _, s := range a.members {
		if s.listed = s.sum == mine; !s.listed {
			same = false
		}
	}
	if same {
		n.opened(h)
		return
	}
	a.phase = phaseCompare
	n.askListings(h)
}

func (n *Node) askListings(h ring.Slot) {
	a := n.slots[h].act
	a.sentAt = n.now.Mono
	for _, s := range a.members {
		if !s.listed {
			n.send(s.who, &Compare{SlotRe{h, a.re}, ForActivation, 0, n.store.BucketSums(h)})
		}
	}
}

func (n *Node) onCompare(from ring.Holder, m *Compare) {
	if m.Slot >= ring.Slots || m.Re != n.t.Slots[m.Slot].Re {
		n.send(from, &Stale{Want: true})
		return
	}
	if s := &n.t.Slots[m.Slot]; m.Purpose == ForSync && !slices.Contains(s.Learners, n.self) && !s.InSyncHas(n.self) {
		// By the table of its owner it is a learner: that may first tell it to
		// forget what it holds (E2).
		n.send(from, &Stale{Want: true})
		return
	}
	if m.Purpose == ForSync {
		n.slots[m.Slot].listed = n.now.Mono
	}
	l := &Listing{SlotRe: m.SlotRe, Purpose: m.Purpose, Tag: m.Tag}
	for i, sum := range n.store.BucketSums(m.Slot) {
		if sum != m.Buckets[i] {
			l.Mask |= 1 << i
		}
	}
	if l.Mask != 0 {
		n.store.Each(m.Slot, func(e *session.Entry) bool {
			if l.Mask&(1<<session.Bucket(e.Rec.ID)) != 0 {
				x := itemOf(e)
				x.Apart = e.Unsettled && m.Purpose == ForRepair
				l.Items = append(l.Items, x)
			}
			return true
		})
	}
	n.post(from, l, m.Purpose != ForActivation)
}

func itemOf(e *session.Entry) Item {
	return Item{ID: e.Rec.ID, Version: e.Rec.Version(), Sum: e.Rec.Sum(), Dead: e.Rec.Dead}
}

func (n *Node) onListing(from ring.Holder, m *Listing) {
	if m.Slot >= ring.Slots || m.Re != n.t.Slots[m.Slot].Re {
		return
	}
	switch m.Purpose {
	case ForActivation:
		n.listedActivation(from, m)
	case ForSync:
		n.listedSync(from, m)
	case ForRepair:
		n.listedRepair(from, m)
	}
}

func (n *Node) listedActivation(from ring.Holder, m *Listing) {
	a := n.slots[m.Slot].act
	if a == nil || a.phase != phaseCompare {
		return
	}
	for _, s := range a.members {
		if s.who == from && !s.listed {
			s.listed, s.mask = true, m.Mask
			s.items = make(map[session.ID]Item, len(m.Items))
			for _, x := range m.Items {
				s.items[x.ID] = x
			}
		}
	}
	if !slices.ContainsFunc(a.members, func(s *sealed) bool { return !s.listed }) {
		n.findDifferences(m.Slot)
	}
}

// findDifferences works out which sessions are not the same on all members in
// sync, and which records have to be fetched to know the latest state.
func (n *Node) findDifferences(h ring.Slot) {
	a := n.slots[h].act
	var mask uint32
	ids := map[session.ID]bool{}
	for _, s := range a.members {
		mask |= s.mask
		for id := range s.items {
			ids[id] = true
		}
	}
	n.store.Each(h, func(e *session.Entry) bool {
		if mask&(1<<session.Bucket(e.Rec.ID)) != 0 {
			ids[e.Rec.ID] = true
		}
		return true
	})
	a.found = map[session.ID]*found{}
	for id := range ids {
		if f := n.difference(h, id); f != nil {
			a.found[id] = f
			a.order = append(a.order, f)
		}
	}
	slices.SortFunc(a.order, func(x, y *found) int { return strings.Compare(string(x.id), string(y.id)) })
	for _, s := range a.members {
		slices.Sort(s.fetch)
	}
	a.phase = phaseFetch
	n.fetchMore(h)
}

// difference returns the session's entry in the list of differences, or nil
// where all members hold the same state.
func (n *Node) difference(h ring.Slot, id session.ID) *found {
	a := n.slots[h].act
	f := &found{id: id, reach: map[ring.Holder]bool{}}
	var mine *Item
	if e := n.store.Get(h, id); e != nil {
		x := itemOf(e)
		mine = &x
		f.best, f.age, f.left = e.Rec, n.now.since(e.Born), n.storedUpdate(e).Left
	}
	bucket := uint32(1) << session.Bucket(id)
	differs := false
	var best *sealed
	var top Item
	for _, s := range a.members {
		x, ok := s.items[id]
		if s.mask&bucket == 0 {
			// Its bucket equals ours: it holds what we hold.
			if ok = mine != nil; ok {
				x = *mine
			}
		}
		if !ok {
			differs = differs || mine != nil
			continue
		}
		if mine != nil && x == *mine {
			continue
		}
		differs = true
		if !n.refuse {
			s.fetch = append(s.fetch, id) // all are merged (S3)
			continue
		}
		if (mine == nil || x.Version.Compare(mine.Version) > 0) && (best == nil || x.Version.Compare(top.Version) > 0) {
			best, top = s, x
		}
	}
	if best != nil {
		best.fetch = append(best.fetch, id)
	}
	if !differs {
		return nil
	}
	return f
}

// tickActivation asks again what was not answered.
func (n *Node) tickActivation(h ring.Slot) {
	a := n.slots[h].act
	if n.now.since(a.sentAt) < n.p.Resend {
		return
	}
	switch a.phase {
	case phaseSeal:
		n.sealSlot(h)
	case phaseCompare:
		n.askListings(h)
	case phaseFetch:
		n.fetchMore(h)
	case phaseCommit:
		n.resendCommits(h)
	}
}

// opened begins to serve the slot.
func (n *Node) opened(h ring.Slot) {
	sl := &n.slots[h]
	sl.active, sl.act = n.t.Slots[h].Re, nil
	sl.repair = n.now.Mono + n.jitter(n.p.Repair)
	sl.full = n.now.Mono
	n.Stats.Takeovers++
	n.store.Each(h, func(e *session.Entry) bool {
		n.makeGood(e)
		return true
	})
	n.store.Reschedule(h)
	waiting := sl.waiting
	sl.waiting = nil
	for _, o := range waiting {
		n.serve(h, o)
	}
}

// makeGood allows for uses that the last owner had not to tell of, and for the rates of
// clocks: no session ends early (E3). Takeovers without a use do not add up: nothing is
// left longer than after a use that is told of only so often.
func (n *Node) makeGood(e *session.Entry) {
	e.Told = 0 // of the other copies it is not known
	if !e.Rec.Dead && e.Deadline != 0 {
		ttl := e.Rec.TTL
		slack := n.touchEvery(e.Rec) + time.Duration(float64(ttl)*n.p.Rho)
		n.store.Extend(e, min(e.Deadline+int64(slack), n.now.Mono+int64(ttl+useEvery(n.ttl))))
	}
}

// jitter returns d moved by up to a third either way.
func (n *Node) jitter(d time.Duration) int64 {
	return int64(float64(d) * (2 + 2*n.rng.Float64()) / 3)
}
