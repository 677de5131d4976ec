package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/agenttest"
	"github.com/rondel-project/rondel/api"
)

// A stop hands everything over first: no request of the others fails.
func TestStop_failsNoRequest(t *testing.T) {
	for _, who := range []string{"leader", "follower"} {
		t.Run(who, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := agenttest.NewCluster(t, 3, agenttest.OnDisk(t.TempDir()))
				name := c.Leader()
				if who == "follower" {
					name = c.Other(name).Name
				}
				list := users(t, c, name, 6)
				time.Sleep(time.Second)
				c.Leaving(name) // users go elsewhere from now on, as behind a balancer
				began := time.Now()
				c.Stop(name)
				t.Logf("the stop took %v", time.Since(began))
				time.Sleep(2 * time.Second)
				c.Restart(name, true)
				time.Sleep(15 * time.Second)
				unharmed(t, list)
				c.WaitHealthy(30 * time.Second)
				if !slices.ContainsFunc(c.Other(name).Ring().Members, func(m api.RingMember) bool { return m.Name == name && m.State == "up" }) {
					t.Errorf("%s is not up again", name)
				}
			})
		})
	}
}

func TestLeave_isGoneForGood(t *testing.T) {
	for _, who := range []string{"leader", "follower"} {
		t.Run(who, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				dir := t.TempDir()
				c := agenttest.NewCluster(t, 4, agenttest.OnDisk(dir))
				name := c.Leader()
				if who == "follower" {
					name = c.Other(name).Name
				}
				var users []*watch
				for i := range 5 {
					w := ownedBy(t, c, name)
					w.write(time.Second)
					w.poll(time.Duration(20+i) * time.Millisecond)
					users = append(users, w)
				}
				m := c.Leaving(name)
				began := time.Now()
				ok(t, "leave", m.Do("PUT", "/v1/agent/leave", nil))
				if err := m.Wait(); err != nil {
					t.Errorf("the agent that left ended with %v", err)
				}
				t.Logf("the leave took %v", time.Since(began))
				for _, w := range users {
					if failed, why := w.end(); failed > 0 {
						t.Errorf("%d requests failed: %s", failed, why)
					}
					w.value(time.Second)
				}
				c.WaitHealthy(time.Minute)
				users[0].copies(3)
				c.Await("it is gone for all", 30*time.Second, func() bool {
					return gone(c, name) && !slices.ContainsFunc(c.Members(), func(other *agenttest.Member) bool {
						s := status(other, name)
						return s != "left" && s != ""
					})
				})
				for _, f := range []string{"node-id", "cluster-id", "raft"} {
					if _, err := os.Stat(filepath.Join(dir, name, f)); !errors.Is(err, os.ErrNotExist) {
						t.Errorf("%s is still in the data directory of who has left: %v", f, err)
					}
				}
				// It can come back, as a new member.
				c.Restart(name, true)
				c.WaitHealthy(time.Minute)
			})
		})
	}
}

// Whoever asks the agent that leaves is served until that has no more to do
// with the cluster, and then is told at once to ask another one.
func TestLeave_whatIsAskedOfItMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 4)
		ids := sessions(t, c, 24)
		m := c.Leaving(c.Other(c.Leader()).Name)
		var work sync.WaitGroup
		var fine atomic.Int64
		for i, id := range ids {
			ask := map[string]func() agenttest.Answer{
				"read":  func() agenttest.Answer { return m.Read(id) },
				"write": func() agenttest.Answer { return m.Patch(id, attrs{"n": i}) },
				"touch": func() agenttest.Answer { return m.Touch(id) },
			}
			work.Go(func() {
				for {
					for what, do := range ask {
						began := time.Now()
						a := do()
						took := time.Since(began)
						switch {
						case a.Err != nil:
							return // it has ended
						case a.OK():
							fine.Add(1)
						case a.Status == 503 && a.Code == "leaving" && a.Header.Get("Retry-After") != "" && took < 100*time.Millisecond:
						default:
							t.Errorf("%s, after %v: %s", what, took, a)
						}
						time.Sleep(20 * time.Millisecond)
					}
				}
			})
		}
		time.Sleep(time.Second)
		before := fine.Load()
		if err := m.Leave(t.Context(), false); err != nil {
			t.Error(err)
		}
		if err := m.Wait(); err != nil {
			t.Error(err)
		}
		work.Wait()
		if fine.Load() == before {
			t.Error("nobody was served while it left")
		}
		allThere(t, c, ids)
	})
}

func TestLeave_refusesWhereNothingCouldBeDecided(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		lead := c.Leader()
		dead := c.Other(lead).Name
		c.Crash(dead)
		c.WaitDown(dead, 10*time.Second)
		left := c.Other(lead)
		for _, m := range []*agenttest.Member{left, c.Member(lead)} {
			a := m.Do("PUT", "/v1/agent/leave", nil)
			if a.Status != 409 || !strings.Contains(a.Error, "force") {
				t.Errorf("leave of %s, one of two voters left of three, answers %s", m.Name, a)
			}
		}
		c.WaitHealthy(30 * time.Second)
	})
}

func TestLeave_lastMember(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 1)
		m := c.Member("m1")
		if a := m.Do("PUT", "/v1/agent/leave", nil); a.Status != 409 {
			t.Errorf("leave of the last member answers %s", a)
		}
		ok(t, "forced leave", m.Do("PUT", "/v1/agent/leave?force", nil))
		if err := m.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestForceLeave(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 4)
		dead := c.Other(c.Leader()).Name
		asked := c.Other(dead, c.Leader())
		if a := asked.Do("PUT", "/v1/agent/force-leave/"+dead, nil); a.Status != 409 || !strings.HasPrefix(a.Error, dead+" is alive: run `rondel leave` there, ") {
			t.Errorf("force-leave of a member that is alive answers %s", a)
		}
		if a := asked.Do("PUT", "/v1/agent/force-leave/nobody", nil); a.Status != 404 || !strings.HasPrefix(a.Error, "no member has the name nobody; ") {
			t.Errorf("force-leave of an unknown member answers %s", a)
		}
		w := newWatch(t, c)
		w.write(time.Second)
		c.Crash(dead)
		c.WaitDown(dead, 10*time.Second)
		c.Await("gossip has it as failed", 10*time.Second, func() bool { return status(asked, dead) == "failed" })
		ok(t, "force-leave", asked.Do("PUT", "/v1/agent/force-leave/"+dead, nil))
		c.Await("it is out of the ring and of Raft, for all", 30*time.Second, func() bool {
			for _, m := range c.Members() {
				if s := status(m, dead); s != "left" && s != "" {
					return false
				}
				if slices.ContainsFunc(m.Ring().Members, func(r api.RingMember) bool { return r.Name == dead }) {
					return false
				}
				if slices.ContainsFunc(m.Servers().Servers, func(s api.RaftServer) bool { return s.Node == dead || s.Node == "" }) {
					return false
				}
			}
			return true
		})
		time.Sleep(time.Minute)
		for _, m := range c.Members() {
			if s := status(m, dead); s != "left" && s != "" {
				t.Errorf("%s has %s back as %s", m.Name, dead, s)
			}
		}
		c.WaitHealthy(time.Minute)
		w.value(time.Second)
		w.copies(3)
	})
}

func status(m *agenttest.Member, name string) string {
	for _, p := range m.Peers() {
		if p.Name == name {
			return p.Status
		}
	}
	return ""
}

// gone reports whether nobody has a member in the ring or among Raft's servers.
func gone(c *agenttest.Cluster, name string) bool {
	for _, m := range c.Members() {
		if slices.ContainsFunc(m.Ring().Members, func(r api.RingMember) bool { return r.Name == name }) ||
			slices.ContainsFunc(m.Servers().Servers, func(s api.RaftServer) bool { return s.Node == name || s.Node == "" }) {
			return false
		}
	}
	return true
}

// Off the list of members is out of the table too: nobody could take it out of
// there later.
func TestForceLeave_prune(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 4)
		dead := c.Other(c.Leader()).Name
		asked := c.Other(dead, c.Leader())
		c.Crash(dead)
		c.WaitDown(dead, 10*time.Second)
		c.Await("gossip has it as failed", 10*time.Second, func() bool { return status(asked, dead) == "failed" })
		ok(t, "force-leave", asked.Do("PUT", "/v1/agent/force-leave/"+dead+"?prune", nil))
		c.Await("it is gone for all", 30*time.Second, func() bool { return gone(c, dead) })
		time.Sleep(time.Minute)
		for _, m := range c.Members() {
			if s := status(m, dead); s != "" {
				t.Errorf("%s has %s back as %s", m.Name, dead, s)
			}
		}
		c.WaitHealthy(time.Minute)
	})
}

// A machine that is lost while all agents are stopped is known to the table
// alone, and can be made to leave all the same.
func TestForceLeave_lostWhileAllWereStopped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 4, agenttest.OnDisk(t.TempDir()))
		names := []string{"m1", "m2", "m3", "m4"}
		for _, name := range names {
			c.Crash(name)
		}
		lost := names[3]
		for _, name := range names[:3] {
			c.Restart(name, true)
		}
		c.WaitDown(lost, time.Minute)
		asked := c.Member(names[0])
		c.Await("it is listed as failed", 30*time.Second, func() bool { return status(asked, lost) == "failed" })
		ok(t, "force-leave", asked.Do("PUT", "/v1/agent/force-leave/"+lost, nil))
		c.Await("it is gone for all", 30*time.Second, func() bool { return gone(c, lost) })
		c.WaitHealthy(time.Minute)
	})
}

// All stop and start again, in any order, and are one cluster without anybody's
// help.
func TestStop_allAndStartAgain(t *testing.T) {
	for _, order := range [][]string{{"m3", "m2", "m1"}, {"m2", "m3", "m1"}} {
		t.Run(strings.Join(order, " "), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := agenttest.NewCluster(t, 3, agenttest.OnDisk(t.TempDir()))
				before := c.Member("m1").Ring().Epoch
				for _, name := range []string{"m1", "m2", "m3"} {
					c.Stop(name)
				}
				for _, name := range order {
					c.Restart(name, true)
					time.Sleep(3 * time.Second)
				}
				c.WaitHealthy(2 * time.Minute)
				if after := c.Member("m1").Ring().Epoch; after < before {
					t.Errorf("the ring fell from %d to %d", before, after)
				}
				newWatch(t, c).write(time.Second)
			})
		})
	}
}

func TestStop_twoMembers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 2, agenttest.OnDisk(t.TempDir()))
		for _, name := range []string{"m1", "m2"} {
			w := ownedBy(t, c, name)
			w.write(time.Second)
			c.Leaving(name)
			c.Stop(name)
			w.value(5 * time.Second)
			w.write(5 * time.Second)
			c.Restart(name, true)
			c.WaitHealthy(2 * time.Minute)
			w.value(time.Second)
			w.copies(2)
		}
	})
}

func TestShutdown_isBoundedByItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		name := c.Other(c.Leader()).Name
		m := c.Member(name)
		c.Cut(name) // nobody takes anything over
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := m.Shutdown(ctx, false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown = %v, want that its time is over", err)
		}
		began := time.Now()
		if err := m.Wait(); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d > 20*time.Second {
			t.Errorf("it ended %v later", d)
		}
	})
}
