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
	c.nodes[3].markUnsettled(c.nodes[3].store.Put(0, ended.Next, c.now.Mono, 0, time.Hour))
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
