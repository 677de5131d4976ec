package agent_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/agenttest"
)

// Trouble with an owner never looks like "no such session" (D-24).
func TestCase_D24_neverNotFoundInTrouble(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3, agenttest.OnDisk(t.TempDir()))
		asked, victim, third := c.Member("m2"), "m1", "m3"
		var ids []string
		for i := range 1000 {
			ids = append(ids, ok(t, "create", c.Members()[i%3].Create(attrs{"i": i}, "")).ID)
		}
		var counts [600]atomic.Int64
		var slowest atomic.Int64
		stop := make(chan struct{})
		var work sync.WaitGroup
		for u := range 4 {
			work.Go(func() {
				for i := u; ; i += 7 {
					select {
					case <-stop:
						return
					case <-time.After(40 * time.Millisecond):
					}
					began := time.Now()
					a := asked.Read(ids[i%len(ids)])
					took := int64(time.Since(began))
					for was := slowest.Load(); took > was && !slowest.CompareAndSwap(was, took); was = slowest.Load() {
					}
					counts[a.Status].Add(1)
					if a.Status == 503 && a.Header.Get("Retry-After") == "" {
						t.Errorf("no Retry-After: %s", a)
						return
					}
					if a.Status == 404 || a.Status == 200 && a.Attr("i") != strconv.Itoa(i%len(ids)) {
						t.Errorf("session %d: %s", i%len(ids), a)
						return
					}
				}
			})
		}
		quiet := func(what string) {
			t.Helper()
			before := counts[503].Load()
			time.Sleep(2 * time.Second)
			if n := counts[503].Load() - before; n > 0 {
				t.Errorf("%s: still %d answers 503", what, n)
			}
		}
		c.Crash(victim)
		time.Sleep(5 * time.Second)
		quiet("after the kill")
		c.Restart(victim, true)
		time.Sleep(15 * time.Second)
		quiet("after the restart")
		c.Stop(victim)
		quiet("after the stop")
		c.Restart(victim, true)
		c.Add()
		time.Sleep(15 * time.Second)
		c.WaitHealthy(time.Minute)
		quiet("after a fourth has joined")
		c.Cut(third)
		time.Sleep(5 * time.Second)
		quiet("while the third is cut off")
		c.Heal()
		c.WaitHealthy(time.Minute)
		close(stop)
		work.Wait()
		t.Logf("200: %d, 503: %d, 504: %d, slowest %v", counts[200].Load(), counts[503].Load(), counts[504].Load(), time.Duration(slowest.Load()))
		if s := time.Duration(slowest.Load()); s > 2500*time.Millisecond {
			t.Errorf("an answer took %v", s)
		}
	})
}

// Most members are gone: it cannot be told, rather than "no such session".
func TestCase_D24_majorityGone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 5, agenttest.Refuse())
		watches := manySessions(t, c, 6)
		for len(c.Members()) > 2 {
			c.Crash(c.Members()[0].Name)
		}
		for range 6 {
			for _, w := range watches {
				if a := c.Other().Read(w.id); a.Status == 404 {
					t.Fatalf("%s", a)
				}
			}
			time.Sleep(500 * time.Millisecond)
		}
		if a := c.Other().Read(watches[0].id); a.Status != 503 || a.Header.Get("Retry-After") == "" {
			t.Errorf("without a majority: %s, %v", a, a.Header)
		}
	})
}

// A deadline neither comes early nor is forgotten when its owner dies (D-20).
func TestCase_D20_deadlineOutlivesOwner(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		owner := c.Other(c.Leader()).Name
		const ttl = 20 * time.Second
		made := time.Now()
		var idle, used []string
		for range 20 {
			idle = append(idle, ok(t, "create", c.Member(owner).Create(attrs{"n": 0}, "20s")).ID)
			used = append(used, ok(t, "create", c.Member(owner).Create(attrs{"n": 0}, "20s")).ID)
		}
		time.Sleep(5 * time.Second)
		c.Crash(owner)
		c.WaitDown(owner, 10*time.Second)
		c.WaitHealthy(30 * time.Second)
		any := c.Other()
		for time.Since(made) < ttl-time.Second {
			for _, id := range idle {
				if a := any.Read(id); a.Status != 200 {
					t.Fatalf("%v after it was made, with a TTL of %v: %s", time.Since(made), ttl, a)
				}
			}
			for _, id := range used {
				ok(t, "touch", any.Touch(id))
			}
			time.Sleep(time.Second)
		}
		// A new owner waits for as much longer as it may not have been told of.
		time.Sleep(time.Until(made.Add(ttl + ttl/10 + 2*time.Second)))
		for _, id := range idle {
			for what, a := range map[string]agenttest.Answer{"get": any.Read(id), "patch": any.Patch(id, attrs{"n": 1}), "touch": any.Touch(id)} {
				if a.Status != 404 {
					t.Fatalf("%s %v after it was made, with a TTL of %v: %s", what, time.Since(made), ttl, a)
				}
			}
		}
		for _, id := range used {
			ok(t, "read of what was used", any.Read(id))
		}
	})
}

// The same key gives the same answer, before and after the owner's death.
func TestSessions_idempotencyKeyOutlivesOwner(t *testing.T) {
	for _, mode := range []string{"serve", "refuse"} {
		t.Run(mode, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := agenttest.NewCluster(t, 3, inMode(mode)...)
				owner := c.Other(c.Leader()).Name
				id := ownedBy(t, c, owner).id
				incr := func(m *agenttest.Member) agenttest.Answer { return m.Incr(id, "n", 5, "Idempotency-Key", "k1") }
				first := ok(t, "incr", incr(c.Other(owner)))
				again := ok(t, "the same again", incr(c.Member(owner)))
				c.Crash(owner)
				later := ok(t, "the same after the owner's death", tries(c, 10*time.Second, incr))
				for what, a := range map[string]agenttest.Answer{"again": again, "later": later} {
					if a.Value != first.Value || a.Version != first.Version || a.ID != first.ID {
						t.Errorf("%s: %s, at first %s", what, a, first)
					}
				}
				if a := tries(c, 10*time.Second, func(m *agenttest.Member) agenttest.Answer { return m.Incr(id, "n", 6, "Idempotency-Key", "k1") }); a.Code != "idempotency_key_reused" {
					t.Errorf("the key with another body: %s", a)
				}
				if got := ok(t, "read", c.Other().Read(id)).Attr("n"); got != "5" {
					t.Errorf("n is %s", got)
				}
			})
		})
	}
}

// Readers see the old id or the new one, never the old one once rotate has
// answered; and the same when the owner dies meanwhile (D-21).
func TestCase_D21_rotateUnderLoad(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		owner := c.Other(c.Leader()).Name
		var current, gone atomic.Value
		current.Store(ownedBy(t, c, owner).id)
		gone.Store("")
		stop := make(chan struct{})
		var work sync.WaitGroup
		for u := range 20 {
			work.Go(func() {
				for i := u; ; i++ {
					select {
					case <-stop:
						return
					case <-time.After(7 * time.Millisecond):
					}
					members := c.Members()
					m := members[i%len(members)]
					if id := gone.Load().(string); id != "" {
						if a := m.Read(id); a.Status == 200 {
							t.Errorf("%s serves an id that was rotated away: %s", m.Name, a)
							return
						}
					}
					id := current.Load().(string)
					if a := m.Read(id); a.Status == 404 && current.Load().(string) == id && gone.Load().(string) != id {
						// Gone before rotate has answered is right; then the new one is near.
						time.Sleep(3 * time.Second)
						if current.Load().(string) == id {
							t.Errorf("%s: %s and there is no new id", m.Name, a)
							return
						}
					}
				}
			})
		}
		for i := range 30 {
			id := current.Load().(string)
			key := fmt.Sprint("rotate-", i)
			a := ok(t, "rotate", tries(c, 10*time.Second, func(m *agenttest.Member) agenttest.Answer { return m.Rotate(id, "Idempotency-Key", key) }))
			current.Store(a.ID)
			gone.Store(id)
			if a.ID == id {
				t.Fatalf("the id stays the same")
			}
			if i == 15 {
				c.Crash(owner)
			}
			time.Sleep(20 * time.Millisecond)
		}
		close(stop)
		work.Wait()
		if a := ok(t, "read", c.Other().Read(current.Load().(string))); a.Attr("n") != "0" {
			t.Errorf("the contents are %s", a)
		}
	})
}
