package agent_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/agenttest"
)

func TestCluster_sharesSlotsEvenly(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := agenttest.NewCluster(t, n)
				c.Await("shares are even", time.Minute, func() bool { return even(c.Other().Ring().Members, n) })
				for _, m := range c.Members() {
					id := ok(t, "create", m.Create(attrs{"a": m.Name}, "")).ID
					for _, other := range c.Members() {
						if got := ok(t, "read", other.Read(id)).Attr("a"); got != `"`+m.Name+`"` {
							t.Errorf("%s reads %s", other.Name, got)
						}
					}
				}
			})
		})
	}
}

// A member that has died is failed to all others within 3 seconds, whether its
// machine still refuses connections or is gone as well.
func TestCluster_seesADeath(t *testing.T) {
	for how, end := range map[string]func(*agenttest.Cluster, string){
		"killed": (*agenttest.Cluster).Crash, "unplugged": (*agenttest.Cluster).Unplug,
	} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := agenttest.NewCluster(t, 3)
				name := c.Leader()
				end(c, name)
				took := c.Await("it is failed to all", 3*time.Second, func() bool {
					return !slices.ContainsFunc(c.Members(), func(m *agenttest.Member) bool { return status(m, name) != "failed" })
				})
				t.Logf("it is failed to all after %v", took)
			})
		})
	}
}

func TestCluster_followersOutsideRaft(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 11
		c := agenttest.NewCluster(t, n)
		c.Await("shares are even", 2*time.Minute, func() bool { return even(c.Member("m11").Ring().Members, n) })
		var servers []string
		voters := 0
		c.Await("five voters", time.Minute, func() bool {
			servers, voters = nil, 0
			for _, s := range c.Member("m1").Servers().Servers {
				servers = append(servers, s.Node)
				if s.Voter {
					voters++
				}
			}
			return voters == 5
		})
		if len(servers) >= n {
			t.Fatalf("all members are Raft servers: %v", servers)
		}
		var outside *agenttest.Member
		for _, m := range c.Members() {
			if !slices.Contains(servers, m.Name) {
				outside = m
			}
		}
		w := ownedBy(t, c, outside.Name)
		w.write(time.Second)
		w.value(time.Second)
		c.Crash(c.WaitLeader(time.Second))
		w.write(10 * time.Second)
		w.value(5 * time.Second)
		c.WaitHealthy(time.Minute)
		want := c.Member(c.Leader()).Ring().Epoch
		c.Await("the followers outside Raft have the leader's table", 5*time.Second, func() bool { return outside.Ring().Epoch >= want })
	})
}

func TestCluster_expectOfFive(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewEmptyCluster(t, agenttest.Expect(5))
		for range 4 {
			c.Add()
		}
		time.Sleep(10 * time.Second)
		for _, m := range c.Members() {
			if r := m.Ring(); r.Epoch != 0 {
				t.Errorf("%s has a table before the fifth has come: %+v", m.Name, r)
			}
			if a := m.Create(nil, ""); a.Status != 503 {
				t.Errorf("%s without a cluster answers %s", m.Name, a)
			}
		}
		c.Add()
		c.WaitHealthy(30 * time.Second)
	})
}
