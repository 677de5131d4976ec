package replicate

import (
	"slices"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

func TestBulk_refillsAfterAnyPause(t *testing.T) {
	t.Parallel()
	const day = int64(24 * time.Hour)
	for _, days := range []int64{0, 1, 6, 7, 8, 14, 400} {
		b := bulk{filledAt: 1e9}
		b.refill(1e9+days*day+1e9, 16<<20, 1<<20)
		if b.tokens != 1<<20 {
			t.Errorf("after %d days and a second: %d tokens", days, b.tokens)
		}
	}
}

func TestNode_silentLearnerHoldsUpNoWrites(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]bool{"serve": false, "refuse": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, refuse)
			id := c.create(0)
			c.cut[[2]member.Number{1, 3}] = true
			c.learn(0, 3)
			c.run(30 * time.Second)
			began := c.now.Mono
			c.wantOK(c.do(1, incr(id)))
			if took := time.Duration(c.now.Mono - began); took > time.Second {
				t.Errorf("a write waited %v for a learner that does not count", took)
			}
		})
	}
}

func TestNode_silentLearnerIsTriedAgain(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.create(0)
	c.nodes[3].store.Clear(0)
	c.cut[[2]member.Number{1, 3}] = true
	c.learn(0, 3)
	c.run(5 * time.Second)
	clear(c.cut)
	c.run(30 * time.Second)
	if c.record(3, 0, id) == nil || len(c.adds) == 0 {
		t.Error("the learner was given up for good")
	}
}

func TestNode_recordThatEndsOnItsWayIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(0)
	c.nodes[3].store.Clear(0)
	c.lose = func(e envelope) bool {
		_, ok := e.msg.(*Replicate)
		return ok && e.to.Num == 3
	}
	c.learn(0, 3)
	c.run(700 * time.Millisecond)
	a := c.nodes[1].slots[0].add
	if a == nil || len(a.flight) != 1 {
		t.Fatalf("filling %+v", a)
	}
	c.nodes[1].store.Remove(c.nodes[1].store.Get(0, id)) // as a tombstone whose time is over
	c.run(3 * time.Second)
	if len(c.adds) == 0 {
		t.Error("the learner is not announced")
	}
	if n := c.nodes[1].peer(3).bulk.inFlight; n != 0 {
		t.Errorf("%d bytes are still counted as in flight", n)
	}
}

func TestNode_thirdCopyWaitsFromWhenOneWasLost(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	c.create(0)
	c.run(time.Minute)
	c.fail(3)
	if since := c.nodes[1].now.since(c.nodes[1].slots[0].full); since > time.Second {
		t.Errorf("the slot is one copy short for %v already, it says", since)
	}
}

func TestNode_singleCopiesAreFilledFirst(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	for h := ring.Slot(0); h < 30; h += 3 {
		c.create(h)
	}
	c.nodes[1].p.SyncSlots = 1
	var order []ring.Slot
	c.seen = func(e envelope) {
		if m, ok := e.msg.(*Compare); ok && m.Purpose == ForSync && !slices.Contains(order, m.Slot) {
			order = append(order, m.Slot)
		}
	}
	c.changeAll(func(h ring.Slot) bool { return h < 30 && h%3 == 0 }, func(s *ring.SlotState) {
		s.InSync, s.Learners = c.holders(1, 2), c.holders(3)
	})
	c.changeAll(func(h ring.Slot) bool { return h == 24 || h == 27 }, func(s *ring.SlotState) {
		s.InSync, s.Learners = c.holders(1), c.holders(3)
	})
	c.taking = true
	c.run(10 * time.Second)
	if len(order) != 10 || order[0] < 24 || order[1] < 24 {
		t.Errorf("filled in the order %v", order)
	}
}

func TestNode_singleCopyWithoutLearnerInReachHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	c.create(0)
	c.create(3)
	c.cut[[2]member.Number{1, 3}] = true
	down := func() {
		c.step(1, func(n *Node, out *Out) { n.PeerDown(c.now, 3, true, out) })
	}
	down()
	c.change(0, func(s *ring.SlotState) { s.InSync, s.Learners = c.holders(1), c.holders(3) })
	c.nodes[2].store.Clear(3)
	c.change(3, func(s *ring.SlotState) { s.InSync, s.Learners = c.holders(1, 3), c.holders(2) })
	c.taking = true
	for range 40 {
		down()
		c.run(50 * time.Millisecond)
	}
	if !c.table.Slots[3].InSyncHas(c.holder(2)) {
		t.Error("slot 3 waits for slot 0, which nobody can fill")
	}
}

func TestNode_firstWriteDuringFillingIsOnTheLearner(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.create(0)
	c.nodes[3].store.Clear(0)
	c.learn(0, 3)
	c.run(700 * time.Millisecond)
	c.wantOK(c.do(2, set(id, "a", "1")))
	if c.value(3, 0, id, "a") != "1" {
		t.Error("an answered write is not on the copy that may count already")
	}
}

// A learner that was alone with a write does not count before that is gone, also
// where the word to forget it gets lost.
func TestNode_learnerForgetsBeforeItCounts(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]bool{"serve": false, "refuse": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, refuse)
			id, gone := c.create(0), c.mint(0)
			c.taking = true
			lost := 0
			c.lose = func(e envelope) bool {
				if _, ok := e.msg.(*Discard); !ok || lost == 2 {
					return false
				}
				lost++
				return true
			}
			own := c.record(3, 0, id)
			v := own.Version()
			v.Ver++
			if n := c.nodes[3]; refuse {
				n.store.Put(0, own.Restamp(v), n.now.Mono, 0, time.Hour)
			} else {
				other := *own
				other.ID = gone
				n.store.Put(0, &other, n.now.Mono, 0, time.Hour)
			}
			c.learn(0, 3)
			for range 200 {
				c.run(25 * time.Millisecond)
				if c.table.Slots[0].InSyncHas(c.holder(3)) {
					break
				}
			}
			if !c.table.Slots[0].InSyncHas(c.holder(3)) {
				t.Fatal("the learner was never counted in")
			}
			if c.nodes[3].store.Sum(0) != c.nodes[1].store.Sum(0) {
				t.Errorf("it counts with %v and %v, which its owner lacks", c.record(3, 0, id), c.record(3, 0, gone))
			}
		})
	}
}

// A write that ends with its owner's term may be on the learner alone: the owner
// that starts again looks at the learner anew.
func TestNode_learnerIsComparedAnewWhenItsOwnerStartsAgain(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.create(0)
	c.learn(0, 3)
	c.run(time.Second)
	if a := c.nodes[1].slots[0].add; a == nil || !c.nodes[1].filled(a) {
		t.Fatal("the learner is not filled")
	}
	c.lose = func(e envelope) bool {
		_, ok := e.msg.(*Replicate)
		return ok && e.to.Num == 2
	}
	c.start(1, set(id, "a", "1"))
	c.run(2500 * time.Millisecond) // nobody asks for it any more
	if c.value(3, 0, id, "a") != "1" || c.value(1, 0, id, "a") != "" {
		t.Fatal("the write is not on the learner alone")
	}
	c.change(0, func(s *ring.SlotState) { s.PrevRe, s.Re = s.Re+1, s.Re+2 }) // it has missed one
	c.lose, c.taking = nil, true
	for range 200 {
		c.run(25 * time.Millisecond)
		if c.table.Slots[0].InSyncHas(c.holder(3)) {
			break
		}
	}
	if !c.table.Slots[0].InSyncHas(c.holder(3)) || c.nodes[3].store.Sum(0) != c.nodes[1].store.Sum(0) {
		t.Errorf("in sync %v; it holds %v, its owner %v", c.table.Slots[0].InSync, c.record(3, 0, id), c.record(1, 0, id))
	}
}
