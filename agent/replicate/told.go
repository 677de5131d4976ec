package replicate

import (
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// telling is what an owner tells the copies of the uses of its sessions (E4). A
// deadline may be later than what they have been told by up to touchEvery: so much a
// new owner adds to what it knows (E3). A use that moves it further is told in the
// round that is gathered, which goes out with the next tick, or with the end of the
// step where an answer waits for it. So a session costs a message now and then however
// often it is used, and one that was used after a long time is known to be alive
// before anybody hears that it is.
type telling struct {
	uses    []*session.Entry
	round   uint64 // the one that is gathered; from 1
	urgent  bool
	to      []number // peers for whom something was gathered that may be sent now
	waiting []*usedOp
	logged  [64]uint64 // the last record that was logged of the round, of the last rounds
}

// usedOp is an op that used its session, and whose answer waits until the copies have
// been told in a round.
type usedOp struct {
	o     *op
	resp  *session.Response
	slot  ring.Slot
	round uint64
	began int64
}

// toldUse is a use of which a peer has still to hear. How long the session has left
// is looked up when it is sent: what is told late must not count from when it is heard.
type toldUse struct {
	slot  ring.Slot
	id    session.ID
	round uint64 // in which it was gathered
}

// touchEvery returns by how much the deadline that the copies know of may be behind
// the owner's (E4).
func (n *Node) touchEvery(rec *session.Record) time.Duration {
	return min(rec.TTL/10, n.p.TouchEvery)
}

// used starts the session's idle time anew at from, with what the asker leaves out,
// here at once and at the copies when they have to know.
func (n *Node) used(e *session.Entry, from int64, every time.Duration) {
	n.store.Use(e, from)
	if e.Rec.TTL == 0 {
		return
	}
	if every > 0 {
		n.store.Extend(e, from+int64(e.Rec.TTL+every))
	}
	if e.Deadline-e.Told > int64(n.touchEvery(e.Rec)) {
		e.Told, e.Round = e.Deadline, uint32(n.telling.round)
		n.telling.uses = append(n.telling.uses, e)
	}
}

// roundOf returns the round in which e's uses were last told.
func (t *telling) roundOf(e *session.Entry) uint64 {
	return t.round - uint64(uint32(t.round)-e.Round)
}

// awaitTold keeps the answer to an op that has used e until the copies know of it,
// and reports whether it does.
func (n *Node) awaitTold(h ring.Slot, e *session.Entry, o *op, r *session.Response) bool {
	if e == nil || e.Rec.TTL == 0 || !n.serves(h) {
		return false
	}
	t := &n.telling
	u := &usedOp{o: o, resp: r, slot: h, round: t.roundOf(e), began: n.now.Mono}
	if u.round != t.round {
		o.after = max(o.after, t.loggedIn(u.round))
		if n.told(h, u.round) {
			return false
		}
	}
	if len(t.waiting) >= maxTouches {
		n.finish(o, unavailable("overloaded", "too many requests wait for the copies to hear of them; try again"))
		return true
	}
	t.urgent = t.urgent || u.round == t.round
	t.waiting = append(t.waiting, u)
	return true
}

// serves reports whether this member speaks for the slot: as its owner, or detached.
func (n *Node) serves(h ring.Slot) bool {
	return n.effective(h) == n.self.Num && (n.open(h) || n.isDetached())
}

// told reports whether all that a write would wait for have confirmed what they were
// told in the round and before: a learner, too, may count soon.
func (n *Node) told(h ring.Slot, round uint64) bool {
	for _, x := range n.t.Slots[h].InSync {
		if x != n.self && (!n.isDetached() || n.detach.alive[x]) && !n.peer(x.Num).confirmed(round) {
			return false
		}
	}
	a := n.slots[h].add
	return a == nil || n.peer(a.who.Num).confirmed(round)
}

// toldAny is told for one of them.
func (n *Node) toldAny(h ring.Slot, round uint64) bool {
	return slices.ContainsFunc(n.t.Slots[h].InSync, func(x ring.Holder) bool { return x != n.self && n.peer(x.Num).confirmed(round) })
}

func (p *peer) confirmed(round uint64) bool {
	return (p.touch == nil || p.touchFrom > round) && (len(p.touchNext) == 0 || p.touchNext[0].round > round)
}

// answerTold answers those who wait for copies that have heard meanwhile. A slow copy
// is waited for until it does not count any more: it could take over with what it
// knows. Without a leader nobody can see to that, and one copy is enough after a while,
// or none where a detached member is alone, as for a write (S1).
func (n *Node) answerTold() {
	if len(n.telling.waiting) == 0 {
		return
	}
	waiting := n.telling.waiting
	n.telling.waiting = nil
	var keep []*usedOp
	for _, u := range waiting {
		late := n.isDetached() && n.now.since(u.began) > n.p.Degrade
		switch {
		case !n.serves(u.slot), n.leaseOver(), u.o.deadline <= n.now.Mono:
			n.finish(u.o, retry())
		case n.told(u.slot, u.round), late && (n.toldAny(u.slot, u.round) || !n.wakeup.dozing):
			n.finish(u.o, u.resp)
		default:
			keep = append(keep, u)
		}
	}
	n.telling.waiting = append(keep, n.telling.waiting...)
}

// tickTold tells of the uses in this round, tells again what was not acknowledged, and
// tells the leader who does not hear.
func (n *Node) tickTold() {
	for _, num := range sortedKeys(n.peers) {
		p := n.peers[num]
		if p.touch == nil {
			continue
		}
		if m := n.t.Member(num); m == nil || m.State == ring.Down && !n.countsHere(m.Holder()) {
			p.touch, p.touchNext, p.touchKept = nil, nil, 0
			continue
		}
		if len(p.touchNext) >= 2*max(p.touchKept, maxTouches) {
			p.keepFirst()
		}
		if n.now.since(p.touchAt) >= n.p.Resend {
			items := make([]TouchItem, 0, len(p.touch.Items))
			for _, x := range p.touch.Items {
				if x.Left = n.left(x.Slot, x.ID); x.Left > 0 {
					items = append(items, x)
				}
			}
			p.touch, p.touchAt = &Touch{p.touch.Seq, items}, n.now.Mono
			n.post(n.holder(num), p.touch, true)
		}
		if n.now.since(p.touchSince) > n.p.Degrade {
			n.holdsUp(n.holder(num)) // its deadlines are old: it must not take over with them
		}
	}
	n.tellRound()
	n.answerTold()
}

// tellRound ends a round: it tells the copies of the uses that were gathered.
func (n *Node) tellRound() {
	t := &n.telling
	t.urgent = false
	if len(t.uses) == 0 {
		return
	}
	for _, e := range t.uses {
		h := e.Slot()
		if e.Gone() || e.Rec.Dead || e.Deadline == 0 {
			continue
		}
		n.logUse(e)
		for _, x := range n.t.Slots[h].InSync {
			if x != n.self {
				n.queueTold(x.Num, h, e.Rec.ID)
			}
		}
		if a := n.slots[h].add; a != nil && n.owns(h) && !n.t.Slots[h].InSyncHas(a.who) {
			n.queueTold(a.who.Num, h, e.Rec.ID)
		}
	}
	clear(t.uses)
	t.uses = t.uses[:0]
	if t.logged[t.round%uint64(len(t.logged))] = 0; n.journal.on {
		t.logged[t.round%uint64(len(t.logged))] = n.journal.last
	}
	for _, u := range t.waiting {
		if u.round == t.round {
			u.o.after = max(u.o.after, t.loggedIn(t.round))
		}
	}
	t.round++
	n.sendTold()
}

// loggedIn returns a log record with which the round's uses are on disk: of rounds
// that are long past the one of a later round.
func (t *telling) loggedIn(round uint64) uint64 {
	if round == 0 {
		return 0 // none was told
	}
	if last := uint64(len(t.logged)) - 1; t.round-round > last {
		round = t.round - last
	}
	return t.logged[round%uint64(len(t.logged))]
}

func (n *Node) queueTold(num number, h ring.Slot, id session.ID) {
	p := n.peer(num)
	if len(p.touchNext) == 0 {
		n.telling.to = append(n.telling.to, num)
	}
	p.touchNext = append(p.touchNext, toldUse{h, id, n.telling.round})
}

// sendTold sends a batch to each peer that has confirmed the one before it: what comes
// up while that is on its way is gathered.
func (n *Node) sendTold() {
	for _, num := range n.telling.to {
		if p := n.peers[num]; p.touch == nil {
			n.sendTouches(num, p)
		}
	}
	n.telling.to = n.telling.to[:0]
}

// keepFirst leaves one use of each session: how long that has left is told as of when
// it is sent.
func (p *peer) keepFirst() {
	seen := make(map[session.ID]bool, len(p.touchNext))
	p.touchNext = slices.DeleteFunc(p.touchNext, func(x toldUse) bool {
		was := seen[x.id]
		seen[x.id] = true
		return was
	})
	p.touchKept = len(p.touchNext)
}

// countsHere reports whether a member, dead maybe, is in sync for a slot that this
// one serves: it may come back with what it holds.
func (n *Node) countsHere(x ring.Holder) bool {
	for h := range ring.Slot(ring.Slots) {
		if n.owns(h) && n.t.Slots[h].InSyncHas(x) {
			return true
		}
	}
	return false
}

// maxTouches bounds a batch. When a million sessions are in use, their copies hear
// of some thousand several times a second, and nobody is held up by all at once.
const maxTouches = 8192

// sendTouches sends the next batch to a peer that has confirmed all others.
func (n *Node) sendTouches(num number, p *peer) {
	for len(p.touchNext) > 0 {
		batch := p.touchNext[:min(len(p.touchNext), maxTouches)]
		items := make([]TouchItem, 0, len(batch))
		for _, x := range batch {
			if left := n.left(x.slot, x.id); left > 0 {
				items = append(items, TouchItem{x.slot, x.id, left})
			}
		}
		from := batch[0].round
		if p.touchNext = p.touchNext[len(batch):]; len(p.touchNext) == 0 {
			p.touchNext, p.touchKept = nil, 0
		}
		if len(items) > 0 {
			n.seq++
			p.touch, p.touchFrom, p.touchAt, p.touchSince = &Touch{n.seq, items}, from, n.now.Mono, n.now.Mono
			n.post(n.holder(num), p.touch, true)
			return
		}
	}
}

// left returns how long a session has left; 0 where there is nothing to tell of it.
func (n *Node) left(h ring.Slot, id session.ID) time.Duration {
	if e := n.store.Get(h, id); e != nil && !e.Rec.Dead && e.Deadline != 0 {
		return max(time.Duration(e.Deadline-n.now.Mono), 1)
	}
	return 0
}

// handTouches tells the new owners of slots of the uses that they have not
// heard of, so that a planned move keeps deadlines exact (E3).
func (n *Node) handTouches() {
	if len(n.handed) == 0 {
		return
	}
	for _, h := range n.handed {
		owner := n.t.Slots[h].Owner
		if owner == 0 || owner == n.self.Num {
			continue
		}
		n.store.EachLiving(h, func(e *session.Entry) bool {
			if e.Deadline > e.Told {
				e.Told = e.Deadline
				n.queueTold(owner, h, e.Rec.ID)
			}
			return true
		})
	}
	n.handed = n.handed[:0]
	n.sendTold()
}

func (n *Node) onTouch(from ring.Holder, m *Touch) {
	for _, x := range m.Items {
		if x.Slot >= ring.Slots || x.Left <= 0 {
			continue
		}
		if e := n.store.Get(x.Slot, x.ID); e != nil && !e.Rec.Dead {
			n.store.Extend(e, n.now.Mono+int64(x.Left))
			n.logUse(e)
		}
	}
	n.post(from, &TouchAck{m.Seq}, true)
}

func (n *Node) onTouchAck(from ring.Holder, m *TouchAck) {
	p := n.peer(from.Num)
	if p.touch == nil || p.touch.Seq != m.Seq {
		return
	}
	p.touch = nil
	n.sendTouches(from.Num, p)
	if n.syncing > 0 {
		n.usesConfirmed(from.Num)
	}
	n.answerTold()
}
