package replicate

import (
	"fmt"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/session"
)

// The copies hear of a use when it moves the deadline further than a new owner makes
// good for, not of those soon after it; with very many sessions in use, of a bounded
// number at a time.
func TestNode_touchBatches(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		sessions int
		batches  []int
	}{
		"few":  {50, []int{50}},
		"many": {2*maxTouches + 100, []int{maxTouches, maxTouches, 100}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, false)
			n := c.nodes[1]
			var got []int
			var entries []*session.Entry
			for i := range tc.sessions {
				rec := &session.Record{ID: session.ID(fmt.Sprint("s", i)), Ver: 1, Gen: session.Gen{Re: c.table.Slots[0].Re}, TTL: 30 * time.Minute}
				for at := number(1); at <= 3; at++ {
					if e := c.nodes[at].store.Put(0, rec, c.now.Mono, 0, rec.TTL); at == 1 {
						entries = append(entries, e)
					}
				}
			}
			c.seen = func(e envelope) {
				if m, ok := e.msg.(*Touch); ok && e.to.Num == 3 {
					got = append(got, len(m.Items))
				}
			}
			c.run(time.Second)
			for _, after := range []struct {
				wait time.Duration
				told bool
			}{
				{0, true}, {10 * time.Second, false}, {n.p.TouchEvery - 13*time.Second, false}, {2 * time.Second, true}, {n.p.TouchEvery - time.Second, false},
			} {
				c.run(after.wait)
				got = nil
				c.step(1, func(n *Node, out *Out) {
					n.begin(c.now, out)
					for _, e := range entries {
						n.used(e, c.now.Mono, 0)
					}
					n.end()
				})
				c.run(time.Second)
				var want []int
				if after.told {
					want = tc.batches
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("uses %v after the ones before were told of in batches of %v, want %v", after.wait, got, want)
				}
				for _, mine := range entries {
					copied := c.nodes[3].store.Get(0, mine.Rec.ID)
					if off := time.Duration(mine.Deadline - copied.Deadline); off > n.p.TouchEvery || after.told && off.Abs() > 250*time.Millisecond {
						t.Fatalf("%s: the copy's deadline is %v off", mine.Rec.ID, off)
					}
				}
			}
		})
	}
}
