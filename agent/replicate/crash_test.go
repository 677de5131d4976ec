package replicate

import (
	"fmt"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// known fails the test if a member believes in an end of the session that is so much
// before the owner's that it would end it early if it took its place.
func (c *trio) known(num number, h ring.Slot, id session.ID) {
	c.t.Helper()
	if off, most := c.behind(num, h, id), c.nodes[num].touchEvery(c.record(num, h, id)); off > most {
		c.t.Errorf("member %d is %v behind, a new owner makes good for %v", num, off, most)
	}
}

// What the copies were told of an earlier life of a named id is nothing that they know
// of the present one.
func TestNode_newLifeOfANamedIDIsTold(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{time.Minute, 30 * time.Minute} {
		t.Run(fmt.Sprint(ttl), func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, true)
			id, h := c.named(1)
			bind := func(ttl time.Duration) *session.Request {
				return &session.Request{Kind: session.Patch, ID: id, Attrs: []session.Attr{attr("b", `"1"`)}, TTL: ttl, MaxAge: session.NamedMaxAge}
			}
			c.wantOK(c.do(1, bind(ttl)))
			c.wantOK(c.do(1, &session.Request{Kind: session.Touch, ID: id, TTL: 10 * time.Second})) // as a proxy tells
			c.wantOK(c.do(1, &session.Request{Kind: session.Delete, ID: id}))
			c.wantOK(c.do(1, bind(time.Minute)))
			c.run(15500 * time.Millisecond)
			c.wantOK(c.do(1, touch(id)))
			c.known(2, h, id)
			c.run(20 * time.Second)
			c.wantOK(c.do(1, touch(id)))
			c.known(3, h, id)
		})
	}
}

// named returns a named id that the member owns.
func (c *trio) named(owner number) (session.ID, ring.Slot) {
	k := session.NewKeyring(c.table.Keys)
	for n := byte(0); ; n++ {
		id := k.Name("shop", []byte{n})
		if h, _ := id.Slot(); c.table.Slots[h].Owner == owner {
			return id, h
		}
	}
}

// A record that was sent twice to a learner may have come with the first message, which
// knew least.
func TestNode_learnerKnowsWhatWasToldBeforeItsRecordCameTwice(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id, late := c.heldUp()
	h := c.start(1, touch(id))
	for len(*late) == 1 {
		c.run(25 * time.Millisecond)
	}
	c.lose = nil
	c.queue = append((*late)[:2], c.queue...)
	c.run(2 * time.Second)
	if !c.table.Slots[0].InSyncHas(c.holder(3)) {
		t.Fatal("the learner does not count")
	}
	c.wantOK(c.done[h])
	c.known(3, 0, id)
}

// A learner may count soon: what is answered while it is filled must not be unknown to
// it then.
func TestNode_useIsAnsweredWhenTheLearnerKnowsOfIt(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id, other, third := c.brief(0), c.create(0), c.brief(3)
	c.run(40 * time.Second)
	c.nodes[3].store.Remove(c.nodes[3].store.Get(0, other))
	c.taking = true
	var late []envelope
	c.lose = func(e envelope) bool {
		if _, record := e.msg.(*Replicate); record && e.to.Num == 3 {
			late = append(late, e)
			return true
		}
		return false
	}
	c.learn(0, 3)
	for len(late) == 0 {
		c.run(25 * time.Millisecond)
	}
	c.run(100 * time.Millisecond)
	if a := c.nodes[1].slots[0].add; a == nil || len(a.flight) != 1 || a.flight[other] == nil {
		t.Fatalf("filling: %+v", a)
	}
	c.wantOK(c.do(1, touch(third))) // which ends the round in which the learner heard how long its own have left
	c.lose = func(e envelope) bool {
		_, told := e.msg.(*Touch)
		return told && e.to.Num == 3
	}
	h := c.start(1, touch(id))
	c.run(25 * time.Millisecond)
	c.queue = append(late[:1], c.queue...)
	c.run(100 * time.Millisecond)
	if !c.table.Slots[0].InSyncHas(c.holder(3)) {
		t.Fatal("the learner does not count")
	}
	if c.done[h] != nil {
		c.known(3, 0, id)
	}
	c.lose = nil
	c.run(time.Second)
	c.wantOK(c.done[h])
	c.known(3, 0, id)
}

// However often others are told to it, a learner hears of the sessions that it holds.
func TestNode_learnerIsFilledWhileUsesAreTold(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	c.brief(0)
	var entries []*session.Entry
	for i := range 400 {
		rec := &session.Record{ID: session.ID(fmt.Sprint("s", i)), Ver: 1, Gen: session.Gen{Re: c.table.Slots[3].Re}, TTL: 30 * time.Minute}
		for at := number(1); at <= 3; at++ {
			if e := c.nodes[at].store.Put(3, rec, c.now.Mono, 0, rec.TTL); at == 1 {
				entries = append(entries, e)
			}
		}
	}
	c.taking = true
	c.learn(0, 3)
	var late []envelope
	c.lose = func(e envelope) bool {
		_, ack := e.msg.(*TouchAck)
		if ack = ack && e.from.Num == 3; ack {
			late = append(late, e)
		}
		return ack
	}
	for _, e := range entries {
		c.step(1, func(n *Node, out *Out) {
			n.begin(c.now, out)
			n.used(e, c.now.Mono, 0)
			n.end()
		})
		acks := late
		late = nil
		c.run(25 * time.Millisecond)
		for _, e := range acks { // a network on which each takes longer than from one tick to the next
			c.step(1, func(n *Node, out *Out) { n.Receive(c.now, e.from, e.epoch, e.msg, out) })
		}
	}
	if !c.table.Slots[0].InSyncHas(c.holder(3)) {
		t.Errorf("after 10 s the learner does not count: %+v", c.nodes[1].slots[0].add)
	}
}

// A use that comes again while the first is on its way to the disk waits for it, however
// many others were told of meanwhile.
func TestNode_laterUseWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	disks := c.onDisks()
	ids := make([]session.ID, 130)
	for i := range ids {
		ids[i] = c.brief(0)
	}
	c.run(40 * time.Second)
	disks[1].lazy = true
	first := c.start(1, touch(ids[0]))
	for _, id := range ids[1:] {
		c.start(1, touch(id))
		c.run(0)
	}
	again := c.start(1, touch(ids[0]))
	c.run(0)
	if c.done[first] != nil || c.done[again] != nil {
		t.Error("answered before it is on disk")
	}
	c.sync(1)
	c.wantOK(c.done[first])
	c.wantOK(c.done[again])
}

// A dead member that still counts may come back, and with it what it knew.
func TestNode_useWaitsForADeadMemberThatCounts(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.brief(0)
	c.run(40 * time.Second)
	c.dead[3] = true
	gone := *c.table.Member(3)
	gone.State = ring.Down
	c.commit(&ring.Change{Base: c.table.Epoch, Members: []ring.Member{gone}})
	h := c.start(1, touch(id))
	c.run(500 * time.Millisecond)
	if c.done[h] != nil {
		t.Error("answered while a copy that counts does not know of it")
	}
	c.change(0, func(s *ring.SlotState) { s.InSync = c.holders(1, 2) })
	c.run(100 * time.Millisecond)
	c.wantOK(c.done[h])
}

// Without a leader, too, the copies that live know of a use before it is answered.
func TestNode_useIsToldWithoutALeader(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.brief(0)
	c.run(40 * time.Second)
	c.detach(1, 1, 2)
	c.dead[3] = true
	h := c.start(1, touch(id))
	for c.done[h] == nil && len(c.queue) > 0 {
		c.deliver()
	}
	c.wantOK(c.done[h])
	c.known(2, 0, id)
}

// A learner that does not confirm what it is told does not hold up the uses of others.
func TestNode_learnerThatHearsNoUsesHoldsUpNone(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.brief(0)
	c.taking = true
	c.lose = func(e envelope) bool {
		_, told := e.msg.(*Touch)
		return told && e.to.Num == 3
	}
	c.learn(0, 3)
	c.run(40 * time.Second)
	began := c.now.Mono
	c.wantOK(c.do(1, touch(id)))
	if took := time.Duration(c.now.Mono - began); took > time.Second {
		t.Errorf("a use waited %v for a learner that does not count", took)
	}
}
