package replicate

import (
	"slices"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// lagKey names a copy that lacks a session's present version.
type lagKey struct {
	num number
	id  session.ID
}

// lagging is a session that one copy has still to be brought up to date with:
// at most one state of it is on its way, however many writes there were (W6).
type lagging struct {
	lagKey
	who    ring.Holder
	sentAt int64
	done   bool
}

func (n *Node) addLag(h ring.Slot, who ring.Holder, id session.ID) {
	sl := &n.slots[h]
	k := lagKey{who.Num, id}
	if sl.lag[k] != nil {
		return
	}
	if sl.lag == nil {
		sl.lag = map[lagKey]*lagging{}
	}
	l := &lagging{lagKey: k, who: who, sentAt: n.now.Mono}
	sl.lag[k] = l
	sl.lagq = append(sl.lagq, l)
}

// reviseLag forgets copies that are no longer in sync: they are filled anew
// before they count again. A run that took the place of one by what it found on
// its disk lacks what that one lacked.
func (n *Node) reviseLag(h ring.Slot) {
	sl := &n.slots[h]
	s := &n.t.Slots[h]
	for _, l := range sl.lagq {
		if boot, ok := s.InSyncBoot(l.who.Num); ok && boot != l.who.Boot && !l.done {
			l.who.Boot, l.sentAt = boot, n.now.Mono-int64(n.p.Resend)
		}
		if !n.owns(h) || !s.InSyncHas(l.who) {
			l.done = true
			delete(sl.lag, l.lagKey)
		}
	}
}

func (n *Node) tickLag(h ring.Slot) {
	sl := &n.slots[h]
	if len(sl.lagq) == 0 {
		return
	}
	sl.lagq = slices.DeleteFunc(sl.lagq, func(l *lagging) bool { return l.done })
	budget := 64
	for _, l := range sl.lagq {
		if budget == 0 {
			return
		}
		if n.now.since(l.sentAt) < n.p.Resend || sl.writes[l.id] != nil {
			continue
		}
		e := n.store.Get(h, l.id)
		if e == nil {
			l.done = true
			delete(sl.lag, l.lagKey)
			continue
		}
		b := &n.peer(l.who.Num).bulk
		if b.refill(n.now.Mono, n.p.BulkRate, n.p.BulkWindow); b.tokens <= 0 {
			continue // in its turn (N10)
		}
		b.tokens -= recordSize(e.Rec)
		budget--
		l.sentAt = n.now.Mono
		n.Stats.Repaired++
		n.post(l.who, &Replicate{SlotRe{h, n.t.Slots[h].Re}, []*session.Update{n.storedUpdate(e)}}, true)
	}
}

func (n *Node) ackLag(h ring.Slot, from ring.Holder, m *Ack) {
	sl := &n.slots[h]
	k := lagKey{from.Num, m.ID}
	l := sl.lag[k]
	if l == nil || l.who != from {
		return
	}
	if e := n.store.Get(h, m.ID); e == nil || m.Version.Compare(e.Rec.Version()) >= 0 {
		l.done = true
		delete(sl.lag, k)
	}
}

// comparison is one look at the copies of a slot. Sessions that were written
// since it began, or that a write was on its way for, tell nothing; all others
// must be the same everywhere.
type comparison struct {
	tag   uint64
	moved map[session.ID]bool
}

// movedAtOnce bounds what one comparison remembers; with more writes than that
// it is given up.
const movedAtOnce = 4096

// moved notes that a session's state here, or at a copy, is another one now.
func (n *Node) moved(h ring.Slot, id session.ID) {
	c := n.slots[h].cmp
	if c == nil {
		return
	}
	if len(c.moved) >= movedAtOnce {
		n.slots[h].cmp = nil
		return
	}
	if c.moved == nil {
		c.moved = map[session.ID]bool{}
	}
	c.moved[id] = true
}

// compare asks the other copies of an open slot for what they hold other than
// this member, some 30 seconds after the last time (E5): those in sync, and a
// learner that has been sent everything.
func (n *Node) compare(h ring.Slot) {
	sl := &n.slots[h]
	// Those of one second leave together: what an idle member costs is being woken.
	sl.repair = (n.now.Mono + n.jitter(n.p.Repair)) / 1e9 * 1e9
	sl.cmp = nil
	if n.isDetached() {
		return
	}
	to := slices.Clone(n.t.Slots[h].InSync)
	if a := sl.add; a != nil && n.filled(a) {
		to = append(to, a.who)
	}
	if len(to) == 1 {
		return
	}
	n.seq++
	sl.cmp = &comparison{tag: n.seq}
	for id := range sl.writes {
		n.moved(h, id)
	}
	for k := range sl.lag {
		n.moved(h, k.id)
	}
	for _, x := range to {
		if x != n.self {
			n.post(x, &Compare{SlotRe{h, n.t.Slots[h].Re}, ForRepair, n.seq, n.store.BucketSums(h)}, true)
		}
	}
}

// listedRepair repairs what differs.
func (n *Node) listedRepair(from ring.Holder, m *Listing) {
	sl := &n.slots[m.Slot]
	inSync := n.t.Slots[m.Slot].InSyncHas(from)
	learns := !inSync && sl.add != nil && sl.add.who == from && n.filled(sl.add)
	if m.Mask == 0 || !n.open(m.Slot) || sl.cmp == nil || m.Tag != sl.cmp.tag || !inSync && !learns {
		return
	}
	skip := func(id session.ID) bool {
		return sl.cmp.moved[id] || sl.writes[id] != nil
	}
	theirs := make(map[session.ID]Item, len(m.Items))
	drop := &Discard{SlotRe: m.SlotRe}
	fetch := &Fetch{SlotRe: m.SlotRe, Tag: repairTag}
	var differs uint64
	for _, x := range m.Items {
		theirs[x.ID] = x
		e := n.store.Get(m.Slot, x.ID)
		switch {
		case skip(x.ID):
		case e == nil && x.Dead:
			drop.Items = append(drop.Items, x) // a tombstone whose time is over here
		case e == nil || x.Version.Compare(e.Rec.Version()) > 0:
			if !n.apart(e, x) {
				differs++
			}
			if n.refuse {
				drop.Items = append(drop.Items, x)
			} else {
				fetch.IDs = append(fetch.IDs, x.ID)
			}
		}
	}
	n.store.Each(m.Slot, func(e *session.Entry) bool {
		if m.Mask&(1<<session.Bucket(e.Rec.ID)) == 0 || skip(e.Rec.ID) {
			return true
		}
		x, ok := theirs[e.Rec.ID]
		if ok && x.Version == e.Rec.Version() && x.Sum == e.Rec.Sum() {
			return true
		}
		if !e.Rec.Dead && x.Version.Compare(e.Rec.Version()) <= 0 && !n.apart(e, x) {
			differs++
		}
		if learns {
			sl.add.queue = append(sl.add.queue, e.Rec.ID)
		} else {
			n.addLag(m.Slot, from, e.Rec.ID)
		}
		return true
	})
	if inSync {
		n.Stats.Divergence += differs
	}
	if len(drop.Items) > 0 {
		n.post(from, drop, true)
	}
	if len(fetch.IDs) > 0 {
		fetch.IDs = fetch.IDs[:min(len(fetch.IDs), fetchBatch)]
		n.post(from, fetch, true)
	}
}

// apart reports whether a session may differ because members served it apart
// from each other, and what they did has still to come together (S6): that is no
// fault.
func (n *Node) apart(e *session.Entry, x Item) bool {
	return x.Apart || x.Version.Gen.Detach > 0 || e != nil && (e.Unsettled || e.Rec.Gen.Detach > 0)
}

// repairTag marks a Fetch whose records are merged as if they were offered.
const repairTag = ^uint64(0)

// tickDrop forgets slots that are no longer in this member's care, once their
// owner has said that all who want them have them (E6).
func (n *Node) tickDrop() {
	if n.now.since(n.dropAt) < 4*n.p.Resend || n.self.Num == 0 {
		return
	}
	n.dropAt = n.now.Mono
	ask := map[number][]SlotRe{}
	for h := range ring.Slot(ring.Slots) {
		s := &n.t.Slots[h]
		if n.store.Count(h) == 0 || s.InSyncHas(n.self) || slices.Contains(s.Learners, n.self) || slices.Contains(n.t.Want(h), n.self.Num) {
			continue
		}
		ask[s.Owner] = append(ask[s.Owner], SlotRe{h, s.Re})
	}
	for _, num := range sortedKeys(ask) {
		n.post(n.holder(num), &DropAsk{ask[num]}, true)
	}
}

func (n *Node) onDropAsk(from ring.Holder, m *DropAsk) {
	ok := &DropOK{}
	for _, x := range m.Slots {
		if x.Slot >= ring.Slots || x.Re != n.t.Slots[x.Slot].Re || !n.owns(x.Slot) || !n.open(x.Slot) {
			continue
		}
		s := &n.t.Slots[x.Slot]
		have := true
		for _, num := range n.t.Want(x.Slot) {
			if _, in := s.InSyncBoot(num); !in {
				have = false
			}
		}
		if have {
			ok.Slots = append(ok.Slots, x)
		}
	}
	if len(ok.Slots) > 0 {
		n.post(from, ok, true)
	}
}

func (n *Node) onDropOK(from ring.Holder, m *DropOK) {
	for _, x := range m.Slots {
		if x.Slot >= ring.Slots {
			continue
		}
		s := &n.t.Slots[x.Slot]
		if x.Re != s.Re || s.Owner != from.Num || s.InSyncHas(n.self) || slices.Contains(s.Learners, n.self) {
			continue
		}
		n.store.Each(x.Slot, func(e *session.Entry) bool {
			if !e.Unsettled {
				n.remove(e)
			}
			return true
		})
	}
}

func (n *Node) onDiscard(from ring.Holder, m *Discard) {
	if m.Slot >= ring.Slots || m.Re != n.t.Slots[m.Slot].Re || from.Num != n.t.Slots[m.Slot].Owner {
		return
	}
	for _, x := range m.Items {
		if e := n.store.Get(m.Slot, x.ID); e != nil && e.Rec.Version() == x.Version && !e.Unsettled {
			n.remove(e)
		}
	}
}
