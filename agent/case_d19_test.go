package agent_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/agenttest"
)

// changing is a story of many clients who change one session through all
// agents, in both modes, with the owner living or dying half-way. Each client
// gets its number, and a function that takes each answer to a change and checks
// that versions rise.
type changing struct {
	c     *agenttest.Cluster
	id    string
	mode  string
	kill  bool
	made  uint64 // the version that creation answered
	owner string
}

func whileManyChange(t *testing.T, clients int, client func(t *testing.T, s *changing, u int), after func(t *testing.T, s *changing)) {
	for _, mode := range []string{"serve", "refuse"} {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprint(mode, ", owner killed: ", kill), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					c := agenttest.NewCluster(t, 3, inMode(mode)...)
					s := &changing{c: c, mode: mode, kill: kill, owner: c.Other(c.Leader()).Name}
					a := ok(t, "create", c.Member(s.owner).Create(attrs{"n": 0}, ""))
					s.id, s.made = a.ID, a.Version
					var work sync.WaitGroup
					for u := range clients {
						work.Go(func() { client(t, s, u) })
					}
					if kill {
						time.Sleep(150 * time.Millisecond)
						c.Crash(s.owner)
					}
					work.Wait()
					after(t, s)
				})
			})
		}
	}
}

// change asks until it is settled, and demands a version above the last one.
// Whoever tries again needs a key, or accepts that a change is made twice.
func (s *changing) change(t *testing.T, last *uint64, ask func(m *agenttest.Member) agenttest.Answer) agenttest.Answer {
	a := tries(s.c, 20*time.Second, ask)
	switch {
	case !a.OK():
		t.Errorf("a change: %s", a)
	case a.Version <= *last:
		t.Errorf("version %d after %d", a.Version, *last)
	}
	*last = max(*last, a.Version)
	return a
}

func pause() { time.Sleep(time.Duration(5+rand.IntN(20)) * time.Millisecond) }

// Changes of different attributes all survive, and each is visible at once to
// whoever reads next, through whatever agent.
func TestCase_D19_ownAttributesAllSurvive(t *testing.T) {
	const users, each = 50, 20
	whileManyChange(t, users, func(t *testing.T, s *changing, u int) {
		var last uint64
		for i := range each {
			name, key := fmt.Sprintf("a-%d-%d", u, i), fmt.Sprintf("own-%d-%d", u, i)
			if !s.change(t, &last, func(m *agenttest.Member) agenttest.Answer {
				return m.Patch(s.id, attrs{name: i}, "Idempotency-Key", key)
			}).OK() {
				return
			}
			if i%4 > 0 { // the whole session is large in the end
				seen := tries(s.c, 10*time.Second, func(m *agenttest.Member) agenttest.Answer {
					return m.Get("/v1/sessions/" + s.id + "/attributes/" + name)
				})
				if string(seen.Raw) != strconv.Itoa(i) {
					t.Errorf("after %s was acknowledged, the next read shows %s", name, seen)
					return
				}
				pause()
				continue
			}
			seen := tries(s.c, 10*time.Second, func(m *agenttest.Member) agenttest.Answer { return m.Read(s.id) })
			if seen.Attr(name) != strconv.Itoa(i) || seen.Version < last {
				t.Errorf("after %s was acknowledged at version %d, the next read shows version %d with %q", name, last, seen.Version, seen.Attr(name))
				return
			}
			pause()
		}
	}, func(t *testing.T, s *changing) {
		for _, m := range s.c.Members() {
			a := ok(t, "read", m.Read(s.id))
			if got := len(a.Attributes) - 1; got != users*each {
				t.Errorf("%s shows %d attributes of %d", m.Name, got, users*each)
			}
			if got := a.Version - s.made; !s.kill && got != users*each {
				t.Errorf("the version rose by %d with %d changes", got, users*each)
			}
		}
	})
}

// Increments by read and conditional put lose none, nor do those at the owner.
func TestCase_D19_countersLoseNothing(t *testing.T) {
	// All of them in one mode: they are in each other's way, and that takes long.
	size := func(s *changing) (users, each int) {
		if s.mode == "refuse" {
			return 10, 10
		}
		return 50, 20
	}
	whileManyChange(t, 50, func(t *testing.T, s *changing, u int) {
		users, each := size(s)
		if u >= users {
			return
		}
		var last uint64
		for i := range each {
			key := fmt.Sprintf("incr-%d-%d", u, i)
			s.change(t, &last, func(m *agenttest.Member) agenttest.Answer {
				return m.Incr(s.id, "sum", 1, "Idempotency-Key", key)
			})
			for turn := 0; ; turn++ {
				a := tries(s.c, 10*time.Second, func(m *agenttest.Member) agenttest.Answer { return m.Read(s.id) })
				n, _ := strconv.Atoi(a.Attr("n"))
				key := fmt.Sprintf("cas-%d-%d-%d", u, i, turn)
				b := tries(s.c, 10*time.Second, func(m *agenttest.Member) agenttest.Answer {
					return m.Patch(s.id, attrs{"n": n + 1}, "If-Match", a.Header.Get("ETag"), "Idempotency-Key", key)
				})
				if b.OK() {
					break
				}
				if b.Status != http.StatusPreconditionFailed {
					t.Errorf("a conditional change: %s", b)
					return
				}
				pause()
			}
		}
	}, func(t *testing.T, s *changing) {
		users, each := size(s)
		for _, m := range s.c.Members() {
			a := ok(t, "read", m.Read(s.id))
			if want := strconv.Itoa(users * each); a.Attr("n") != want || a.Attr("sum") != want {
				t.Errorf("%s: n is %s and the sum %s, after %s increments of each", m.Name, a.Attr("n"), a.Attr("sum"), want)
			}
		}
	})
}

// Patches, removals in a patch and deletes of single attributes do not disturb
// each other.
func TestCase_D19_patchesAndRemovalsMix(t *testing.T) {
	const users, each = 12, 8
	whileManyChange(t, users, func(t *testing.T, s *changing, u int) {
		var last uint64
		for i := range each {
			kept, patched, deleted := fmt.Sprintf("k-%d-%d", u, i), fmt.Sprintf("p-%d-%d", u, i), fmt.Sprintf("d-%d-%d", u, i)
			key := fmt.Sprintf("mix-%d-%d", u, i)
			s.change(t, &last, func(m *agenttest.Member) agenttest.Answer {
				return m.Patch(s.id, attrs{patched: 1, deleted: 1}, "Idempotency-Key", key)
			})
			pause()
			s.change(t, &last, func(m *agenttest.Member) agenttest.Answer {
				return m.Patch(s.id, attrs{patched: nil, kept: i}, "Idempotency-Key", key+"b")
			})
			s.change(t, &last, func(m *agenttest.Member) agenttest.Answer {
				return m.Do(http.MethodDelete, "/v1/sessions/"+s.id+"/attributes/"+deleted, nil, "Idempotency-Key", key)
			})
		}
	}, func(t *testing.T, s *changing) {
		for _, m := range s.c.Members() {
			a := ok(t, "read", m.Read(s.id))
			for u := range users {
				for i := range each {
					if got := a.Attr(fmt.Sprintf("k-%d-%d", u, i)); got != strconv.Itoa(i) {
						t.Errorf("%s: what client %d wrote in turn %d is %q", m.Name, u, i, got)
					}
				}
			}
			if got := len(a.Attributes) - 1; got != users*each {
				t.Errorf("%s shows %d attributes, want %d: some that were removed are back, or some are lost", m.Name, got, users*each)
			}
		}
	})
}

// A whole put replaces what others wrote only if it has no condition.
func TestCase_D19_putIsLastWriterWinsOnlyWithoutCondition(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		members := c.Members()
		id := ok(t, "create", members[0].Create(attrs{"a": 1}, "")).ID
		seen := ok(t, "read", members[1].Read(id))
		changed := ok(t, "patch", members[2].Patch(id, attrs{"b": 2}))
		for what, a := range map[string]agenttest.Answer{
			"put":    members[1].Put(id, attrs{"a": 9}, "If-Match", seen.Header.Get("ETag")),
			"patch":  members[1].Patch(id, attrs{"a": 9}, "If-Match", seen.Header.Get("ETag")),
			"delete": members[1].Delete(id, "If-Match", seen.Header.Get("ETag")),
		} {
			if a.Status != http.StatusPreconditionFailed {
				t.Errorf("%s on a version that is past: %s", what, a)
			}
		}
		if a := ok(t, "read", members[0].Read(id)); a.Attr("a") != "1" || a.Attr("b") != "2" || a.Version != changed.Version {
			t.Errorf("refused changes have changed it to %s", a)
		}
		ok(t, "conditional put", members[0].Put(id, attrs{"c": 3}, "If-Match", changed.Header.Get("ETag")))
		if a := ok(t, "read", members[1].Read(id)); len(a.Attributes) != 1 || a.Attr("c") != "3" {
			t.Errorf("after a whole put: %s", a)
		}
		ok(t, "put without a condition", members[1].Put(id, attrs{"d": 4}))
		if a := ok(t, "read", members[2].Read(id)); len(a.Attributes) != 1 || a.Attr("d") != "4" {
			t.Errorf("after a put without a condition: %s", a)
		}
	})
}
