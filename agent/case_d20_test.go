package agent_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/agenttest"
)

// Writes at the moment of expiry leave a session whole or gone: never a part of
// it, and never one that lives longer than its last change allows.
func TestCase_D20_writesAtExpiry(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		members := c.Members()
		const ttl = 2 * time.Second
		var work sync.WaitGroup
		for i := range 1000 {
			work.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond) // one after the other, or their connections fill the listener's queue
				id := ok(t, "create", members[i%3].Create(attrs{"first": 1}, "2s")).ID
				time.Sleep(1900*time.Millisecond + time.Duration(rand.IntN(200))*time.Millisecond)
				wrote := members[(i+1)%3].Patch(id, attrs{"second": 2})
				at := time.Now()
				seen := members[(i+2)%3].Read(id)
				switch {
				case wrote.OK() && seen.OK() && len(seen.Attributes) == 2 && !seen.Created.IsZero():
				case wrote.Status == 404 && seen.Status == 404:
				default:
					t.Errorf("patch %s, then read %s", wrote, seen)
				}
				time.Sleep(time.Until(at.Add(ttl + 300*time.Millisecond)))
				for _, m := range members {
					if a := m.Read(id); a.Status != 404 {
						t.Errorf("%v after its last change, with a TTL of %v: %s", time.Since(at), ttl, a)
					}
				}
			})
		}
		work.Wait()
		for _, m := range members {
			if a := m.Get("/v1/sessions"); string(a.Raw) != "[]" {
				t.Errorf("%s lists %.300s", m.Name, a.Raw)
			}
		}
	})
}

// What is used through one agent lives, whatever becomes of its owner.
func TestCase_D20_usedThroughOneAgent(t *testing.T) {
	for name, end := range map[string]func(c *agenttest.Cluster, owner string){
		"owner stopped": func(c *agenttest.Cluster, owner string) { c.Stop(owner) },
		"owner killed":  func(c *agenttest.Cluster, owner string) { c.Crash(owner) },
		"owner cut off": func(c *agenttest.Cluster, owner string) { c.Cut(owner) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := agenttest.NewCluster(t, 3, agenttest.OnDisk(t.TempDir()))
				owner := c.Other(c.Leader()).Name
				id := ok(t, "create", c.Member(owner).Create(attrs{"n": 1}, "5s")).ID
				through := c.Other(owner)
				for i := range 60 {
					if i == 30 {
						c.Leaving(owner)
						end(c, owner)
					}
					a := through.Touch(id)
					for n := 0; a.Status == 503 && n < 100; n++ {
						time.Sleep(20 * time.Millisecond)
						a = through.Touch(id)
					}
					if !a.OK() {
						t.Fatalf("touch %d: %s", i, a)
					}
					time.Sleep(time.Second)
				}
				ok(t, "read", through.Read(id))
			})
		})
	}
}

// A wall clock that is five minutes off at one member brings no end nearer or
// farther, whether that member owns the session, holds a copy or is asked, and
// also when it takes the session over.
func TestCase_D20_wrongClock(t *testing.T) {
	for _, off := range []time.Duration{5 * time.Minute, -5 * time.Minute} {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprint(off, ", its owner killed: ", kill), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					c := agenttest.NewCluster(t, 3, agenttest.ClockAhead("m2", off))
					const ttl = 15 * time.Second
					var ids []string
					for i := range 9 {
						ids = append(ids, ok(t, "create", c.Members()[i%3].Create(attrs{"n": 0}, "15s", "Idempotency-Key", fmt.Sprint(i))).ID)
					}
					made := time.Now()
					late := 2 * time.Second
					if kill {
						c.Crash(c.Other("m2").Name)
					}
					time.Sleep(ttl - time.Second - time.Since(made))
					for _, id := range ids {
						for _, m := range c.Members() {
							if a := m.Read(id); !a.OK() {
								t.Errorf("%s, %v after it was made: %s", m.Name, time.Since(made), a)
							}
						}
					}
					time.Sleep(ttl + late - time.Since(made))
					for _, id := range ids {
						for _, m := range c.Members() {
							if a := m.Read(id); a.Status != 404 {
								t.Errorf("%s, %v after it was made: %s", m.Name, time.Since(made), a)
							}
						}
					}
				})
			})
		}
	}
}

// Idle time slides with writes and touches, a maximum age never; reads slide it
// only on demand, and what is refused does not.
func TestCase_D20_slidingAndFixed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		m := c.Other()
		create := func(body map[string]any) string {
			return ok(t, "create", m.Do(http.MethodPost, "/v1/sessions", body)).ID
		}
		idle := map[string]any{"TTL": "10s", "Attributes": attrs{"n": 1}}
		for name, x := range map[string]struct {
			use   func(id string) agenttest.Answer
			wants int // the status of each use
			lives bool
			body  map[string]any
		}{
			"a read":                      {func(id string) agenttest.Answer { return m.Read(id) }, 200, false, idle},
			"a read that touches":         {func(id string) agenttest.Answer { return m.Get("/v1/sessions/" + id + "?touch") }, 200, true, idle},
			"a touch":                     {m.Touch, 200, true, idle},
			"a write":                     {func(id string) agenttest.Answer { return m.Patch(id, attrs{"n": 2}) }, 200, true, idle},
			"a delete that is refused":    {func(id string) agenttest.Answer { return m.Delete(id, "If-Match", `"1-99"`) }, 412, false, idle},
			"a write that is refused":     {func(id string) agenttest.Answer { return m.Patch(id, attrs{"n": 2}, "If-Match", `"1-99"`) }, 412, false, idle},
			"a touch, with a maximum age": {m.Touch, 200, false, map[string]any{"TTL": "10s", "MaxAge": "13s"}},
		} {
			id := create(x.body)
			for range 2 {
				time.Sleep(6 * time.Second)
				if a := x.use(id); a.Status != x.wants && (x.lives || a.Status != 404) {
					t.Errorf("%s: %s", name, a)
				}
			}
			time.Sleep(3 * time.Second)
			if a := m.Read(id); a.OK() != x.lives {
				t.Errorf("%s twice, 6 s apart, with an idle time of 10 s: %s", name, a)
			}
		}
	})
}

// Touches are not told to the copies one by one.
func TestCase_D20_touchesAreBatched(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		owner := c.Other(c.Leader())
		id := ok(t, "create", owner.Create(attrs{"n": 1}, "10m")).ID
		before := ok(t, "read", owner.Read(id))
		const touches = 5000
		began := time.Now()
		sent := c.Carried(func() {
			for range touches {
				ok(t, "touch", owner.Touch(id))
			}
		})
		took := time.Since(began)
		rest := c.Carried(func() { time.Sleep(took) })
		t.Logf("between agents: %d bytes in %v with %d touches, %d in as long without", sent, took, touches, rest)
		// Told one by one, a touch would cost two messages and their answers.
		if sent > rest+60*touches {
			t.Errorf("a touch costs %d bytes between agents", (sent-rest)/touches)
		}
		after := ok(t, "read", owner.Read(id))
		if after.Version != before.Version || !after.Expires.After(before.Expires) {
			t.Errorf("before %s, after %s", before, after)
		}
	})
}
