package replicate

import (
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// TestNode_refusedHereWhileACopyIsOnItsWay: a member that has sent a request to
// the owner and then becomes the owner itself may refuse it, and the copy may
// still arrive when the first one owns the slot again.
func TestNode_refusedHereWhileACopyIsOnItsWay(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.create(0, attr("n", "1"))
	var late []envelope
	c.lose = func(e envelope) bool {
		if _, ok := e.msg.(*Forward); ok {
			late = append(late, e)
			return true
		}
		return false
	}
	h := c.start(2, incr(id))
	c.run(0)
	if len(late) != 1 {
		t.Fatalf("%d copies were sent", len(late))
	}
	// Member 2 owns the slot alone, which is too few for a write.
	c.change(0, func(s *ring.SlotState) { s.Owner, s.InSync = 2, c.holders(2) })
	c.run(500 * time.Millisecond)
	if r := c.done[h]; r != nil && r.Status == session.Unavailable {
		t.Errorf("it was told that nothing is done: %+v", r)
	}
	c.change(0, func(s *ring.SlotState) { s.Owner, s.InSync = 1, c.holders(1, 3) })
	c.lose = nil
	c.queue = append(c.queue, late[0])
	c.run(3 * time.Second)
	if got := c.value(1, 0, id, "n"); got != "2" {
		t.Fatalf("the late copy was not done: %s", got)
	}
	r := c.done[h]
	if r == nil || r.Status == session.Unavailable {
		t.Errorf("the late copy was done, and the answer is %+v", r)
	}
}

func TestNode_refusalOfTheOnlyCopyIsToldAtOnce(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.create(0)
	c.change(0, func(s *ring.SlotState) { s.InSync = c.holders(1) })
	c.run(500 * time.Millisecond)
	for at := number(1); at <= 2; at++ {
		h := c.start(at, incr(id))
		c.run(100 * time.Millisecond)
		if r := c.done[h]; r == nil || r.Status != session.Unavailable {
			t.Errorf("through member %d: %+v", at, r)
		}
	}
}
