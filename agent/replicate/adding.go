package replicate

import (
	"slices"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// adding is a learner on its way into a slot's copies in sync (N9). From its
// beginning every write goes to the learner too and waits for it, so that when
// the last old record is there, nothing is missing.
type adding struct {
	who       ring.Holder
	listed    bool
	dropped   bool // it was told to forget something
	queue     []session.ID
	uses      []session.ID // records that it holds, whose deadlines it has still to hear
	usesIn    uint64       // the last round in which it was told of such; 0: none
	flight    map[session.ID]*flight
	order     []session.ID // of flight, oldest first
	announced bool         // AddInSync was sent: the learner may count already
	asked     ring.Epoch   // Candidate.Changed of the last AddInSync
	sentAt    int64
	tag       uint64
	progress  int64 // when the learner last answered anything about the slot
}

// flight is a record on its way to a learner.
type flight struct {
	version session.Version
	size    int64
	at      int64
	ends    int64 // the earliest deadline that was sent
}

// bulk is the budget for filling one peer.
type bulk struct {
	inFlight int64
	tokens   int64
	filledAt int64
}

// reviseAdding ends a filling that the table makes pointless: the learner is in
// sync, or not wanted any more and not announced, or the slot is another's.
func (n *Node) reviseAdding(h ring.Slot) {
	sl := &n.slots[h]
	a := sl.add
	if a == nil {
		return
	}
	s := &n.t.Slots[h]
	inSync := s.InSyncHas(a.who)
	if n.owns(h) && !inSync && (a.announced || slices.Contains(s.Learners, a.who)) {
		return
	}
	n.endAdding(h)
}

func (n *Node) endAdding(h ring.Slot) {
	sl := &n.slots[h]
	a := sl.add
	if a == nil {
		return
	}
	sl.add = nil
	n.syncing--
	p := n.peer(a.who.Num)
	for _, f := range a.flight {
		p.bulk.inFlight -= f.size
	}
	if n.t.Slots[h].InSyncHas(a.who) {
		return
	}
	for _, w := range n.writesOf(h) {
		w.need = slices.DeleteFunc(w.need, func(x need) bool { return x.who == a.who })
		if !w.done {
			n.checkCommit(w)
		}
	}
}

// tickAdding begins to fill the slot's first learner, or goes on with it.
func (n *Node) tickAdding(h ring.Slot) {
	sl := &n.slots[h]
	s := &n.t.Slots[h]
	if sl.add == nil {
		if n.syncing >= n.p.SyncSlots || !n.fillable(h) || !n.mayFill(h) {
			return
		}
		n.syncing++
		n.seq++
		sl.add = &adding{who: s.Learners[0], flight: map[session.ID]*flight{}, tag: n.seq, progress: n.now.Mono}
		for _, w := range n.writesOf(h) {
			w.need = append(w.need, need{who: sl.add.who})
			n.send(sl.add.who, n.whole(w))
		}
	}
	a := sl.add
	if n.silent(h) {
		// Every write here waits for it. It is tried again when whatever is in
		// its way may be over.
		n.endAdding(h)
		sl.fillAt = n.now.Mono + int64(n.p.NewHolder)
		return
	}
	switch {
	case !a.listed:
		if n.now.since(a.sentAt) >= n.p.Resend {
			n.askLearner(h)
		}
	case n.filled(a):
		n.announce(h)
	default:
		n.resendRecords(h)
		n.fill(h)
		n.sendUses(h)
	}
}

// askLearner asks for what the learner holds other than this member.
func (n *Node) askLearner(h ring.Slot) {
	a := n.slots[h].add
	a.sentAt = n.now.Mono
	n.post(a.who, &Compare{SlotRe{h, n.t.Slots[h].Re}, ForSync, a.tag, n.store.BucketSums(h)}, true)
}

// fillable reports whether the slot has a learner that can be filled now.
func (n *Node) fillable(h ring.Slot) bool {
	s := &n.t.Slots[h]
	return len(s.Learners) > 0 && n.slots[h].fillAt <= n.now.Mono && n.peer(s.Learners[0].Num).badUntil <= n.now.Mono
}

// silent reports whether a learner that does not count yet owes an answer for
// so long that its owner had better go on without it.
func (n *Node) silent(h ring.Slot) bool {
	sl := &n.slots[h]
	a := sl.add
	if a.announced || n.now.since(a.progress) < 8*n.p.Resend {
		return false
	}
	p := n.peer(a.who.Num)
	if !a.listed || len(a.flight) > 0 || p.touch != nil && n.now.since(p.touchSince) >= 8*n.p.Resend {
		return true
	}
	for _, w := range sl.writes {
		if slices.ContainsFunc(w.need, func(x need) bool { return x.who == a.who && !x.acked }) {
			return true
		}
	}
	return false
}

// mayFill lets a slot that still has two of its copies wait for the member that
// held the third: a restart is shorter than a copy of everything (N10).
func (n *Node) mayFill(h ring.Slot) bool {
	s := &n.t.Slots[h]
	sl := &n.slots[h]
	if len(s.InSync) > 1 && n.single > 0 {
		return false
	}
	if len(s.InSync) < int(n.t.Settings.Replicas) || n.store.Count(h) == 0 {
		return true
	}
	walk := n.t.Walk(h)
	wanted := walk[:min(len(walk), int(n.t.Settings.Replicas)+1)]
	if slices.Contains(wanted, s.Learners[0].Num) {
		return true
	}
	return n.now.since(sl.full) >= n.p.NewHolder
}

func (n *Node) listedSync(from ring.Holder, m *Listing) {
	a := n.slots[m.Slot].add
	if a == nil || a.who != from || a.listed || a.tag != m.Tag {
		return
	}
	a.progress = n.now.Mono
	theirs := make(map[session.ID]Item, len(m.Items))
	pending := map[session.ID]bool{}
	for _, w := range n.slots[m.Slot].writes {
		for _, u := range w.updates {
			pending[u.ID] = true
		}
	}
	drop := &Discard{SlotRe: m.SlotRe}
	for _, x := range m.Items {
		theirs[x.ID] = x
		if pending[x.ID] {
			continue // it has acknowledged a write that is under way
		}
		e := n.store.Get(m.Slot, x.ID)
		if e == nil || n.refuse && x.Version.Compare(e.Rec.Version()) > 0 {
			drop.Items = append(drop.Items, x) // never committed: the learner was alone with it
		}
	}
	if len(drop.Items) > 0 {
		// It counts only when it has none of them any more: what tells it to forget
		// them may get lost.
		n.post(from, drop, true)
		n.seq++
		a.tag = n.seq
		if a.sentAt = n.now.Mono; !a.dropped {
			a.dropped = true
			n.askLearner(m.Slot)
		}
		return
	}
	a.listed = true
	// Equal records may still have other deadlines: those of the time when the
	// learner was last in sync.
	n.store.Each(m.Slot, func(e *session.Entry) bool {
		x, ok := theirs[e.Rec.ID]
		differs := m.Mask&(1<<session.Bucket(e.Rec.ID)) != 0 && (!ok || x.Version != e.Rec.Version() || x.Sum != e.Rec.Sum())
		switch {
		case differs:
			a.queue = append(a.queue, e.Rec.ID)
		case !e.Rec.Dead && e.Deadline != 0:
			a.uses = append(a.uses, e.Rec.ID)
		}
		return true
	})
	n.fill(m.Slot)
	n.sendUses(m.Slot)
	if n.filled(a) {
		n.announce(m.Slot)
	}
}

// filled reports whether the learner has everything.
func (n *Node) filled(a *adding) bool {
	return a.listed && len(a.flight) == 0 && len(a.queue) == 0 && len(a.uses) == 0 && n.peer(a.who.Num).confirmed(a.usesIn)
}

const usesBatch = 512

// sendUses tells the learner how long the sessions have left that it holds
// already, one batch at a time, with whatever else it is told meanwhile.
func (n *Node) sendUses(h ring.Slot) {
	a := n.slots[h].add
	p := n.peer(a.who.Num)
	if len(a.uses) == 0 || !p.confirmed(a.usesIn) || len(p.touchNext) >= maxTouches {
		return
	}
	batch := a.uses[:min(len(a.uses), usesBatch)]
	for _, id := range batch {
		n.queueTold(a.who.Num, h, id)
	}
	a.uses, a.usesIn = a.uses[len(batch):], n.telling.round
	n.sendTold()
}

// usesConfirmed goes on with the learners of a peer that has confirmed a batch.
func (n *Node) usesConfirmed(num number) {
	for h := range ring.Slot(ring.Slots) {
		if a := n.slots[h].add; a != nil && a.who.Num == num && a.listed {
			n.sendUses(h)
			if n.filled(a) {
				n.announce(h)
			}
		}
	}
}

// fill sends records to the learner within the peer's budget (N10).
func (n *Node) fill(h ring.Slot) {
	a := n.slots[h].add
	b := &n.peer(a.who.Num).bulk
	b.refill(n.now.Mono, n.p.BulkRate, n.p.BulkWindow)
	for len(a.queue) > 0 && b.inFlight < n.p.BulkWindow && b.tokens > 0 {
		id := a.queue[0]
		a.queue = a.queue[1:]
		f := &flight{at: n.now.Mono}
		if !n.sendRecord(h, id, f) {
			continue // it has gone meanwhile
		}
		a.flight[id] = f
		a.order = append(a.order, id)
		b.inFlight += f.size
		b.tokens -= f.size
	}
}

// fillLeft returns how many records the slot's learners lack, as far as is known:
// one that has not said what it holds may lack all.
func (n *Node) fillLeft(h ring.Slot) (left int) {
	a := n.slots[h].add
	for _, x := range n.t.Slots[h].Learners {
		if a != nil && a.who == x && a.listed {
			left += len(a.queue) + len(a.flight)
		} else {
			left += n.store.Count(h)
		}
	}
	return left
}

// resendRecords sends again what was not acknowledged in time, and forgets what
// has gone meanwhile.
func (n *Node) resendRecords(h ring.Slot) {
	a := n.slots[h].add
	keep := a.order[:0]
	for _, id := range a.order {
		f := a.flight[id]
		if f == nil {
			continue
		}
		if n.now.since(f.at) >= 4*n.p.Resend {
			f.at = n.now.Mono
			if !n.sendRecord(h, id, f) {
				delete(a.flight, id)
				n.peer(a.who.Num).bulk.inFlight -= f.size
				continue
			}
		}
		keep = append(keep, id)
	}
	a.order = keep
}

func (n *Node) sendRecord(h ring.Slot, id session.ID, f *flight) bool {
	e := n.store.Get(h, id)
	if e == nil {
		return false
	}
	a := n.slots[h].add
	f.version = e.Rec.Version()
	if f.size == 0 {
		f.size, f.ends = recordSize(e.Rec), e.Deadline
	}
	f.ends = min(f.ends, e.Deadline) // whichever message comes first, the record is from that
	n.post(a.who, &Replicate{SlotRe{h, n.t.Slots[h].Re}, []*session.Update{n.storedUpdate(e)}}, true)
	return true
}

// recordSize is what a record on its way costs, about.
func recordSize(r *session.Record) int64 { return int64(r.Size() + 256) }

func (b *bulk) refill(now, rate, window int64) {
	if b.filledAt == 0 {
		b.tokens = window
	} else {
		b.tokens = min(b.tokens+min(now-b.filledAt, 1e9)*(rate>>10)/(1e9>>10), window)
	}
	b.filledAt = now
}

func (n *Node) ackAdding(h ring.Slot, from ring.Holder, m *Ack) {
	a := n.slots[h].add
	if a.who != from || m.NeedFull {
		return
	}
	a.progress = n.now.Mono
	f := a.flight[m.ID]
	if f == nil || m.Version.Compare(f.version) < 0 {
		return
	}
	delete(a.flight, m.ID)
	n.Stats.Filled++
	n.Stats.FilledBytes += uint64(f.size)
	n.peer(from.Num).bulk.inFlight -= f.size
	if e := n.store.Get(h, m.ID); e != nil && e.Told > f.ends {
		a.uses = append(a.uses, m.ID) // what was told while it had no record may be forgotten
		n.sendUses(h)
	}
	if len(a.queue) > 0 {
		n.fill(h)
	} else if n.filled(a) {
		n.announce(h)
	}
}

// announce asks the leader to count the learner in. From here on it may count
// already, so it stays among those that every write needs until the leader has
// answered (N9).
func (n *Node) announce(h ring.Slot) {
	a := n.slots[h].add
	s := &n.t.Slots[h]
	if !n.open(h) || a.announced && a.asked == s.Changed && n.now.since(a.sentAt) < n.p.Resend {
		return
	}
	a.announced, a.sentAt, a.asked = true, n.now.Mono, s.Changed
	n.adds = append(n.adds, ring.Candidate{Slot: h, Re: s.Re, Changed: s.Changed, Cand: a.who})
}

// onAddInSyncNo ends a filling in vain. A No to anything but what was asked last
// says nothing about that: the leader may still take it.
func (n *Node) onAddInSyncNo(m *ring.AddInSyncNo) {
	for _, c := range m.Slots {
		if c.Slot >= ring.Slots {
			continue
		}
		if a := n.slots[c.Slot].add; a != nil && a.announced && a.who == c.Cand && c.Re == n.t.Slots[c.Slot].Re && c.Changed == a.asked {
			n.endAdding(c.Slot)
		}
	}
}
