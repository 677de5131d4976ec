package agenttest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const pollEvery = 20 * time.Millisecond

// Members returns the members whose process runs.
func (c *Cluster) Members() []*Member {
	return slices.DeleteFunc(slices.Clone(c.last()), func(m *Member) bool { return m.ended.Load() })
}

// last returns the last process of each name.
func (c *Cluster) last() []*Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members
}

// Names returns the names of the members whose process runs.
func (c *Cluster) Names() []string {
	var names []string
	for _, m := range c.Members() {
		names = append(names, m.Name)
	}
	return names
}

// Member returns the last process of that name.
func (c *Cluster) Member(name string) *Member {
	c.t.Helper()
	for _, m := range c.last() {
		if m.Name == name {
			return m
		}
	}
	c.t.Fatalf("there is no member %s", name)
	return nil
}

// Other returns a running member that has none of the names.
func (c *Cluster) Other(names ...string) *Member {
	c.t.Helper()
	for _, m := range c.Members() {
		if !slices.Contains(names, m.Name) {
			return m
		}
	}
	c.t.Fatalf("all members are among %v", names)
	return nil
}

// Await looks again and again, until ok or the limit is over, and returns how
// long it took.
func (c *Cluster) Await(what string, limit time.Duration, ok func() bool) time.Duration {
	c.t.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > limit {
			c.t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(pollEvery)
	}
	return time.Since(start)
}

// WaitHealthy waits until each running agent says that another one could be
// restarted now, and all name the same leader.
func (c *Cluster) WaitHealthy(limit time.Duration) time.Duration {
	c.t.Helper()
	start := time.Now()
	for {
		why := c.unhealthy()
		if why == "" {
			return time.Since(start)
		}
		if time.Since(start) > limit {
			c.t.Fatalf("not healthy within %v: %s", limit, why)
		}
		time.Sleep(5 * pollEvery)
	}
}

// Healthy reports whether WaitHealthy would return at once.
func (c *Cluster) Healthy() bool { return c.unhealthy() == "" }

func (c *Cluster) unhealthy() string {
	for _, m := range c.Members() {
		select {
		case <-m.done:
			return fmt.Sprintf("%s has ended: %v", m.Name, m.err)
		default:
		}
		if a := m.Get("/v1/health/agent"); a.Status != 200 {
			return fmt.Sprintf("%s: %s", m.Name, a)
		}
	}
	if c.Leader() == "" {
		return "not all name one leader"
	}
	return ""
}

// WaitDown waits until no running agent's table names the member as up.
func (c *Cluster) WaitDown(name string, limit time.Duration) time.Duration {
	c.t.Helper()
	return c.Await(name+" is not up any more", limit, func() bool {
		for _, m := range c.Members() {
			for _, r := range m.Ring().Members {
				if r.Name == name && r.State == "up" {
					return false
				}
			}
		}
		return true
	})
}

// Leader returns the leader's name, "" unless all running agents agree on it.
func (c *Cluster) Leader() (name string) {
	for i, m := range c.Members() {
		r := m.Ring()
		if i > 0 && r.Leader != name {
			return ""
		}
		name = r.Leader
	}
	return name
}

// WaitLeader waits until all running agents name one leader that runs.
func (c *Cluster) WaitLeader(limit time.Duration) (name string) {
	c.t.Helper()
	c.Await("all name one leader that runs", limit, func() bool {
		name = c.Leader()
		return slices.Contains(c.Names(), name)
	})
	return name
}

// Owner returns the owner of a session, as the running agents see it that
// agree, "" while they do not.
func (c *Cluster) Owner(id string) (name string) {
	for i, m := range c.Members() {
		l := m.Locate(id)
		if i > 0 && l.Owner != name {
			return ""
		}
		name = l.Owner
	}
	return name
}

// Carried returns how many bytes the agents send each other, gossip apart, while
// f runs.
func (c *Cluster) Carried(f func()) int64 {
	before := c.net.carried.Load()
	f()
	return c.net.carried.Load() - before
}

// wipe removes a member's data directory.
func (c *Cluster) wipe(name string) {
	c.t.Helper()
	if c.o.disk == "" {
		return
	}
	if err := os.RemoveAll(filepath.Join(c.o.disk, name)); err != nil {
		c.t.Fatal(err)
	}
}

// Log returns the end of the member's log.
func (m *Member) Log() string { return strings.TrimSpace(string(m.log.text())) }
