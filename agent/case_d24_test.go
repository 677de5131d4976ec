package agent_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/agenttest"
)

// A write is acknowledged only when the members that its answer names hold it.
func TestCase_D24_asManyCopiesAsPromised(t *testing.T) {
	for _, mode := range []string{"serve", "refuse"} {
		t.Run(mode, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := agenttest.NewCluster(t, 3, inMode(mode)...)
				w := newWatch(t, c)
				held := func(when string, a agenttest.Answer, n int) {
					t.Helper()
					if len(a.Replicas) != n || slices.Contains(a.Replicas, a.Owner) {
						t.Errorf("%s: %s, want %d copies", when, a, n)
					}
					for _, name := range append(a.Replicas, a.Owner) {
						if s := c.Member(name).ReadStale(w.id); !s.OK() || s.Version < a.Version {
							t.Errorf("%s: %s names %s, which has %s", when, a, name, s)
						}
					}
				}
				for i := range 30 {
					held("while all are up", ok(t, "patch", c.Members()[i%3].Patch(w.id, attrs{"n": i})), 2)
				}
				dead := c.Other(c.Leader(), c.Owner(w.id)).Name
				c.Crash(dead)
				c.WaitDown(dead, 10*time.Second)
				c.WaitHealthy(time.Minute)
				for i := range 10 {
					held("after one has died", ok(t, "patch", c.Members()[i%2].Patch(w.id, attrs{"n": i})), 1)
				}
				if a := c.Other().Do("PATCH", "/v1/sessions/"+w.id+"?acks=2", map[string]any{"Attributes": attrs{"n": 99}}); a.Status != 503 || a.Header.Get("Retry-After") == "" {
					t.Errorf("two copies demanded where one is there: %s", a)
				}
			})
		})
	}
}

// Who has lost the others says within a bounded time that it cannot tell, in
// either mode; its health shows it, and comes back by itself.
func TestCase_D24_cutOffSaysThatItCannotTell(t *testing.T) {
	for _, mode := range []string{"serve", "refuse"} {
		t.Run(mode, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := agenttest.NewCluster(t, 5, inMode(mode)...)
				watches := manySessions(t, c, 12)
				alone := c.Other(c.Leader())
				c.Cut(alone.Name)
				for turn := range 5 {
					var work sync.WaitGroup
					for _, w := range watches {
						work.Go(func() {
							began := time.Now()
							a := alone.Read(w.id)
							if took := time.Since(began); took > 2500*time.Millisecond {
								t.Errorf("an answer took %v: %s", took, a)
							}
							switch {
							case a.Status == 503 && a.Header.Get("Retry-After") != "":
							case a.OK() && (mode == "serve" || turn < 2):
							default:
								t.Errorf("turn %d: %s", turn, a)
							}
						})
					}
					work.Wait()
					time.Sleep(time.Second)
				}
				if a := alone.Get("/v1/health/agent"); a.Status != 503 || a.Error == "" {
					t.Errorf("the health of who is cut off: %s", a)
				}
				c.Heal()
				c.WaitHealthy(time.Minute)
				for _, w := range watches {
					w.value(time.Second)
				}
			})
		})
	}
}

// Copies that are being made show in the agent's figures and its health.
func TestCase_D24_refillingShows(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 4)
		manySessions(t, c, 200)
		dead := c.Other(c.Leader()).Name
		c.Crash(dead)
		c.WaitDown(dead, 10*time.Second)
		short := func() (n int) {
			for _, m := range c.Members() {
				lacking, err := strconv.Atoi(stat(t, m, "slots_short"))
				if err != nil {
					t.Fatal(err)
				}
				n += lacking
			}
			return n
		}
		most := short()
		if most == 0 {
			t.Error("a member is down, and no slot is said to lack a copy")
		}
		last := most
		c.Await("all copies are there", time.Minute, func() bool {
			now := short()
			if now > last {
				t.Errorf("%d slots lack copies, after %d", now, last)
			}
			last = now
			return now == 0
		})
		t.Logf("%d slots lacked a copy", most)
		c.WaitHealthy(time.Minute)
	})
}

func stat(t *testing.T, m *agenttest.Member, name string) string {
	t.Helper()
	var self struct{ Stats map[string]map[string]string }
	if err := json.Unmarshal(ok(t, "self", m.Get("/v1/agent/self")).Raw, &self); err != nil {
		t.Fatal(err)
	}
	got, there := self.Stats["sessions"][name]
	if !there {
		t.Fatalf("there is no figure %s in %v", name, self.Stats["sessions"])
	}
	return got
}
