package replicate

import (
	"fmt"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// made is a session's record as somebody else committed it.
func made(t *testing.T, id session.ID, gen session.Gen, value string) *session.Record {
	t.Helper()
	ch, resp := session.Apply(nil,
		&session.Request{Kind: session.Create, ID: id, TTL: time.Hour, Attrs: []session.Attr{attr("a", value)}},
		session.Env{MaxSize: 1 << 20, Gen: gen, Stamp: session.Stamp{HLC: 1, Num: 1}})
	if ch == nil {
		t.Fatalf("%+v", resp)
	}
	return ch.Next
}

func TestNode_newOwnerFetchesEachRecordOnce(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]bool{"serve": false, "refuse": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const many = 640
			c := newTrio(t, refuse)
			for i := range many {
				rec := made(t, c.mint(0), session.Gen{Re: 1}, fmt.Sprint(i))
				for _, num := range []number{1, 3} {
					c.nodes[num].store.Put(0, rec, c.now.Mono, 0, time.Hour)
				}
			}
			fetched, commits := 0, 0
			c.seen = func(e envelope) {
				switch m := e.msg.(type) {
				case *Records:
					fetched += len(m.Updates)
				case *Replicate:
					commits++
				}
			}
			c.change(0, func(s *ring.SlotState) { s.Owner = 2 })
			c.run(100 * time.Millisecond)
			if !c.nodes[2].open(0) || c.nodes[2].store.Count(0) != many {
				t.Fatalf("open %v with %d records", c.nodes[2].open(0), c.nodes[2].store.Count(0))
			}
			most := many
			if !refuse {
				most = 2 * many // all copies are merged
			}
			if fetched != most || commits != 2*many {
				t.Errorf("%d records fetched, %d sent to be stored", fetched, commits)
			}
		})
	}
}

func TestNode_newOwnerSendsItsRecordsBitByBit(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	for i := range 3 * commitsAtOnce {
		c.nodes[2].store.Put(0, made(t, c.mint(0), session.Gen{Re: 1}, fmt.Sprint(i)), c.now.Mono, 0, time.Hour)
	}
	flying, most := 0, 0
	c.lose = func(e envelope) bool {
		switch e.msg.(type) {
		case *Replicate:
			flying++
			most = max(most, flying)
		case *Ack:
			flying--
		}
		return false
	}
	c.change(0, func(s *ring.SlotState) { s.Owner = 2 })
	c.run(100 * time.Millisecond)
	if !c.nodes[2].open(0) || c.nodes[3].store.Count(0) != 3*commitsAtOnce {
		t.Fatalf("open %v, %d records at a copy", c.nodes[2].open(0), c.nodes[3].store.Count(0))
	}
	if most > 2*commitsAtOnce {
		t.Errorf("%d records were on their way to two copies", most)
	}
}

func TestNode_writeThatMayHaveHappenedIsNotRefused(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.create(0)
	c.cut[[2]number{1, 3}] = true
	h := c.start(1, incr(id))
	c.run(50 * time.Millisecond)
	// The next owner has the write and cannot take others: it says 503.
	c.change(0, func(s *ring.SlotState) { s.Owner, s.InSync = 2, c.holders(2) })
	c.run(3 * time.Second)
	if c.value(2, 0, id, "n") != "1" {
		t.Fatal("the write did not happen: this tests nothing")
	}
	if r := c.done[h]; r == nil || r.Status != session.UnknownEnd {
		t.Errorf("answer %+v", r)
	}
}

func TestNode_slotHandedOverTellsItsUsesAtOnce(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	mine := func(h ring.Slot) bool { return h%3 == 0 }
	var ids []session.ID
	for h := ring.Slot(0); h < ring.Slots; h += 3 {
		ids = append(ids, c.create(h))
	}
	c.run(time.Second)
	for _, id := range ids[1:] {
		c.wantOK(c.do(1, &session.Request{Kind: session.Touch, ID: id}))
	}
	used := len(ids) - 1
	messages, items := 0, 0
	c.seen = func(e envelope) {
		if m, ok := e.msg.(*Touch); ok && e.from.Num == 1 && e.to.Num == 2 {
			messages++
			items += len(m.Items)
		}
	}
	c.changeAll(mine, func(s *ring.SlotState) { s.Owner = 2 })
	c.run(0)
	if messages != 1 || items != used {
		t.Errorf("%d messages tell of %d uses, there were %d", messages, items, used)
	}
}
