package replicate

import (
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// An owner that is cut off from the other copies, too, may die with what was offered
// to it: whoever offered it does so until all copies have it.
func TestNode_offersUntilTheCopiesHaveIt(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	c.change(0, func(s *ring.SlotState) { s.InSync = c.holders(1, 2) })
	id := c.create(0)
	ended, _ := session.Apply(c.record(1, 0, id), &session.Request{Kind: session.Delete, ID: id},
		session.Env{MaxSize: 1 << 20, Gen: session.Gen{Re: 1, Detach: 1, Num: 3}})
	c.between(true, []number{1}, []number{2})
	c.detach(1, 1, 3)
	c.nodes[3].markUnsettled(c.nodes[3].store.Put(0, ended.Next, c.now.Mono, 0, time.Hour), c.now.Mono)
	c.run(2 * time.Second)
	if !c.record(1, 0, id).Dead || c.record(2, 0, id).Dead {
		t.Fatal("the owner alone should have what was offered")
	}
	c.dead[1] = true
	c.change(0, func(s *ring.SlotState) { s.Owner, s.InSync = 2, c.holders(2) })
	c.run(2 * time.Second)
	if r := c.do(2, &session.Request{Kind: session.Get, ID: id}); r.Status != session.NotFound {
		t.Errorf("what was deleted is back: %+v", r.Record)
	}
	if n := c.nodes[3].store.Unsettled(); n != 0 {
		t.Errorf("%d records are still offered", n)
	}
}

// Who has told the owner what it acknowledged asks it for the session, though other
// copies have still to hear of that.
func TestNode_whatIsStillOfferedIsServedByItsOwner(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	c.change(0, func(s *ring.SlotState) { s.InSync = c.holders(1, 2) })
	id := c.create(0, attr("a", `"1"`))
	changed, _ := session.Apply(c.record(1, 0, id), set(id, "a", `"2"`),
		session.Env{MaxSize: 1 << 20, Gen: session.Gen{Re: 1, Detach: 1, Num: 3}, Stamp: session.Stamp{HLC: 1 << 62, Num: 3}})
	c.between(true, []number{1}, []number{2})
	c.detach(1, 1, 3)
	c.nodes[3].markUnsettled(c.nodes[3].store.Put(0, changed.Next, c.now.Mono, 0, time.Hour), c.now.Mono)
	for range 3 {
		r := c.wantOK(c.do(3, &session.Request{Kind: session.Get, ID: id}))
		if got := string(r.Record.Attr("a").Value); got != `"2"` {
			t.Errorf("it shows %s", got)
		}
	}
	c.wantOK(c.do(3, set(id, "a", `"3"`)))
	if n := c.nodes[3].store.Unsettled(); n != 1 {
		t.Errorf("%d records are offered", n)
	}
	c.between(false, []number{1}, []number{2})
	c.lead[1] = true
	c.run(3 * time.Second)
	if n := c.nodes[3].store.Unsettled(); n != 0 {
		t.Errorf("%d records are still offered", n)
	}
	if got := c.value(2, 0, id, "a"); got != `"3"` {
		t.Errorf("the copy holds %s", got)
	}
}

// A merge is no use: the copies end the session when its owner would.
func TestNode_mergeProlongsNothing(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	c.change(0, func(s *ring.SlotState) { s.InSync = c.holders(1, 2) })
	id := c.brief(0)
	changed, _ := session.Apply(c.record(1, 0, id), set(id, "a", `"2"`),
		session.Env{MaxSize: 1 << 20, Gen: session.Gen{Re: 1, Detach: 1, Num: 3}, Stamp: session.Stamp{HLC: 1, Num: 3}})
	c.run(40 * time.Second)
	c.nodes[3].markUnsettled(c.nodes[3].store.Put(0, changed.Next, c.now.Mono, 40*time.Second, 25*time.Second), c.now.Mono)
	c.run(time.Second)
	if got := c.value(2, 0, id, "a"); got != `"2"` {
		t.Fatalf("the copy holds %s", got)
	}
	if off := c.behind(2, 0, id); off < -time.Second || off > 0 {
		t.Errorf("the copy ends it %v later than the owner", -off)
	}
	if left := time.Duration(c.nodes[1].store.Get(0, id).Deadline - c.now.Mono); left < 23*time.Second || left > 25*time.Second {
		t.Errorf("after the merge %v are left", left)
	}
}

// What a member kept to itself for longer than deletions are remembered is not
// offered.
func TestNode_whatIsTooOldIsNotOffered(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		age  time.Duration // when it is back; deletions are remembered for 2 h
		want session.Status
	}{
		"young": {time.Hour, session.OK},
		"old":   {3 * time.Hour, session.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, false)
			c.change(0, func(s *ring.SlotState) { s.InSync = c.holders(1, 2) })
			id := c.create(0)
			old := c.record(1, 0, id)
			for at := number(1); at <= 2; at++ {
				c.nodes[at].store.Clear(0) // it was deleted, and that is forgotten
			}
			c.between(true, []number{3}, []number{1, 2})
			c.detach(3, 3)
			n := c.nodes[3]
			n.markUnsettled(n.store.Put(0, old, c.now.Mono, 0, time.Hour), c.now.Mono-int64(tc.age))
			c.between(false, []number{3}, []number{1, 2})
			c.lead[3] = true
			c.run(2 * time.Second)
			if r := c.do(3, &session.Request{Kind: session.Get, ID: id}); r.Status != tc.want {
				t.Errorf("status %d, %+v", r.Status, r.Record)
			}
			if k := n.store.Unsettled(); k != 0 {
				t.Errorf("%d records are still offered", k)
			}
		})
	}
}

// A write counts from when it began: its member may have slept since then.
func TestNode_unsettledSinceTheWriteBegan(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(0)
	c.cut[[2]number{1, 3}] = true
	began := c.now.Mono
	c.wantOK(c.do(1, incr(id)))
	n := c.nodes[1]
	if len(n.unsettled) != 1 || c.now.Mono == began {
		t.Fatalf("%d writes are unsettled %v after their beginning", len(n.unsettled), time.Duration(c.now.Mono-began))
	}
	if off := time.Duration(n.unsettled[0].since - began); off != 0 {
		t.Errorf("it is taken for %v younger than it is", off)
	}
}
