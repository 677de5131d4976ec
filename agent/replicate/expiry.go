package replicate

import (
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

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
		case mine && (!n.mayWrite() || n.now.Mono < n.wakeup.grace):
			return n.now.Mono + int64(time.Second)
		case mine:
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
			owned += n.store.Live(h) - n.endings(h)
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

// endings counts the slot's sessions whose tombstone is under way.
func (n *Node) endings(h ring.Slot) int {
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
