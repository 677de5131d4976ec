package replicate

import (
	"fmt"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/session"
)

// With very many sessions in use their copies hear of a bounded number at a time, each
// within the time that it has; with few of them, of all together.
func TestNode_touchBatchesAreBounded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		first, second int // sessions, used 10 s apart
		batches       []int
	}{
		"few":  {20, 30, []int{50}},
		"many": {maxTouches + 100, 200, []int{maxTouches, 300}},
		"more": {100, 2 * maxTouches, []int{maxTouches, maxTouches, 100}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, false)
			n := c.nodes[1]
			var got []int
			var entries []*session.Entry
			for i := range tc.first + tc.second {
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
			use := func(list []*session.Entry) {
				c.step(1, func(n *Node, out *Out) {
					n.begin(c.now, out)
					for _, e := range list {
						n.touch(e, c.now.Mono)
					}
					n.end()
				})
				c.run(10 * time.Second)
			}
			c.run(time.Second)
			use(entries[:tc.first])
			use(entries[tc.first:])
			if len(got) > 0 {
				t.Errorf("%v were told of after 20 s", got)
			}
			c.run(n.p.TouchEvery - 9*time.Second)
			if fmt.Sprint(got) != fmt.Sprint(tc.batches) {
				t.Errorf("batches of %v, want %v", got, tc.batches)
			}
			for _, mine := range entries {
				copied := c.nodes[3].store.Get(0, mine.Rec.ID)
				if off := time.Duration(mine.Deadline - copied.Deadline); mine.Touched || off.Abs() > 250*time.Millisecond {
					t.Fatalf("%s: the copy's deadline is %v off", mine.Rec.ID, off)
				}
			}
		})
	}
}
