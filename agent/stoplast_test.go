package agent_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/agenttest"
	"github.com/rondel-project/rondel/agent/config"
)

// stopAtOnce stops members at the same time, as a signal to all of them does, and
// returns what each logged to its end.
func stopAtOnce(t *testing.T, c *agenttest.Cluster, names ...string) map[string]string {
	t.Helper()
	logs := make(map[string]string)
	var mu sync.Mutex
	var work sync.WaitGroup
	for _, name := range names {
		m := c.Leaving(name)
		work.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := m.Shutdown(ctx, false); err != nil {
				t.Errorf("stop %s: %v", name, err)
			}
			if err := m.Wait(); err != nil {
				t.Errorf("%s ended: %v", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			logs[name] = m.Log()
		})
	}
	work.Wait()
	return logs
}

// Where nobody stays, nobody is waited for, and what that costs is said.
func TestStop_allAtOnce(t *testing.T) {
	for durability, says := range map[config.Durability]string{config.Memory: "sessions here are lost", config.Disk: "sessions here stay on disk"} {
		for _, n := range []int{2, 3, 5} {
			t.Run(fmt.Sprint(n, ", ", durability), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					opts := []agenttest.Option{agenttest.Configure(func(_ string, cfg *config.Runtime) { cfg.Cluster.Durability = durability })}
					if durability == config.Disk {
						opts = append(opts, agenttest.OnDisk(t.TempDir()))
					}
					c := agenttest.NewCluster(t, n, opts...)
					var names, ids []string
					for _, m := range c.Members() {
						names = append(names, m.Name)
						for range 20 {
							ids = append(ids, ok(t, "create", m.Create(attrs{"n": 1}, "30m")).ID)
						}
					}
					began := time.Now()
					logs := stopAtOnce(t, c, names...)
					if took := time.Since(began); took > 6*time.Second {
						t.Errorf("%d members take %v to stop", n, took)
					}
					said := 0
					for name, log := range logs {
						if strings.Contains(log, "stopping before others serve") {
							t.Errorf("%s of %d warns:\n%s", name, n, log)
						}
						times := strings.Count(log, "no other member stays")
						if said += times; times > 1 || times != strings.Count(log, says) {
							t.Errorf("%s of %d says:\n%s", name, n, log)
						}
					}
					if said == 0 {
						t.Errorf("none of %d says what becomes of the sessions", n)
					}
					if durability == config.Memory {
						return
					}
					for _, name := range names {
						c.Restart(name, true)
					}
					c.WaitHealthy(2 * time.Minute)
					for _, id := range ids {
						ok(t, "read", c.Members()[0].Read(id))
					}
				})
			})
		}
	}
}

// Where one stays, all others hand over to it, however many stop.
func TestStop_allButOneAtOnce(t *testing.T) {
	for _, stays := range []string{"leader", "follower"} {
		t.Run(stays, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := agenttest.NewCluster(t, 3)
				keeper := c.Leader()
				if stays == "follower" {
					keeper = c.Other(keeper).Name
				}
				var ids, names []string
				for _, m := range c.Members() {
					for range 20 {
						ids = append(ids, ok(t, "create", m.Create(attrs{"n": 1}, "30m")).ID)
					}
					if m.Name != keeper {
						names = append(names, m.Name)
					}
				}
				for name, log := range stopAtOnce(t, c, names...) {
					if strings.Contains(log, "no other member stays") {
						t.Errorf("%s says:\n%s", name, log)
					}
				}
				for _, id := range ids {
					ok(t, "read", tries(c, 30*time.Second, func(*agenttest.Member) agenttest.Answer { return c.Member(keeper).Read(id) }))
				}
			})
		})
	}
}

// A member that is alone with what it has says what that means: others that it
// does not reach may hold the same.
func TestStop_alone(t *testing.T) {
	for what, says := range map[string]string{"single": "sessions here are lost", "cut off": "sessions that only this one holds are lost"} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				n := 1
				if what == "cut off" {
					n = 3
				}
				c := agenttest.NewCluster(t, n)
				m := c.Members()[0]
				ok(t, "create", m.Create(attrs{"n": 1}, "30m"))
				time.Sleep(time.Second)
				if n > 1 {
					c.Cut(m.Name)
					time.Sleep(time.Minute) // it takes the others for failed
				}
				if log := stopAtOnce(t, c, m.Name)[m.Name]; strings.Count(log, says) != 1 {
					t.Errorf("it says:\n%s", log)
				}
			})
		})
	}
}

// A member that stops waits for one that comes back, also after that had been
// stopping, too.
func TestStop_waitsForWhoComesBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 2)
		last := c.Member(c.Leader())
		w := ownedBy(t, c, last.Name)
		w.write(time.Second)
		other := c.Other(last.Name).Name
		c.Stop(other)
		c.Restart(other, true)
		c.Await("gossip shows the new run", 30*time.Second, func() bool {
			for _, m := range last.Peers() {
				if m.Name == other && m.Status == "alive" {
					return true
				}
			}
			return false
		})
		if log := stopAtOnce(t, c, last.Name)[last.Name]; strings.Contains(log, "no other member") || strings.Contains(log, "stopping before") {
			t.Errorf("%s says:\n%s", last.Name, log)
		}
		ok(t, "read", tries(c, 30*time.Second, func(*agenttest.Member) agenttest.Answer { return c.Member(other).Read(w.id) }))
	})
}
