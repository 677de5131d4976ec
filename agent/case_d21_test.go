package agent_test

import (
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/agenttest"
	"github.com/rondel-project/rondel/agent/session"
)

// Ids that agents make are unique, safe in URLs and cookies, and random all over
// behind the few characters that name the key and the slot.
func TestCase_D21_idsAreUnguessable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		members := c.Members()
		const n = 3000
		safe := regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
		var mu sync.Mutex // guards seen
		seen := map[string]bool{}
		var work sync.WaitGroup
		for u := range 6 {
			work.Go(func() {
				for range n / 6 {
					id := ok(t, "create", members[u%3].Create(nil, "")).ID
					mu.Lock()
					switch {
					case seen[id]:
						t.Errorf("an id came twice")
					case len(id) != session.IDLen || !safe.MatchString(id):
						t.Errorf("id %q", id)
					}
					seen[id] = true
					mu.Unlock()
				}
			})
		}
		work.Wait()
		// 128 bits are 22 characters; of random ones each place shows most of
		// the alphabet in thousands of ids.
		random := 0
		for at := range session.IDLen {
			chars := map[byte]bool{}
			for id := range seen {
				chars[id[at]] = true
			}
			if len(chars) >= 60 {
				random++
			}
		}
		if random < 22 {
			t.Errorf("only %d of %d characters of an id vary freely", random, session.IDLen)
		}
		if t.Failed() {
			return
		}
		if a := members[0].Do(http.MethodPost, "/v1/sessions", map[string]any{"ID": "mine"}); a.Status != 400 {
			t.Errorf("a session under a client's own id: %s", a)
		}
	})
}

// Nothing comes into being under an id that the cluster did not issue.
func TestCase_D21_foreignIDs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		m := c.Other()
		id := ok(t, "create", m.Create(attrs{"n": 1}, "")).ID
		flipped := []byte(id)
		flipped[len(flipped)/2] ^= 1
		ok(t, "delete", m.Delete(id))
		for _, bad := range []string{"deadbeef", "..", "../x", "a/b", "", strings.Repeat("x", 10<<10), strings.ToUpper(id), string(flipped), id + id, id} {
			for what, a := range map[string]agenttest.Answer{
				"get": m.Read(bad), "patch": m.Patch(bad, attrs{"n": 2}), "put": m.Put(bad, attrs{"n": 2}), "touch": m.Touch(bad),
				"incr": m.Incr(bad, "n", 1), "rotate": m.Rotate(bad), "delete": m.Delete(bad),
			} {
				if what == "delete" && bad == id {
					continue // a repeated delete may say that it is done
				}
				if a.Status != 404 && a.Status != 400 {
					t.Errorf("%s of %.20q answers %s", what, bad, a)
				}
			}
		}
		for _, m := range c.Members() {
			if a := m.Get("/v1/sessions"); string(a.Raw) != "[]" {
				t.Errorf("%s lists %.300s", m.Name, a.Raw)
			}
		}
	})
}

// A new id keeps all but the id; the old one is gone at every holder at once,
// and for ever.
func TestCase_D21_rotateKeepsDataAndLife(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		m := c.Other()
		old := ok(t, "create", m.Do(http.MethodPost, "/v1/sessions", map[string]any{
			"TTL": "20s", "MaxAge": "1m", "Group": "g", "Principal": "p", "Attributes": attrs{"cart": []int{1, 2}},
		}))
		time.Sleep(5 * time.Second)
		before := ok(t, "read", m.Read(old.ID))
		rotated := ok(t, "rotate", m.Rotate(old.ID))
		for _, x := range c.Members() {
			for what, a := range map[string]agenttest.Answer{
				"get": x.Read(old.ID), "stale get": x.ReadStale(old.ID), "patch": x.Patch(old.ID, attrs{"n": 1}), "touch": x.Touch(old.ID), "rotate": x.Rotate(old.ID),
			} {
				if a.Status != 404 {
					t.Errorf("%s: %s of the id that was given up: %s", x.Name, what, a)
				}
			}
			a := ok(t, "read", x.Read(rotated.ID))
			if a.Attr("cart") != "[1,2]" || !a.Created.Equal(before.Created) || !strings.Contains(string(a.Raw), `"TTL":"20s"`) {
				t.Errorf("before %s\nafter %s", before, a)
			}
			if s := x.ReadStale(rotated.ID); !s.OK() || s.Attr("cart") != "[1,2]" {
				t.Errorf("the copy at %s: %s", x.Name, s)
			}
		}
		time.Sleep(19 * time.Second)
		ok(t, "touch", m.Touch(rotated.ID))
		time.Sleep(19 * time.Second)
		ok(t, "touch", m.Touch(rotated.ID))
		time.Sleep(18 * time.Second) // 61 seconds after it was made
		if a := m.Read(rotated.ID); a.Status != 404 {
			t.Errorf("it outlives its maximum age, as it was given a new id: %s", a)
		}
	})
}
