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

// TestNode_answerWithoutWhatWasAskedFor: whoever asked would look into a record
// that is not there.
func TestNode_answerWithoutWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	for name, req := range map[string]session.Request{
		"Get": {Kind: session.Get}, "GetAttr": {Kind: session.GetAttr, Name: "n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, true)
			req.ID = c.create(0, attr("n", "1"))
			c.wantOK(c.do(2, &req))
			c.seen = func(e envelope) {
				if m, ok := e.msg.(*Reply); ok {
					m.Resp.Record, m.Resp.Attr = nil, nil
				}
			}
			if r := c.do(2, &req); r.Status != session.Unavailable {
				t.Errorf("passed on: %+v", r)
			}
		})
	}
}

// TestNode_answerToAFetchIsBounded: by what it would be with the next record.
func TestNode_answerToAFetchIsBounded(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	var ids []session.ID
	for _, size := range []int{100, fetchBytes - 1000, 2000, fetchBytes + 1, 100} {
		c.nodes[1].cfg.Defaults.MaxSize = size + 100
		ids = append(ids, c.create(0, attr("a", string(make([]byte, size)))))
	}
	for _, want := range []int{2, 1, 1, 1} {
		var out Out
		n := c.nodes[1]
		n.Receive(c.now, c.holder(2), c.table.Epoch, &Fetch{SlotRe{0, c.table.Slots[0].Re}, 1, ids}, &out)
		r := out.Sends[0].Msg.(*Records)
		if len(r.Asked) != want || len(r.Updates) != want {
			t.Fatalf("%d of %d asked for, %d records, want %d", len(r.Asked), len(ids), len(r.Updates), want)
		}
		ids = ids[want:]
	}
}
