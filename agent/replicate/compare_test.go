package replicate

import (
	"slices"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// spoil changes a record at one member behind the protocol's back.
func (c *trio) spoil(num number, h ring.Slot, id session.ID, value string) {
	c.t.Helper()
	e := c.nodes[num].store.Get(h, id)
	ch, resp := session.Apply(e.Rec, set(id, "a", value), session.Env{MaxSize: 1 << 20, Gen: e.Rec.Gen, Stamp: session.Stamp{HLC: 1}})
	if ch == nil {
		c.t.Fatalf("%+v", resp)
	}
	c.nodes[num].store.Put(h, ch.Next.Restamp(e.Rec.Version()), c.now.Mono, 0, 0)
}

// writing compares the copies of slot 0 a few times, always with a write of each
// of the sessions under way.
func (c *trio) writing(ids ...session.ID) {
	for range 20 {
		for _, id := range ids {
			c.start(1, incr(id))
		}
		c.nodes[1].slots[0].repair = 0
		c.step(1, func(n *Node, out *Out) { n.Tick(c.now, out) })
		for _, id := range ids {
			c.start(1, incr(id))
		}
		c.run(25 * time.Millisecond)
	}
	c.run(time.Second)
}

func TestNode_busySlotIsComparedToo(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]bool{"serve": false, "refuse": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, refuse)
			quiet := c.create(0, attr("a", "right"))
			var busy []session.ID
			for range 8 {
				busy = append(busy, c.create(0))
			}
			c.writing(busy...)
			if n := c.nodes[1].Stats.Divergence; n != 0 {
				t.Fatalf("%d differences, where there are none", n)
			}
			c.spoil(3, 0, quiet, "wrong")
			c.writing(busy...)
			if c.value(3, 0, quiet, "a") != "right" {
				t.Errorf("not repaired: %+v", c.record(3, 0, quiet))
			}
			if n := c.nodes[1].Stats.Divergence; n != 1 {
				t.Errorf("%d differences counted", n)
			}
		})
	}
}

func TestNode_writesDuringAComparisonAreNoDifferences(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	// Of these, a third is stored at the copies before they answer, a third on
	// its way then, and a third is written before the answers arrive.
	var ids []session.ID
	for range 192 {
		ids = append(ids, c.create(0))
	}
	third := map[session.ID]int{}
	for i, id := range ids {
		third[id] = i % 3
	}
	var held []envelope
	var hold func(m Message) bool
	c.lose = func(e envelope) bool {
		if hold(e.msg) {
			held = append(held, e)
			return true
		}
		return false
	}
	release := func(next func(m Message) bool) {
		hold = next
		c.queue, held = append(c.queue, held...), nil
		c.run(0)
	}
	write := func(which ...int) {
		for _, id := range ids {
			if slices.Contains(which, third[id]) {
				c.start(1, incr(id))
			}
		}
	}
	differed := 0
	c.seen = func(e envelope) {
		if m, ok := e.msg.(*Listing); ok && m.Purpose == ForRepair && m.Mask != 0 {
			differed++
		}
	}
	for range 5 {
		write(0, 1)
		release(func(m Message) bool {
			switch m := m.(type) {
			case *Replicate:
				return third[m.Updates[0].ID] == 1
			case *Ack, *Listing:
				return true
			}
			return false
		})
		c.nodes[1].slots[0].repair = 0
		c.step(1, func(n *Node, out *Out) { n.Tick(c.now, out) })
		c.run(0)
		answer := func(m Message) bool {
			_, listing := m.(*Listing)
			return listing
		}
		release(answer)
		write(2)
		release(answer)
		release(func(Message) bool { return false })
		c.run(25 * time.Millisecond)
	}
	if differed != 10 || c.nodes[1].Stats.Divergence != 0 {
		t.Errorf("of %d listings that differ, %d differences were counted, where there are none", differed, c.nodes[1].Stats.Divergence)
	}
}

func TestNode_filledLearnerIsComparedToo(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.create(0, attr("a", "right"))
	c.learn(0, 3)
	c.run(2 * time.Second)
	if a := c.nodes[1].slots[0].add; a == nil || !a.announced {
		t.Fatal("not announced")
	}
	c.spoil(3, 0, id, "wrong")
	c.nodes[1].slots[0].repair = 0
	c.run(2 * time.Second)
	if c.value(3, 0, id, "a") != "right" {
		t.Errorf("not repaired: %+v", c.record(3, 0, id))
	}
	if n := c.nodes[1].Stats.Divergence; n != 0 {
		t.Errorf("%d differences counted, of a copy that does not count", n)
	}
}

func TestNode_comparisonEndsWithManyWrites(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	n := c.nodes[1]
	n.slots[0].cmp = &comparison{tag: 1}
	for i := range movedAtOnce + 1 {
		n.moved(0, session.ID(slices.Repeat([]byte{byte(i), byte(i >> 8)}, 2)))
	}
	if n.slots[0].cmp != nil {
		t.Error("it remembers ever more")
	}
}
