package replicate

import (
	"fmt"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/session"
)

func TestNode_usesThroughManyAgentsDoNotAddUp(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(0)
	const late = 10 * time.Second // an agent tells of uses only so often
	for range 30 {
		for i := number(1); i <= 3; i++ {
			c.wantOK(c.do(i, &session.Request{Kind: session.Touch, ID: id, TTL: late}))
		}
		c.run(late)
	}
	r := c.wantOK(c.do(1, &session.Request{Kind: session.Get, ID: id}))
	if r.Left > 30*time.Minute+late || r.Left < 30*time.Minute-late {
		t.Errorf("after 5 minutes of use %v are left of 30m", r.Left)
	}
}

func TestNode_writeBringsTheEndNoNearer(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(0)
	c.wantOK(c.do(1, &session.Request{Kind: session.Touch, ID: id, TTL: 10 * time.Second}))
	before := c.wantOK(c.do(1, &session.Request{Kind: session.Get, ID: id})).Left
	c.run(time.Second)
	c.wantOK(c.do(1, set(id, "a", "1")))
	if after := c.wantOK(c.do(1, &session.Request{Kind: session.Get, ID: id})).Left; after < before-time.Second {
		t.Errorf("%v were left, a second and a write later %v", before, after)
	}
}

func TestNode_usesWaitForTheBatchOnItsWay(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	var ids []session.ID
	for range 20 {
		ids = append(ids, c.create(0))
	}
	c.cut[[2]number{3, 1}] = true // no acknowledgement comes back
	largest := 0
	c.seen = func(e envelope) {
		if m, ok := e.msg.(*Touch); ok && e.to.Num == 3 {
			largest = max(largest, len(m.Items))
		}
	}
	for _, id := range ids {
		c.step(1, func(n *Node, out *Out) { n.Use(c.now, 0, id, 0, out) })
		c.run(31 * time.Second)
	}
	if largest != 1 {
		t.Errorf("a batch of %d was sent, and will be again", largest)
	}
	clear(c.cut)
	c.run(2 * time.Second)
	for _, id := range ids {
		a, b := c.nodes[1].store.Get(0, id), c.nodes[3].store.Get(0, id)
		if off := time.Duration(a.Deadline - b.Deadline); off.Abs() > 250*time.Millisecond {
			t.Errorf("a copy's deadline is %v off", off)
		}
	}
}

func TestNode_copiesForgetOldOperations(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(0)
	for range 100 {
		c.wantOK(c.do(1, incr(id)))
	}
	c.run(11 * time.Minute)
	for i := number(1); i <= 3; i++ {
		if n := len(c.record(i, 0, id).Ops); n > 0 {
			t.Errorf("member %d remembers %d operations", i, n)
		}
	}
}

func TestNode_removedAttributesDoNotPileUp(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(0)
	for i := range 400 {
		name := fmt.Sprint("name", i)
		c.wantOK(c.do(1, set(id, name, "1")))
		c.wantOK(c.do(1, &session.Request{Kind: session.DelAttr, ID: id, Name: name}))
	}
	for i := number(1); i <= 3; i++ {
		if n := len(c.record(i, 0, id).Attrs); n > 130 {
			t.Errorf("member %d keeps %d attributes that are gone", i, n)
		}
	}
}

func TestNode_repeatedCreationIsAnsweredWhole(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	req := &session.Request{Kind: session.Create, ID: c.mint(0), Op: session.OpID{7}}
	c.wantOK(c.do(2, req))
	r := c.wantOK(c.do(2, req))
	if !r.Replay || r.Record == nil || r.Left <= 0 {
		t.Errorf("record %v, left %v", r.Record, r.Left)
	}
}

func TestNode_creationTellsTheNearerDeadline(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	req := &session.Request{Kind: session.Create, ID: c.mint(0), TTL: time.Hour, MaxAge: time.Minute}
	if r := c.wantOK(c.do(2, req)); r.Left <= 0 || r.Left > time.Minute {
		t.Errorf("of a session that lives a minute %v are left", r.Left)
	}
}
