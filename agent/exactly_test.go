package agent_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/agenttest"
	"github.com/rondel-project/rondel/api"
)

// countEvery adds 1 to the session's number until end, through any agent, each
// time under a key of its own and again until that is acknowledged: the number
// must be one more each time. Less would be a lost write, more one made twice.
func (w *watch) countEvery(every time.Duration) {
	w.again(every, func(int) (wrong bool) {
		n := w.acked.Load() + 1
		a := tries(w.c, 20*time.Second, func(m *agenttest.Member) agenttest.Answer {
			return m.Incr(w.id, "n", 1, "Idempotency-Key", fmt.Sprint("count-", n))
		})
		if got, _ := a.Value.Int64(); !a.OK() || got != n {
			w.t.Errorf("after %d times 1, one more: %s", n-1, a)
			return true
		}
		w.acked.Store(n)
		return false
	})
}

// counters are sessions in use, whose numbers must come out exactly.
func counters(t *testing.T, c *agenttest.Cluster, name string, n int) []*watch {
	t.Helper()
	return inUse(t, c, name, n, (*watch).countEvery)
}

// goOn waits until each counter was increased so many times more.
func goOn(c *agenttest.Cluster, list []*watch, times int64) (took time.Duration) {
	from := make([]int64, len(list))
	for i, w := range list {
		from[i] = w.acked.Load()
	}
	return c.Await(fmt.Sprint("each session is written to ", times, " times"), 30*time.Second, func() bool {
		for i, w := range list {
			if w.acked.Load() < from[i]+times {
				return false
			}
		}
		return true
	})
}

// exact ends the counters: every agent answers what was acknowledged, no more
// and no less, and the copies are the same.
func exact(t *testing.T, c *agenttest.Cluster, list []*watch, copies int) {
	t.Helper()
	for _, w := range list {
		w.end()
	}
	for _, w := range list {
		want := strconv.FormatInt(w.acked.Load(), 10)
		for _, m := range c.Members() {
			var a agenttest.Answer
			c.Await("an answer of "+m.Name, 5*time.Second, func() bool { a = m.Read(w.id); return a.Status != 503 })
			if a.Attr("n") != want {
				t.Errorf("%s answers %s where 1 was added %s times", m.Name, a, want)
			}
		}
		w.copies(copies)
	}
}

// An owner and the first that holds its copies die at the same moment: the third
// copy has all that was acknowledged, and nothing is made twice.
func TestFailover_ownerAndSuccessorDieTogether(t *testing.T) {
	for mode, leads := range map[string]bool{"serve": false, "refuse": true} {
		t.Run(fmt.Sprint(mode, ", owner leads: ", leads), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				// Of seven members five vote: two may be missing.
				c := agenttest.NewCluster(t, 7, inMode(mode)...)
				lead := c.Leader()
				c.Await("five vote", time.Minute, func() bool {
					voters := 0
					for _, s := range c.Member(lead).Servers().Servers {
						if s.Voter {
							voters++
						}
					}
					return voters == 5
				})
				owner := lead
				if !leads {
					owner = c.Other(lead).Name
				}
				list := counters(t, c, owner, 4)
				goOn(c, list, 10)
				next := c.Member(owner).Locate(list[0].id).Successors[0]
				c.Crash(owner)
				c.Crash(next)
				t.Logf("%s and %s died: every session was written to 10 times more within %v", owner, next, goOn(c, list, 10))
				c.WaitHealthy(time.Minute)
				exact(t, c, list, 3)
			})
		})
	}
}

// A link that loses all that goes one way marks nobody down and loses nothing,
// whichever it is; nor does anybody ever see what was true before.
func TestPartition_oneWayLinks(t *testing.T) {
	for _, mode := range []string{"serve", "refuse"} {
		t.Run(mode, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := agenttest.NewCluster(t, 3, inMode(mode)...)
				lead := c.Leader()
				owner := c.Other(lead).Name
				third := c.Other(lead, owner).Name
				list := counters(t, c, owner, 2)
				for _, link := range [][2]string{{owner, third}, {third, owner}, {owner, lead}, {lead, owner}, {lead, third}, {third, lead}} {
					c.CutOneWay(link[0], link[1])
					took := goOn(c, list, 1)
					time.Sleep(4 * time.Second)
					goOn(c, list, 10)
					for _, m := range c.Members() {
						if i := slices.IndexFunc(m.Ring().Members, func(r api.RingMember) bool { return r.State != "up" }); i >= 0 {
							t.Errorf("%s hears nothing from %s, and %s sees %+v", link[1], link[0], m.Name, m.Ring().Members[i])
						}
					}
					c.Heal()
					c.WaitHealthy(30 * time.Second)
					t.Logf("nothing from %s to %s: the next write after %v", link[0], link[1], took)
				}
				exact(t, c, list, 3)
			})
		})
	}
}

// Members stop and start one after the other, each as soon as the one before
// says by /v1/health/agent that all is well: clients who ask another agent where
// one is gone notice nothing, and everything is there in the end.
func TestStop_rollingRestart(t *testing.T) {
	for _, mode := range []string{"serve", "refuse"} {
		for how, end := range map[string]func(*agenttest.Cluster, string){
			"stopped": (*agenttest.Cluster).Stop, "killed": (*agenttest.Cluster).Crash,
		} {
			if mode == "serve" && how == "killed" {
				continue // the simulation and refuse mode, which is stricter, have that
			}
			t.Run(mode+", "+how, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					c := agenttest.NewCluster(t, 3, append(inMode(mode), agenttest.OnDisk(t.TempDir()))...)
					var list []*watch
					for _, name := range c.Names() {
						list = append(list, counters(t, c, name, 1)...)
					}
					ids := sessions(t, c, 60)
					for _, name := range c.Names() {
						end(c, name)
						m := c.Restart(name, true)
						took := c.Await(name+" says that all is well", time.Minute, func() bool { return m.Get("/v1/health/agent").OK() })
						t.Logf("%s is back after %v", name, took)
					}
					goOn(c, list, 5)
					exact(t, c, list, 3)
					allThere(t, c, ids)
				})
			})
		}
	}
}
