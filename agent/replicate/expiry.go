package replicate

import (
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// touchEvery returns how long a use may wait until the copies hear of it (E4).
func (n *Node) touchEvery(rec *session.Record) time.Duration {
	return min(rec.TTL/10, n.p.TouchEvery)
}

// touch starts the session's idle time anew at from, here at once and at the copies
// with the next batch.
func (n *Node) touch(e *session.Entry, from int64) {
	n.store.Use(e, from)
	if e.Touched || e.Rec.TTL == 0 {
		return
	}
	e.Touched = true
	due := n.now.Mono + int64(n.touchEvery(e.Rec))
	last := len(n.touched) - 1
	if last < 0 || len(n.touched[last].entries) == maxTouches {
		n.touched = append(n.touched, touchBatch{due: due})
		last++
	}
	b := &n.touched[last]
	b.entries, b.due = append(b.entries, e), min(b.due, due)
}

// touchBatch is sessions of whose uses the copies hear together.
type touchBatch struct {
	entries []*session.Entry
	due     int64 // when the first of them has waited for long enough
}

// maxTouches bounds a batch. When a million sessions are in use, their copies hear
// of some thousand several times a second, and nobody is held up by all at once.
const maxTouches = 8192

// tickTouches sends the batches that are due, and those that were not
// acknowledged.
func (n *Node) tickTouches() {
	for _, num := range sortedKeys(n.peers) {
		p := n.peers[num]
		if m := n.t.Member(num); m == nil || m.State == ring.Down {
			p.touch, p.touchNext = nil, nil
		}
		if p.touch != nil && n.now.since(p.touchAt) >= n.p.Resend {
			p.touchAt = n.now.Mono
			p.touch = &Touch{p.touch.Seq, n.remaining(p.touch.Items)}
			n.post(n.holder(num), p.touch, true)
		}
		if p.touch != nil && n.now.since(p.touchSince) > n.p.Degrade {
			n.holdsUp(n.holder(num)) // its deadlines are old: it must not take over with them
		}
	}
	n.touched = slices.DeleteFunc(n.touched, func(b touchBatch) bool {
		due := b.due <= n.now.Mono
		if due {
			n.flushTouches(b.entries)
		}
		return due
	})
}

func (n *Node) flushTouches(entries []*session.Entry) {
	batches := map[number][]TouchItem{}
	for _, e := range entries {
		e.Touched = false
		h := e.Slot()
		if e.Gone() || e.Rec.Dead || e.Deadline == 0 {
			continue
		}
		n.logUse(e)
		item := TouchItem{h, e.Rec.ID, max(time.Duration(e.Deadline-n.now.Mono), 1)}
		for _, x := range n.t.Slots[h].InSync {
			if x != n.self {
				batches[x.Num] = append(batches[x.Num], item)
			}
		}
		if a := n.slots[h].add; a != nil && n.owns(h) && !n.t.Slots[h].InSyncHas(a.who) {
			batches[a.who.Num] = append(batches[a.who.Num], item)
		}
	}
	for _, num := range sortedKeys(batches) {
		n.sendTouches(num, batches[num])
	}
}

// sendTouches sends a batch, one at a time to each peer: while it is on its way
// later ones are gathered, and a later use of a session overrules the earlier.
func (n *Node) sendTouches(num number, items []TouchItem) {
	p := n.peer(num)
	if p.touch != nil {
		late := make(map[session.ID]bool, len(items))
		for _, x := range items {
			late[x.ID] = true
		}
		p.touchNext = append(slices.DeleteFunc(p.touchNext, func(x TouchItem) bool { return late[x.ID] }), items...)
		return
	}
	n.seq++
	p.touch, p.touchAt, p.touchSince = &Touch{n.seq, items}, n.now.Mono, n.now.Mono
	n.post(n.holder(num), p.touch, true)
}

// remaining returns the uses with the time that is left now: what is told late
// must not count from when it is heard.
func (n *Node) remaining(items []TouchItem) []TouchItem {
	out := make([]TouchItem, 0, len(items))
	for _, x := range items {
		if e := n.store.Get(x.Slot, x.ID); e != nil && !e.Rec.Dead && e.Deadline != 0 {
			out = append(out, TouchItem{x.Slot, x.ID, max(time.Duration(e.Deadline-n.now.Mono), 1)})
		}
	}
	return out
}

// handTouches tells the new owners of slots of the uses that they have not
// heard of, so that a planned move keeps deadlines exact (E3).
func (n *Node) handTouches() {
	if len(n.handed) == 0 {
		return
	}
	var gone [ring.Slots]bool
	for _, h := range n.handed {
		gone[h] = true
	}
	n.handed = n.handed[:0]
	batches := map[number][]TouchItem{}
	hand := func(e *session.Entry) bool {
		h := e.Slot()
		if !gone[h] {
			return false
		}
		e.Touched = false
		owner := n.t.Slots[h].Owner
		if owner != 0 && owner != n.self.Num && !e.Gone() && !e.Rec.Dead && e.Deadline != 0 {
			batches[owner] = append(batches[owner], TouchItem{h, e.Rec.ID, max(time.Duration(e.Deadline-n.now.Mono), 1)})
		}
		return true
	}
	for i := range n.touched {
		b := &n.touched[i]
		b.entries = slices.DeleteFunc(b.entries, hand)
	}
	for _, num := range sortedKeys(batches) {
		n.sendTouches(num, batches[num])
	}
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
	if p := n.peer(from.Num); p.touch != nil && p.touch.Seq == m.Seq {
		p.touch = nil
		if next := p.touchNext; len(next) > 0 {
			p.touchNext = nil
			n.sendTouches(from.Num, n.remaining(next))
		}
		if n.syncing > 0 {
			n.usesConfirmed(from.Num)
		}
	}
}

const endedPerTick = 4096

// tickExpiry ends sessions whose time is over, where this member owns them, and
// forgets tombstones that no late copy can contradict any more (E1).
func (n *Node) tickExpiry() {
	gone := map[number]map[ring.Slot][]Item{}
	n.store.Ended(n.now.Mono, endedPerTick, func(e *session.Entry) int64 {
		h := e.Slot()
		mine := n.owns(h) && n.open(h)
		switch {
		case e.Rec.Dead && mine:
			n.forget(h, e, gone)
			return 0
		case e.Rec.Dead:
			if n.now.Mono-e.Deadline > int64(10*time.Minute) {
				n.remove(e)
				return 0
			}
			return n.now.Mono + int64(time.Minute)
		case mine && n.mayWrite():
			if n.slots[h].writes[e.Rec.ID] == nil && n.expire(h, e) != nil {
				n.Stats.Expired++
			}
			return n.now.Mono + int64(time.Second) // until its tombstone is there
		}
		return n.now.Mono + int64(n.p.TouchEvery) // its owner decides
	})
	for _, num := range sortedKeys(gone) {
		for h := range ring.Slot(ring.Slots) {
			if items := gone[num][h]; len(items) > 0 {
				n.post(n.holder(num), &Discard{SlotRe{h, n.t.Slots[h].Re}, items}, true)
			}
		}
	}
	n.evict()
}

func (n *Node) mayWrite() bool { return !n.leaseOver() && !n.wakeup.dozing }

// leaseOver reports whether this member may neither read nor accept a write
// (N2, R1, W1).
func (n *Node) leaseOver() bool { return n.refuse && n.now.Mono >= n.lease.until }

func (n *Node) forget(h ring.Slot, e *session.Entry, gone map[number]map[ring.Slot][]Item) {
	for _, x := range n.t.Slots[h].InSync {
		if x == n.self {
			continue
		}
		if gone[x.Num] == nil {
			gone[x.Num] = map[ring.Slot][]Item{}
		}
		gone[x.Num][h] = append(gone[x.Num][h], itemOf(e))
	}
	n.moved(h, e.Rec.ID)
	n.remove(e)
}

// expire begins the write of the session's tombstone; nil where too few copies
// are in sync for any write.
func (n *Node) expire(h ring.Slot, e *session.Entry) *write {
	if n.tooFew(h, &op{}) != nil {
		return nil
	}
	req := &session.Request{Kind: session.Delete, ID: e.Rec.ID}
	c, _ := session.Apply(e.Rec, req, n.env(h, e.Rec, req))
	if c == nil {
		return nil
	}
	return n.launch(h, nil, e, c, nil)
}

const evictPerTick = 256

// evict ends the least recently used sessions of this member's slots while it
// owns more than session.max_count.
func (n *Node) evict() {
	limit := n.cfg.Defaults.MaxCount
	if live, _, _ := n.store.Total(); limit <= 0 || live <= limit || !n.mayWrite() {
		return
	}
	owned := 0
	for h := range ring.Slot(ring.Slots) {
		if n.owns(h) && n.open(h) {
			owned += n.store.Live(h) - n.ending(h)
		}
	}
	for range min(owned-limit, evictPerTick) {
		var oldest *session.Entry
		for h := range ring.Slot(ring.Slots) {
			if !n.owns(h) || !n.open(h) {
				continue
			}
			if e := n.oldestFree(h); e != nil && (oldest == nil || e.Used < oldest.Used) {
				oldest = e
			}
		}
		if oldest == nil || n.expire(oldest.Slot(), oldest) == nil {
			return
		}
		n.Stats.Evicted++
	}
}

// ending counts the slot's sessions whose tombstone is under way.
func (n *Node) ending(h ring.Slot) int {
	k := 0
	for _, w := range n.slots[h].writes {
		if w.op == nil {
			k++
		}
	}
	return k
}

// oldestFree returns the least recently used session of the slot that is not
// being written.
func (n *Node) oldestFree(h ring.Slot) (oldest *session.Entry) {
	n.store.EachLiving(h, func(e *session.Entry) bool {
		if n.slots[h].writes[e.Rec.ID] == nil {
			oldest = e
		}
		return oldest == nil
	})
	return oldest
}
