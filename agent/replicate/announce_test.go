package replicate

import (
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
)

// no is the leader's No to what a member has asked for last.
func (c *trio) no(to number, cand ring.Candidate) {
	c.step(to, func(n *Node, out *Out) { n.Control(c.now, &ring.AddInSyncNo{Slots: []ring.Candidate{cand}}, out) })
}

func TestNode_noToAnOlderRequestEndsNothing(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.create(0)
	c.nodes[3].store.Clear(0)
	c.learn(0, 3)
	c.run(time.Second)
	if len(c.adds) == 0 {
		t.Fatal("not announced")
	}
	first := c.adds[len(c.adds)-1].Slots[0]
	if first.Changed != c.table.Slots[0].Changed {
		t.Fatalf("asked from %d, the slot is of %d", first.Changed, c.table.Slots[0].Changed)
	}
	// The slot gets another home: what was asked before is never granted, and
	// asked anew at once.
	c.adds = nil
	c.change(0, func(s *ring.SlotState) { s.Home = 2 })
	c.run(50 * time.Millisecond)
	if len(c.adds) == 0 || c.adds[0].Slots[0].Changed != c.table.Slots[0].Changed {
		t.Fatalf("asked %+v", c.adds)
	}
	c.no(1, first)
	c.wantOK(c.do(1, set(id, "a", "1")))
	if c.value(3, 0, id, "a") != "1" {
		t.Error("after a No to an older request, writes go on without a copy that may count")
	}
	second := c.adds[0].Slots[0]
	c.cut[[2]number{1, 3}] = true
	h := c.start(1, set(id, "a", "2"))
	c.run(50 * time.Millisecond)
	if c.done[h] != nil {
		t.Fatal("answered without a copy that may count")
	}
	c.no(1, second)
	c.run(0)
	c.wantOK(c.done[h])
}
