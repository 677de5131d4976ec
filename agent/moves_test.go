package agent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/agenttest"
	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/api"
)

// place is a member's place in the ring, as another member shows it.
func place(m *agenttest.Member, name string) api.RingMember {
	for _, r := range m.Ring().Members {
		if r.Name == name {
			return r
		}
	}
	return api.RingMember{}
}

// empty reports whether nothing is left with a member that drains.
func empty(m *agenttest.Member, name string) bool {
	p := place(m, name)
	return p.State == "drained" && p.Slots+p.Owned+p.Copies == 0
}

// drain asks one agent to drain another, or to end that.
func drain(t *testing.T, by *agenttest.Member, name string, on bool) {
	t.Helper()
	ok(t, "drain "+name, by.Do("PUT", fmt.Sprintf("/v1/agent/drain?enable=%v&node=%s", on, name), nil))
}

// unharmed ends the users: none may have seen a failure, or miss anything.
func unharmed(t *testing.T, list []*watch) {
	t.Helper()
	longest := time.Duration(0)
	for _, w := range list {
		if failed, why := w.end(); failed > 0 {
			t.Errorf("%d requests failed: %s", failed, why)
		}
		longest = max(longest, w.longest())
		w.value(time.Second)
	}
	t.Logf("longest time without a read: %v", longest)
}

// sessions makes n sessions through all members, and returns their ids.
func sessions(t *testing.T, c *agenttest.Cluster, n int) (ids []string) {
	t.Helper()
	for i := range n {
		ids = append(ids, ok(t, "create", c.Members()[i%len(c.Members())].Create(attrs{"i": i}, "")).ID)
	}
	return ids
}

// allThere demands that every agent has every session.
func allThere(t *testing.T, c *agenttest.Cluster, ids []string) {
	t.Helper()
	for _, m := range c.Members() {
		for i, id := range ids {
			if got := m.Read(id).Attr("i"); got != fmt.Sprint(i) {
				t.Fatalf("%s reads %q in session %d", m.Name, got, i)
			}
		}
	}
}

func TestDrain_emptiesAMember(t *testing.T) {
	for _, who := range []string{"leader", "follower"} {
		t.Run(who, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := agenttest.NewCluster(t, 4)
				name := c.Leader()
				if who == "follower" {
					name = c.Other(name).Name
				}
				ids := sessions(t, c, 120)
				list := users(t, c, name, 6)
				time.Sleep(time.Second)
				by := c.Other(name)
				drain(t, by, name, true)
				if p := place(by, name); p.State != "draining" || !p.Draining {
					t.Errorf("the agent that was asked shows %+v at once", p)
				}
				c.Await("it knows", 5*time.Second, func() bool { return place(c.Member(name), name).Draining })
				for i := range 20 {
					if a := ok(t, "create", c.Member(name).Create(attrs{"i": i}, "")); a.Owner == name {
						t.Fatalf("a new session is owned by %s, which drains", name)
					}
					time.Sleep(20 * time.Millisecond)
				}
				took := c.Await("nothing is left with it", 3*time.Minute, func() bool { return empty(by, name) })
				t.Logf("the drain took %v", took)
				for _, p := range by.Peers() {
					if p.Draining != (p.Name == name) {
						t.Errorf("members show %s with draining = %v", p.Name, p.Draining)
					}
				}
				time.Sleep(time.Second)
				unharmed(t, list)
				allThere(t, c, ids)
				c.WaitHealthy(time.Minute)
				list[0].copies(3)

				c.Stop(name)
				c.Restart(name, true)
				c.WaitHealthy(time.Minute)
				if p := place(by, name); p.State != "drained" {
					t.Errorf("after a restart it is %+v", p)
				}
				drain(t, c.Member(name), name, false)
				c.Await("it has a share of the slots that nobody uses", 5*time.Minute, func() bool { return place(by, name).Owned > 128 })
				allThere(t, c, ids)
			})
		})
	}
}

func TestDrain_endedHalfWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		name := c.Other(c.Leader()).Name
		ids := sessions(t, c, 150)
		list := users(t, c, name, 2)
		by := c.Other(name)
		drain(t, by, name, true)
		c.Await("half of it has gone", time.Minute, func() bool { return place(by, name).Owned < 200 })
		drain(t, by, name, false)
		c.WaitHealthy(time.Minute)
		if p := place(by, name); p.State != "up" || p.Owned == 0 {
			t.Errorf("after the end of the drain: %+v", p)
		}
		time.Sleep(30 * time.Second)
		unharmed(t, list)
		allThere(t, c, ids)
	})
}

func TestDrain_survivesItsLeader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 5)
		lead := c.Leader()
		name := c.Other(lead).Name
		by := c.Other(name, lead)
		ids := sessions(t, c, 150)
		drain(t, by, name, true)
		c.Await("some of it has gone", time.Minute, func() bool { return place(by, name).Owned < 150 })
		c.Crash(lead)
		c.Await("nothing is left with it", 3*time.Minute, func() bool { return empty(by, name) })
		allThere(t, c, ids)
		c.WaitHealthy(time.Minute)
	})
}

// An agent that is asked while there is no leader asks on until there is one.
func TestDrain_askedDuringAnElection(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 4)
		lead := c.Leader()
		name := c.Other(lead).Name
		by := c.Other(name, lead)
		c.Crash(lead)
		drain(t, by, name, true)
		c.Await("nothing is left with it", 3*time.Minute, func() bool { return empty(by, name) })
	})
}

func TestDrain_twoAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 5)
		ids := sessions(t, c, 150)
		list := append(users(t, c, "m2", 3), users(t, c, "m3", 3)...)
		by := c.Member("m1")
		drain(t, by, "m2", true)
		drain(t, by, "m3", true)
		took := c.Await("nothing is left with both", 3*time.Minute, func() bool { return empty(by, "m2") && empty(by, "m3") })
		t.Logf("both took %v", took)
		unharmed(t, list)
		allThere(t, c, ids)
		c.WaitHealthy(time.Minute)
	})
}

func TestDrain_leavesOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		ids := sessions(t, c, 120)
		by := c.Member("m1")
		drain(t, by, "m2", true)
		drain(t, by, "m3", true)
		if a := by.Do("PUT", "/v1/agent/drain?enable=true", nil); a.Status != 409 || !strings.Contains(a.Error, "m1") {
			t.Errorf("drain of the last one answers %s", a)
		}
		c.Await("all is with the one that stays", 3*time.Minute, func() bool {
			return empty(by, "m2") && empty(by, "m3") && place(by, "m1").Owned == 1024
		})
		allThere(t, c, ids)
		for _, name := range []string{"m2", "m3"} {
			drain(t, by, name, false)
		}
		c.Await("all is in three copies again", 3*time.Minute, func() bool { return place(by, "m2").Copies+place(by, "m2").Owned == 1024 })
		c.WaitHealthy(time.Minute)
		allThere(t, c, ids)
	})
}

func TestDrain_keepsEnoughCopiesToWrite(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3, agenttest.Refuse())
		drain(t, c.Member("m1"), "m2", true)
		if a := c.Member("m1").Do("PUT", "/v1/agent/drain?enable=true&node=m3", nil); a.Status != 409 {
			t.Errorf("a drain after which nothing could be written answers %s", a)
		}
		if a := c.Member("m1").Do("PUT", "/v1/agent/drain?enable=true&node=m9", nil); a.Status != 404 {
			t.Errorf("a drain of nobody answers %s", a)
		}
	})
}

// A new member gets what nobody uses. The rest moves when an operator says so.
func TestRebalance_afterABusyClusterGrew(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		var list []*watch
		owners := map[*watch]string{}
		for _, m := range []string{"m1", "m2", "m3"} {
			for _, w := range users(t, c, m, 1) {
				list = append(list, w)
				owners[w] = m
			}
		}
		c.Add()
		by := c.Member("m1")
		c.Await("the new one has its share", 10*time.Minute, func() bool { return place(by, "m4").Owned == 256 })
		for w, was := range owners {
			if now := c.Owner(w.id); now != was {
				t.Errorf("a session in use moved from %s to %s by itself", was, now)
			}
		}
		a := ok(t, "move", by.Do("PUT", "/v1/ring/move?slots=100&from=m4&to=m1", nil))
		if !strings.Contains(string(a.Raw), `"Moved":100`) {
			t.Errorf("move answers %s", a)
		}
		c.Await("they have moved", time.Minute, func() bool { return place(by, "m4").Owned == 156 && by.Ring().Moving == 0 })
		lead := c.Leader()
		c.Stop(lead)
		c.WaitLeader(10 * time.Second)
		c.Restart(lead, true)
		c.WaitHealthy(time.Minute)
		time.Sleep(time.Minute)
		by = c.Member("m1")
		if p := place(by, "m4"); p.Slots != 156 {
			t.Errorf("what an operator placed was moved back: %+v", p)
		}
		ok(t, "rebalance", by.Do("PUT", "/v1/ring/rebalance", nil))
		c.Await("all have their share", 2*time.Minute, func() bool { r := by.Ring(); return even(r.Members, 4) && r.Moving == 0 })
		for _, w := range list {
			w.end()
			w.value(time.Second)
		}
	})
}

// Moves and rebalances that are agreed go on under another leader.
func TestMove_survivesItsLeader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 4)
		lead := c.Leader()
		from, to := c.Other(lead), c.Other(lead, c.Other(lead).Name)
		ids := sessions(t, c, 150)
		ok(t, "move", to.Do("PUT", "/v1/ring/move?slots=200&from="+from.Name+"&to="+to.Name, nil))
		c.Crash(lead)
		c.Await("all that was agreed is done", 3*time.Minute, func() bool {
			return place(to, from.Name).Slots == 56 && place(to, to.Name).Slots == 456 && place(to, to.Name).Owned >= 456
		})
		allThere(t, c, ids)
	})
}

func TestMove_refusesWhatCannotBe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 4)
		drain(t, c.Member("m1"), "m4", true)
		for query, status := range map[string]int{
			"slots=5&from=m1&to=m4": 409, "slots=5&from=m4&to=m1": 409, "slots=5&from=m1&to=m9": 404, "slots=0&from=m1&to=m2": 400,
		} {
			if a := c.Member("m2").Do("PUT", "/v1/ring/move?"+query, nil); a.Status != status {
				t.Errorf("move with %s answers %s", query, a)
			}
		}
	})
}

// A member that is down for ring.reap_after is given up; back, it is one among
// the others again.
func TestReap_givesSlotsAwayAndBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 4, agenttest.OnDisk(t.TempDir()), agenttest.Configure(func(_ string, cfg *config.Runtime) {
			cfg.Cluster.ReapAfter = time.Minute
		}))
		dead := c.Other(c.Leader()).Name
		ids := sessions(t, c, 120)
		c.Crash(dead)
		c.WaitDown(dead, 10*time.Second)
		by := c.Other(dead)
		time.Sleep(45 * time.Second)
		if p := place(by, dead); p.Slots != 256 {
			t.Errorf("before its time it is home to %d slots", p.Slots)
		}
		c.Await("its slots are others'", time.Minute, func() bool { return place(by, dead).Slots == 0 })
		allThere(t, c, ids)
		c.Restart(dead, true)
		c.Await("it has a share again", 10*time.Minute, func() bool { return place(by, dead).Owned >= 200 })
		allThere(t, c, ids)
		c.WaitHealthy(time.Minute)
	})
}

// The owner of sessions in use, leader as well, leaves: nobody notices.
func TestLeave_underWriters(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 5)
		name := c.Leader()
		ids := sessions(t, c, 150)
		list := users(t, c, name, 6)
		time.Sleep(time.Second)
		m := c.Leaving(name)
		began := time.Now()
		if err := m.Leave(t.Context(), false); err != nil {
			t.Error(err)
		}
		t.Logf("the leave took %v", time.Since(began))
		if err := m.Wait(); err != nil {
			t.Error(err)
		}
		unharmed(t, list)
		allThere(t, c, ids)
		c.WaitHealthy(time.Minute)
		list[0].copies(3)
	})
}

// A leave that cannot end is taken back: the member goes on as one of the others.
func TestLeave_takenBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 4)
		name := c.Other(c.Leader()).Name
		m := c.Member(name)
		ids := sessions(t, c, 120)
		answer := make(chan error, 1)
		c.Cut(name)
		go func() { answer <- m.Leave(t.Context(), false) }()
		time.Sleep(62 * time.Second)
		c.Heal()
		if err := <-answer; err == nil || !strings.Contains(err.Error(), "stays") {
			t.Errorf("leave of a member that was cut off: %v", err)
		}
		c.WaitHealthy(2 * time.Minute)
		time.Sleep(time.Minute)
		c.WaitHealthy(2 * time.Minute)
		allThere(t, c, ids)
	})
}
