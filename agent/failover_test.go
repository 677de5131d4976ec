package agent_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/agenttest"
)

// The last acknowledged write is there, whoever dies.
func TestFailover_keepsAcknowledgedWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		members int
		dies    func(c *agenttest.Cluster) (owner, dies string)
	}{
		"the owner, not the leader": {3, func(c *agenttest.Cluster) (string, string) {
			o := c.Other(c.Leader()).Name
			return o, o
		}},
		"the leader, not the owner": {3, func(c *agenttest.Cluster) (string, string) {
			return c.Other(c.Leader()).Name, c.Leader()
		}},
		"owner and leader":           {3, func(c *agenttest.Cluster) (string, string) { return c.Leader(), c.Leader() }},
		"owner and leader, of five":  {5, func(c *agenttest.Cluster) (string, string) { return c.Leader(), c.Leader() }},
		"the last but one, of three": {3, nil},
	} {
		for _, mode := range []string{"serve", "refuse"} {
			if tc.dies == nil && mode == "refuse" {
				continue // too few copies are left to write to
			}
			t.Run(name+" "+mode, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					c := agenttest.NewCluster(t, tc.members, inMode(mode)...)
					dies := tc.dies
					if dies == nil {
						dies = func(c *agenttest.Cluster) (string, string) {
							c.Crash(c.Other(c.Leader()).Name)
							c.WaitHealthy(30 * time.Second)
							o := c.Other(c.Leader()).Name
							return o, o
						}
					}
					owner, dead := dies(c)
					w := ownedBy(t, c, owner)
					w.write(time.Second)
					w.poll(10 * time.Millisecond)
					w.write(time.Second)
					c.Crash(dead)
					if len(c.Members()) > 1 {
						w.write(10 * time.Second)
					}
					w.value(10 * time.Second)
					time.Sleep(time.Second)
					failed, why := w.end()
					t.Logf("reads %d, failed %d (%s), longest gap %v", w.reads.Load(), failed, why, w.longest())
					if w.longest() > 5*time.Second {
						t.Errorf("nobody could read for %v", w.longest())
					}
				})
			})
		}
	}
}

func inMode(mode string) []agenttest.Option {
	if mode == "refuse" {
		return []agenttest.Option{agenttest.Refuse()}
	}
	return nil
}

func TestFailover_copiesAreRestored(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 4)
		dead := c.Other(c.Leader()).Name
		watches := manySessions(t, c, 60)
		c.Crash(dead)
		took := c.WaitDown(dead, 10*time.Second) + c.WaitHealthy(30*time.Second)
		t.Logf("all copies are there %v after the death", took)
		if took > 15*time.Second {
			t.Errorf("it took %v until all copies were there", took)
		}
		for _, w := range watches {
			w.copies(3)
		}
	})
}

// A member that comes back with nothing in memory takes its slots again, and
// nobody ever sees what was true before.
func TestFailover_returningMemberNeverShowsOldData(t *testing.T) {
	for _, mode := range []string{"serve", "refuse"} {
		for _, away := range []time.Duration{0, 300 * time.Millisecond, 20 * time.Second} {
			t.Run(fmt.Sprint(mode, " after ", away), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					c := agenttest.NewCluster(t, 3, append(inMode(mode), agenttest.OnDisk(t.TempDir()))...)
					name := c.Other(c.Leader()).Name
					w := ownedBy(t, c, name)
					w.write(time.Second)
					w.poll(15 * time.Millisecond)
					c.Crash(name)
					if away > 0 {
						w.write(10 * time.Second)
						time.Sleep(away)
					}
					c.Restart(name, true)
					for range 50 {
						w.write(10 * time.Second)
						time.Sleep(20 * time.Millisecond)
					}
					c.WaitHealthy(30 * time.Second)
					c.Await("the session is with its home again", time.Minute, func() bool { return c.Owner(w.id) == name })
					w.write(time.Second)
					w.value(time.Second)
					w.copies(3)
					failed, why := w.end()
					t.Logf("reads %d, failed %d (%s), longest gap %v", w.reads.Load(), failed, why, w.longest())
				})
			})
		}
	}
}

func TestFailover_deletedStaysDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3, agenttest.OnDisk(t.TempDir()))
		name := c.Other(c.Leader()).Name
		w := ownedBy(t, c, name)
		island := c.Member(name)
		// It keeps its memory, and is away while the session is deleted.
		c.Cut(name)
		c.Await("another owns it", 10*time.Second, func() bool { return c.Other(name).Locate(w.id).Owner != name })
		ok(t, "delete", tries(c, 5*time.Second, func(m *agenttest.Member) agenttest.Answer {
			if m == island {
				return agenttest.Answer{}
			}
			return m.Delete(w.id)
		}))
		c.Heal()
		for range 200 {
			for _, m := range c.Members() {
				if a := m.Read(w.id); m != island && a.Status != 404 && a.Status != 503 {
					t.Fatalf("%s answers %s after the delete", m.Name, a)
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
		c.WaitHealthy(time.Minute)
		for _, m := range c.Members() {
			for what, a := range map[string]agenttest.Answer{
				"get": m.Read(w.id), "stale get": m.ReadStale(w.id), "patch": m.Patch(w.id, attrs{"n": 9}), "touch": m.Touch(w.id),
			} {
				if a.Status != 404 {
					t.Errorf("%s: %s of a deleted session: %s", m.Name, what, a)
				}
			}
		}
	})
}

// manySessions makes sessions at all agents in turn.
func manySessions(t *testing.T, c *agenttest.Cluster, n int) (all []*watch) {
	t.Helper()
	members := c.Members()
	for i := range n {
		a := ok(t, "create", members[i%len(members)].Create(attrs{"n": 0}, ""))
		all = append(all, watchOf(t, c, a.ID))
	}
	return all
}

// copies demands that so many members hold the session, all the same.
func (w *watch) copies(want int) {
	w.t.Helper()
	m := w.c.Other()
	var a agenttest.Answer
	w.c.Await("a session has its copies, and no others", time.Minute, func() bool {
		a = m.Read(w.id)
		return a.OK() && len(a.Replicas) == want-1
	})
	if got := 1 + len(a.Replicas); got != want || slices.Contains(a.Replicas, a.Owner) {
		w.t.Errorf("owner %s and copies %v, want %d in all", a.Owner, a.Replicas, want)
	}
	for _, name := range append(a.Replicas, a.Owner) {
		holder := w.c.Member(name)
		s := holder.ReadStale(w.id)
		if s.Status != 200 || s.Version != a.Version || s.Attr("n") != a.Attr("n") {
			w.t.Errorf("the copy at %s is %s, the owner has %s", name, s, a)
		}
	}
}
