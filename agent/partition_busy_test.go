package agent_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/agenttest"
)

// The leader is cut off with one more voter: it keeps its quorum, and the three
// others work on detached, without any pause. What they acknowledge is not lost
// when the network is whole again, whichever request reaches an owner first.
func TestPartition_busyMajorityWithoutQuorum(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 5)
		lead := c.Leader()
		two := []string{lead}
		var three []*agenttest.Member
		for _, s := range c.Member(lead).Servers().Servers {
			if s.Node != lead && s.Voter && len(two) == 1 {
				two = append(two, s.Node)
			}
		}
		for _, m := range c.Members() {
			if m.Name != two[0] && m.Name != two[1] {
				three = append(three, m)
			}
		}
		watches := manySessions(t, c, 20)
		stop := make(chan struct{})
		var work sync.WaitGroup
		var acked atomic.Int64
		for i, w := range watches {
			work.Go(func() {
				for n := 1; ; n++ {
					key := fmt.Sprintf("w%d-%d", i, n)
					for {
						select {
						case <-stop:
							return
						case <-time.After(40 * time.Millisecond):
						}
						m := three[rand.IntN(len(three))]
						a := m.Incr(w.id, "n", 1, "Idempotency-Key", key)
						if a.OK() {
							// An answer that is no number counts as 0.
							got, _ := strconv.ParseInt(a.Value.String(), 10, 64)
							if got != w.acked.Load()+1 {
								t.Errorf("session %d %.16s: %d after %d at %s %v", i, w.id, got, w.acked.Load(), m.Name, c.Member(m.Name).Locate(w.id))
							}
							w.acked.Store(got)
							acked.Add(1)
							break
						}
					}
				}
			})
		}
		time.Sleep(time.Second)
		c.Cut(two...)
		time.Sleep(8 * time.Second)
		before := acked.Load()
		c.Heal()
		time.Sleep(3 * time.Second)
		c.WaitHealthy(time.Minute)
		close(stop)
		work.Wait()
		t.Logf("%d writes, %d of them before the network was whole again", acked.Load(), before)
		for _, w := range watches {
			w.value(5 * time.Second)
		}
	})
}
