package replicate

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/session"
)

// TestNode_partitionsLeaveNoDifferencesToCount: what members did apart from each
// other is brought together, and is neither a bug nor damage.
func TestNode_partitionsLeaveNoDifferencesToCount(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 7))
			c := newTrio(t, false)
			for _, n := range c.nodes {
				n.p.Repair = 200 * time.Millisecond
			}
			var ids []session.ID
			for range 6 {
				ids = append(ids, c.create(0, attr("a", "0")))
			}
			loss := 0.0
			c.lose = func(envelope) bool { return rng.Float64() < loss }
			for round := range 20 {
				loss = rng.Float64() * rng.Float64()
				clear(c.cut)
				a, b := number(rng.IntN(3)+1), number(rng.IntN(3)+1)
				c.cut[[2]number{a, b}] = true
				c.cut[[2]number{b, a}] = rng.IntN(2) == 0
				for i := number(1); i <= 3; i++ {
					c.lead[i] = rng.IntN(4) > 0
				}
				for range 20 {
					id := ids[rng.IntN(len(ids))]
					at := number(rng.IntN(3) + 1)
					switch rng.IntN(3) {
					case 0:
						c.start(at, incr(id))
					case 1:
						c.start(at, set(id, fmt.Sprint("b", rng.IntN(3)), fmt.Sprint(round)))
					case 2:
						c.start(at, set(id, "a", fmt.Sprint(round)))
					}
					c.run(time.Duration(rng.IntN(150)) * time.Millisecond)
				}
			}
			if c.nodes[1].Stats.Degraded == 0 || c.nodes[1].Stats.MergeConflicts == 0 {
				t.Error("nothing was done apart")
			}
			for num, n := range c.nodes {
				if n.Stats.Divergence > 0 {
					t.Errorf("member %d counts %d differences", num, n.Stats.Divergence)
				}
			}
		})
	}
}

// TestNode_whatIsOfferedIsNoDifference: a copy that has merged the owner's record
// with what it did without it says so until the owner has that.
func TestNode_whatIsOfferedIsNoDifference(t *testing.T) {
	t.Parallel()
	for name, apart := range map[string]bool{"done apart": true, "damaged": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, false)
			id := c.create(0, attr("a", "before"))
			c.spoil(3, 0, id, "after")
			e := c.nodes[3].store.Get(0, id)
			if apart {
				c.nodes[3].markUnsettled(e, c.now.Mono)
				c.nodes[3].offerAt = c.now.Mono // not at once
			}
			c.nodes[1].slots[0].repair = 0
			c.run(100 * time.Millisecond)
			if n := c.nodes[1].Stats.Divergence; (n == 0) != apart {
				t.Errorf("%d differences are counted", n)
			}
			c.run(3 * time.Second)
			if a, b := c.record(1, 0, id).Sum(), c.record(3, 0, id).Sum(); a != b {
				t.Error("it has not come together")
			}
		})
	}
}
