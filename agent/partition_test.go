package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/agenttest"
	"github.com/rondel-project/rondel/api"
)

// sides splits five members into three with the quorum of the voters, and two
// without; the leader is with these if leaderCutOff.
func sides(c *agenttest.Cluster, leaderCutOff bool) (three, two []string) {
	lead := c.Leader()
	var voters, others []string
	for _, s := range c.Member(lead).Servers().Servers {
		switch {
		case s.Node == lead:
		case s.Voter:
			voters = append(voters, s.Node)
		default:
			others = append(others, s.Node)
		}
	}
	if leaderCutOff {
		return append(voters, others[1:]...), []string{lead, others[0]}
	}
	return append([]string{lead}, append(voters[1:], others[1:]...)...), []string{voters[0], others[0]}
}

func TestPartition_refuse(t *testing.T) {
	for _, leaderCutOff := range []bool{false, true} {
		t.Run(fmt.Sprint("leader cut off: ", leaderCutOff), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := agenttest.NewCluster(t, 5, agenttest.Expect(5), agenttest.Refuse())
				three, two := sides(c, leaderCutOff)
				watches := manySessions(t, c, 20)
				c.Cut(two...)
				// While leases last, either side may still write; what is
				// acknowledged counts.
				for i := range 40 {
					for _, name := range two {
						w := watches[i%len(watches)]
						n := w.sent.Add(1)
						if a := c.Member(name).Patch(w.id, attrs{"n": n}); a.OK() {
							w.acked.Store(n)
						}
					}
				}
				time.Sleep(4 * time.Second)
				var asked sync.WaitGroup
				for _, name := range two {
					m := c.Member(name)
					for _, w := range watches {
						asked.Go(func() {
							if a := m.Patch(w.id, attrs{"n": w.sent.Add(1)}); a.Status != 503 && a.Status != 504 {
								t.Errorf("%s, cut off, answers a write with %s", name, a)
							}
							if a := m.Read(w.id); a.Status != 503 {
								t.Errorf("%s, cut off, answers a read with %s", name, a)
							}
						})
					}
				}
				asked.Wait()
				for _, w := range watches {
					n := w.sent.Add(1)
					a := c.Member(three[0]).Patch(w.id, attrs{"n": n})
					if !a.OK() {
						t.Errorf("%s, with the majority, answers a write with %s", three[0], a)
						continue
					}
					w.acked.Store(n)
				}
				c.Heal()
				c.WaitHealthy(time.Minute)
				for _, w := range watches {
					w.value(5 * time.Second)
					w.copies(3)
				}
			})
		})
	}
}

func TestPartition_serveMerges(t *testing.T) {
	for _, leaderCutOff := range []bool{false, true} {
		t.Run(fmt.Sprint("leader cut off: ", leaderCutOff), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := agenttest.NewCluster(t, 5, agenttest.Expect(5))
				three, two := sides(c, leaderCutOff)
				watches := manySessions(t, c, 15)
				c.Cut(two...)
				here, there := c.Member(three[1]), c.Member(two[0])
				// Gossip finds them in some 2 s; with a new leader, an election comes first.
				t.Logf("the other side is down after %v", c.Await("the majority has the other side down", 8*time.Second, func() bool {
					return !slices.ContainsFunc(here.Ring().Members, func(m api.RingMember) bool {
						return m.State == "up" && slices.Contains(two, m.Name)
					})
				}))
				var lost []string
				defer func() { t.Log(strings.Join(lost, "\n")) }()
				onHere, onThere := map[string]bool{}, map[string]bool{}
				for i, w := range watches {
					if a := here.Patch(w.id, attrs{"here": i}); !a.OK() {
						t.Errorf("%s, with the majority, answers the write %d with %s: %+v", here.Name, i, a, here.Locate(w.id))
						t.Logf("%v | %v: %+v", three, two, here.Ring())
						continue
					}
					onHere[w.id] = true
					switch a := there.Patch(w.id, attrs{"there": i}); {
					case a.OK():
						onThere[w.id] = true
					case a.Status != 503 && a.Status != 504:
						t.Errorf("%s answers %s, it may be that it has no copy, not that there is none", there.Name, a)
					}
				}
				if len(onThere) == 0 {
					t.Errorf("the smaller side served nothing")
				}
				made := ok(t, "create on the smaller side", there.Create(attrs{"there": "new"}, ""))
				ok(t, "read it there", there.Read(made.ID))
				c.Heal()
				c.WaitHealthy(time.Minute)
				c.Await("the session made apart is known to all", time.Minute, func() bool {
					for _, m := range c.Members() {
						if m.Read(made.ID).Attr("there") != `"new"` {
							return false
						}
					}
					return true
				})
				c.Await("the sides have merged", time.Minute, func() bool {
					lost = lost[:0]
					for i, w := range watches {
						a := here.Read(w.id)
						if onHere[w.id] && a.Attr("here") != fmt.Sprint(i) || onThere[w.id] && a.Attr("there") != fmt.Sprint(i) {
							lost = append(lost, fmt.Sprintf("session %d, written at %s and %v at %s: %s", i, here.Name, onThere[w.id], there.Name, a))
						}
					}
					return len(lost) == 0
				})
				for _, w := range watches {
					w.value(time.Second)
					w.copies(3)
				}
				t.Logf("the smaller side wrote %d of %d", len(onThere), len(watches))
			})
		})
	}
}

// A broken link between two members marks nobody down; requests go around it.
func TestPartition_singleLink(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		owner := c.Other(c.Leader()).Name
		other := c.Other(c.Leader(), owner).Name
		w := ownedBy(t, c, owner)
		c.CutLink(owner, other)
		for range 20 {
			w.write(5 * time.Second)
			if a := c.Member(other).Read(w.id); a.Status == 404 {
				t.Errorf("%s answers %s", other, a)
			}
			time.Sleep(200 * time.Millisecond)
		}
		ok(t, "read around the broken link", c.Member(other).Read(w.id))
		for _, m := range c.Members() {
			for _, r := range m.Ring().Members {
				if r.State != "up" {
					t.Errorf("%s sees %s %s", m.Name, r.Name, r.State)
				}
			}
		}
		c.Heal()
		c.WaitHealthy(time.Minute)
		w.value(time.Second)
		w.copies(3)
	})
}

func TestPartition_slowMember(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		slow := c.Other(c.Leader()).Name
		w := ownedBy(t, c, c.Other(slow).Name)
		w.poll(10 * time.Millisecond)
		c.Slow(slow, 40*time.Millisecond)
		for range 50 {
			w.write(5 * time.Second)
		}
		c.Heal()
		c.WaitHealthy(time.Minute)
		w.value(time.Second)
		if failed, why := w.end(); failed > 0 {
			t.Errorf("%d reads failed: %s", failed, why)
		}
	})
}
