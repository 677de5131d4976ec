package replicate

import (
	"fmt"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// behind is by how much the deadline that a member knows is before the owner's.
func (c *trio) behind(num number, h ring.Slot, id session.ID) time.Duration {
	return time.Duration(c.nodes[c.table.Slots[h].Owner].store.Get(h, id).Deadline - c.nodes[num].store.Get(h, id).Deadline)
}

// brief makes a session that ends when nobody uses it for a minute.
func (c *trio) brief(h ring.Slot) session.ID {
	c.t.Helper()
	id := c.mint(h)
	c.wantOK(c.do(1, &session.Request{Kind: session.Create, ID: id, TTL: time.Minute}))
	return id
}

func touch(id session.ID) *session.Request { return &session.Request{Kind: session.Touch, ID: id} }

// Whoever hears that a session goes on may count on it, whoever of its holders dies
// then, however long it was idle before.
func TestNode_useIsAnsweredWhenTheCopiesKnowOfIt(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(session.ID) *session.Request{
		"touch":      touch,
		"touch, get": func(id session.ID) *session.Request { return &session.Request{Kind: session.Get, ID: id, Touch: true} },
		"told by a proxy": func(id session.ID) *session.Request {
			return &session.Request{Kind: session.Touch, ID: id, TTL: 3 * time.Second}
		},
	} {
		for _, refuse := range []bool{false, true} {
			for at := number(1); at <= 3; at++ {
				t.Run(fmt.Sprintf("%s at member %d, refuse %t", name, at, refuse), func(t *testing.T) {
					t.Parallel()
					c := newTrio(t, refuse)
					id := c.brief(0)
					for range 2 {
						c.run(40 * time.Second)
						h := c.start(at, use(id))
						for c.done[h] == nil && len(c.queue) > 0 {
							c.deliver()
						}
						c.wantOK(c.done[h])
						for num := number(2); num <= 3; num++ {
							if off := c.behind(num, 0, id); off > 0 {
								t.Errorf("with the answer member %d is %v behind", num, off)
							}
						}
					}
				})
			}
		}
	}
}

// A use soon after another need not be told, but it must not be answered before
// that one is known either.
func TestNode_laterUseWaitsForTheOneOnItsWay(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.brief(0)
	c.run(40 * time.Second)
	c.cut[[2]number{1, 3}] = true
	first := c.start(1, touch(id))
	c.run(200 * time.Millisecond)
	c.step(1, func(n *Node, out *Out) { n.Use(c.now, 99, id, time.Second, out) })
	second, other := c.start(1, touch(id)), c.start(1, &session.Request{Kind: session.Get, ID: id})
	c.run(100 * time.Millisecond)
	if c.done[first] != nil || c.done[second] != nil {
		t.Errorf("answered while a copy does not know of it: %v, %v", c.done[first], c.done[second])
	}
	if c.done[other] == nil {
		t.Error("a read waits for uses to be told")
	}
	delete(c.cut, [2]number{1, 3})
	c.run(500 * time.Millisecond)
	c.wantOK(c.done[first])
	c.wantOK(c.done[second])
	if off := c.behind(3, 0, id); off > c.nodes[1].touchEvery(c.record(1, 0, id)) {
		t.Errorf("the copy is %v behind", off)
	}
}

// A copy that does not answer holds up the uses of its own sessions alone, and these
// until it counts no more.
func TestNode_useWaitsForItsOwnCopiesAlone(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]bool{"serve": false, "refuse": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, refuse)
			c.change(3, func(s *ring.SlotState) { s.InSync = c.holders(1, 2) })
			held, free := c.brief(0), c.brief(3)
			c.run(40 * time.Second)
			c.cut[[2]number{1, 3}] = true
			slow, quick := c.start(1, touch(held)), c.start(1, touch(free))
			c.run(100 * time.Millisecond)
			if c.done[slow] != nil {
				t.Error("answered while a copy does not know of it")
			}
			c.wantOK(c.done[quick])
			c.run(500 * time.Millisecond)
			if c.done[slow] != nil {
				t.Error("answered after a while, while a copy that counts does not know of it")
			}
			c.change(0, func(s *ring.SlotState) { s.InSync = c.holders(1, 2) })
			c.run(100 * time.Millisecond)
			c.wantOK(c.done[slow])
		})
	}
}

// An owner that has lost the slot meanwhile promises nothing: the next one is asked.
func TestNode_useIsAskedOfTheNextOwner(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.brief(0)
	c.run(40 * time.Second)
	c.cut[[2]number{1, 2}], c.cut[[2]number{1, 3}] = true, true
	h := c.start(2, touch(id))
	c.run(100 * time.Millisecond)
	c.dead[1] = true
	clear(c.cut)
	c.change(0, func(s *ring.SlotState) { s.Owner, s.InSync = 2, c.holders(2, 3) })
	c.run(time.Second)
	c.wantOK(c.done[h])
	for num := number(2); num <= 3; num++ {
		if left := time.Duration(c.nodes[num].store.Get(0, id).Deadline - c.now.Mono); left < 58*time.Second {
			t.Errorf("member %d knows of %v", num, left)
		}
	}
}

// heldUp makes member 3 a learner of a slot with one session, idle for long, whose
// record does not come: what is sent of it is kept.
func (c *trio) heldUp() (id session.ID, late *[]envelope) {
	c.t.Helper()
	c.change(0, func(s *ring.SlotState) { s.InSync = c.holders(1, 2) })
	id, late = c.brief(0), new([]envelope)
	c.run(40 * time.Second)
	c.taking = true
	c.lose = func(e envelope) bool {
		_, record := e.msg.(*Replicate)
		if record && e.to.Num == 3 {
			*late = append(*late, e)
		}
		return record && e.to.Num == 3
	}
	c.learn(0, 3)
	for len(*late) == 0 {
		c.run(25 * time.Millisecond)
	}
	return id, late
}

// What is told while the record is on its way to a learner is told again.
func TestNode_learnerKnowsWhatWasToldBeforeItsRecordCame(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id, late := c.heldUp()
	c.lose = nil
	c.wantOK(c.do(1, touch(id)))
	c.queue = append((*late)[:1], c.queue...)
	c.run(2 * time.Second)
	if !c.table.Slots[0].InSyncHas(c.holder(3)) {
		t.Fatal("the learner does not count")
	}
	if off := c.behind(3, 0, id); off > 0 {
		t.Errorf("the learner is %v behind", off)
	}
}

// With a disk the answer waits until that knows, too.
func TestNode_useIsOnDiskBeforeItIsAnswered(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	disks := c.onDisks()
	id := c.brief(0)
	c.run(40 * time.Second)
	disks[1].lazy = true
	first := c.start(1, touch(id))
	c.run(50 * time.Millisecond)
	second := c.start(1, touch(id))
	c.run(50 * time.Millisecond)
	if c.done[first] != nil || c.done[second] != nil {
		t.Error("answered before it is on disk")
	}
	c.sync(1)
	c.wantOK(c.done[first])
	c.wantOK(c.done[second])
	c.reboot()
	if left := time.Duration(c.nodes[1].store.Get(0, id).Deadline - c.now.Mono); left < 58*time.Second {
		t.Errorf("after a restart %v are left", left)
	}
}

// While a peer answers nothing, what it has still to hear does not grow with every use.
func TestNode_whatAPeerHasToHearIsBounded(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	var entries []*session.Entry
	for i := range maxTouches + 10 {
		rec := &session.Record{ID: session.ID(fmt.Sprint("s", i)), Ver: 1, Gen: session.Gen{Re: c.table.Slots[0].Re}, TTL: 30 * time.Minute}
		entries = append(entries, c.nodes[1].store.Put(0, rec, c.now.Mono, 0, rec.TTL))
	}
	c.cut[[2]number{3, 1}] = true
	for range 8 {
		c.step(1, func(n *Node, out *Out) {
			n.begin(c.now, out)
			for _, e := range entries {
				n.used(e, c.now.Mono, 0)
			}
			n.end()
		})
		c.run(31 * time.Second)
		if got := len(c.nodes[1].peer(3).touchNext); got > 2*len(entries) {
			t.Fatalf("%d uses of %d sessions wait", got, len(entries))
		}
	}
}
