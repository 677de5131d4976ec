package replicate

import (
	"slices"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// back puts a member that was marked down into the table again, as a learner of
// everything but of slots in which it still is in sync.
func (c *trio) back(num number, discards uint32) *ring.Change {
	delete(c.dead, num)
	ch := &ring.Change{Base: c.table.Epoch}
	m := *c.table.Member(num)
	m.State, m.Discards = ring.Joining, discards
	ch.Members = append(ch.Members, m)
	for h := range ring.Slot(ring.Slots) {
		s := c.table.Slots[h]
		if !s.InSyncHas(m.Holder()) {
			s.Learners = []ring.Holder{m.Holder()}
			ch.Slots = append(ch.Slots, ring.SlotChange{Slot: h, State: s})
		}
	}
	return ch
}

func TestNode_whoWasAwayForLongForgets(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	kept, gone, last := c.create(0), c.create(0), c.create(4)
	own, old := c.mint(0), c.mint(0)
	n := c.nodes[3]
	for _, id := range []session.ID{own, old} {
		n.store.Put(0, made(t, id, session.Gen{Re: 1, Detach: 1, Num: 3}, "1"), c.now.Mono, 0, 100*time.Hour)
	}
	n.markUnsettled(n.store.Get(0, own), c.now.Mono)
	n.markUnsettled(n.store.Get(0, old), c.now.Mono)
	n.unsettled[1].since = c.now.Mono - int64(n.p.Tombstone)
	c.fail(3)
	c.change(4, func(s *ring.SlotState) { // 3 has the last copy
		s.Owner, s.InSync = 3, c.holders(3)
	})
	c.wantOK(c.do(1, &session.Request{Kind: session.Delete, ID: gone}))
	c.nodes[1].p.SyncSlots, c.nodes[2].p.SyncSlots = 0, 0
	c.commit(c.back(3, 1))
	c.run(0)
	if got := []bool{c.record(3, 0, kept) != nil, c.record(3, 0, gone) != nil, c.record(3, 0, old) != nil}; slices.Contains(got, true) {
		t.Errorf("still holds %v", got)
	}
	if c.record(3, 0, own) == nil {
		t.Error("forgot what it alone may have")
	}
	if c.record(3, 4, last) == nil {
		t.Error("forgot the last copy")
	}
	c.run(3 * time.Second)
	c.wantOK(c.do(1, &session.Request{Kind: session.Get, ID: own}))
	n.store.Put(0, made(t, kept, session.Gen{Re: 1}, "1"), c.now.Mono, 0, time.Hour)
	c.change(1, func(s *ring.SlotState) { s.Home = 1 })
	if c.record(3, 0, kept) == nil {
		t.Error("forgets again with every table")
	}
}

func TestNode_fillingBeginsWithTheTableThatAllowsIt(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	c.taking = true
	ids := []session.ID{c.create(0), c.create(0)}
	c.fail(3)
	c.step(3, func(n *Node, out *Out) { n.Adopt(c.now, c.table, out) }) // it knows that it is down
	c.run(time.Second)
	ch := c.back(3, 1)
	// The owner fills it before it has heard of that table.
	c.dead[3] = true
	c.commit(ch)
	delete(c.dead, 3)
	held := true
	c.lose = func(e envelope) bool {
		_, table := e.msg.(*TableUpdate)
		return table && e.to.Num == 3 && held
	}
	c.lead[3] = false
	c.run(time.Second)
	if c.table.Slots[0].InSyncHas(c.holder(3)) {
		t.Fatal("counts, and will forget what it has")
	}
	held, c.lead[3] = false, true
	c.run(5 * time.Second)
	if !c.table.Slots[0].InSyncHas(c.holder(3)) {
		t.Fatal("not filled")
	}
	for _, id := range ids {
		if c.record(3, 0, id) == nil {
			t.Error("a copy in sync lacks a record")
		}
	}
}

// The leaders that came and went while a member was away cannot tell for how
// long; it forgets by its own clock, once.
func TestNode_forgetsByItsOwnClock(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]time.Duration{"short": 50 * time.Minute, "long": 70 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, false)
			kept, gone := c.create(0), c.create(0)
			c.fail(3)
			c.wantOK(c.do(1, &session.Request{Kind: session.Delete, ID: gone}))
			c.now.Mono += int64(away)
			c.lead[3] = false // it hears of the table from the others first
			c.nodes[1].p.SyncSlots, c.nodes[2].p.SyncSlots = 0, 0
			c.commit(c.back(3, 0))
			if held := c.record(3, 0, kept) != nil || c.record(3, 0, gone) != nil; held != (name == "short") {
				t.Errorf("holds what it had before %v: %v", away, held)
			}
			c.nodes[1].p.SyncSlots, c.taking = 64, true
			for range 200 {
				c.run(25 * time.Millisecond)
				c.change(2, func(s *ring.SlotState) { s.Home = s.Home%3 + 1 })
			}
			if !c.table.Slots[0].InSyncHas(c.holder(3)) || c.record(3, 0, kept) == nil {
				t.Errorf("does not hold what it was filled with; in sync: %v", c.table.Slots[0].InSync)
			}
		})
	}
}
