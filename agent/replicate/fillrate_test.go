package replicate

import (
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/session"
)

// slowFill makes filling slow enough to look at: 20 records of 1 KiB a second.
func (c *trio) slowFill() {
	for _, n := range c.nodes {
		n.p.BulkRate, n.p.BulkWindow = 32<<10, 8<<10
	}
}

const fillRate = 32<<10 + 8<<10 + 2<<10 // of one second: the window may be full when it begins, and the last record exceed it

// bytesTo counts what members get of whole records beside writes.
func (c *trio) bytesTo(num number) *int64 {
	sum := new(int64)
	c.seen = func(e envelope) {
		if m, ok := e.msg.(*Replicate); ok && e.to.Num == num {
			for _, u := range m.Updates {
				if u.Full != nil {
					*sum += recordSize(u.Full)
				}
			}
		}
	}
	return sum
}

func (c *trio) kilobytes(n int) (ids []session.ID) {
	for range n {
		ids = append(ids, c.create(0, attr("a", string(make([]byte, 1<<10)))))
	}
	return ids
}

// TestNode_fillingHasARateAndAProgress: a copy is restored at a bounded rate,
// writes do not wait for it, and what is left is told.
func TestNode_fillingHasARateAndAProgress(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	c.slowFill()
	ids := c.kilobytes(200)
	c.nodes[3].store.Clear(0)
	c.learn(0, 3)
	n := c.nodes[1]
	if left := n.fillLeft(0); left != len(ids) {
		t.Errorf("%d records are left before the learner has said what it holds", left)
	}
	sum := c.bytesTo(3)
	before, seconds := len(ids), 0
	for ; n.Stats.Filled < uint64(len(ids)); seconds++ {
		if seconds > 30 {
			t.Fatalf("%d records confirmed after %d seconds, %d left", n.Stats.Filled, seconds, n.fillLeft(0))
		}
		*sum = 0
		c.run(time.Second)
		if *sum > fillRate {
			t.Errorf("%d bytes in a second", *sum)
		}
		left := n.fillLeft(0)
		if left > before || left+int(n.Stats.Filled) != len(ids) {
			t.Errorf("%d left after %d, %d confirmed", left, before, n.Stats.Filled)
		}
		before = left
		began := c.now.Mono
		c.wantOK(c.do(1, incr(c.create(1))))
		if took := time.Duration(c.now.Mono - began); took > 100*time.Millisecond {
			t.Errorf("a write took %v meanwhile", took)
		}
	}
	if seconds < 5 {
		t.Errorf("all was there within %d seconds", seconds)
	}
	if n.fillLeft(0) != 0 || n.Stats.FilledBytes < 200<<10 {
		t.Errorf("%d left, %d bytes", n.fillLeft(0), n.Stats.FilledBytes)
	}
}

// TestNode_catchingUpHasARate: what a copy lacks after degraded writes goes to it
// at the same rate.
func TestNode_catchingUpHasARate(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	c.slowFill()
	c.between(true, []number{1}, []number{3})
	ids := c.kilobytes(100)
	if behind := len(c.nodes[1].slots[0].lag); behind != len(ids) {
		t.Fatalf("%d of %d lag behind", behind, len(ids))
	}
	c.between(false, []number{1}, []number{3})
	sum := c.bytesTo(3)
	seconds := 0
	for ; len(c.nodes[1].slots[0].lag) > 0; seconds++ {
		if seconds > 30 {
			t.Fatalf("%d lag behind after %d seconds", len(c.nodes[1].slots[0].lag), seconds)
		}
		*sum = 0
		c.run(time.Second)
		if *sum > fillRate {
			t.Errorf("%d bytes in a second", *sum)
		}
	}
	if seconds < 3 {
		t.Errorf("all had caught up within %d seconds", seconds)
	}
	for _, id := range ids {
		if c.record(3, 0, id) == nil {
			t.Fatal("a record is missing")
		}
	}
}
