package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondel-project/rondel/api"
)

// till is an instance of a shop that keeps its users' carts in their sessions,
// at the agent beside it.
type till struct {
	name   string
	beside *node
	server *http.Server
	adds   atomic.Int32
	dies   atomic.Pointer[func()] // what happens between the write and the answer
}

// openTill starts an instance and registers it.
func openTill(t *testing.T, name string, beside *node) *till {
	t.Helper()
	l, err := net.Listen("tcp", beside.at.addr+":0") // where nobody else listens once it is closed
	if err != nil {
		t.Fatal(err)
	}
	s := &till{name: name, beside: beside}
	s.server = &http.Server{Handler: s}
	go s.server.Serve(l)
	t.Cleanup(func() { s.server.Close() })
	until(t, soon, name+" is registered", func(ctx context.Context) error {
		return beside.api.Agent().Register(ctx, api.ServiceRegistration{ID: name, Name: "shop", Address: beside.at.addr, Port: l.Addr().(*net.TCPAddr).Port})
	})
	return s
}

// ServeHTTP implements http.Handler.
func (s *till) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Rondel-Session")
	w.Header().Set("Till", s.name)
	w.Header().Set("Seen-Session", id)
	if r.URL.Path != "/add" {
		return
	}
	item, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.adds.Add(1)
	key := cmp.Or(r.Header.Get("Idempotency-Key"), r.Header.Get("Rondel-Request-Id"))
	if err := s.add(r.Context(), id, string(item), key); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if dies := s.dies.Swap(nil); dies != nil {
		(*dies)()
		nc, _, err := http.NewResponseController(w).Hijack()
		unforked(s.server.Close) // before the client learns of it: there is nobody to come back to
		if err == nil {
			nc.(*net.TCPConn).SetLinger(0) // as the system does for a process that was killed
			nc.Close()
		}
	}
}

// add writes to the session; while nobody can tell what became of the write, it
// is the same write again.
func (s *till) add(ctx context.Context, id, item, key string) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := s.beside.api.Sessions().Append(try, id, "cart", item, api.WithIdempotencyKey(key))
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// An instance dies between its write to the session and its answer, alone or
// with its machine, whose agent owns the session. The user sees one good answer,
// and has one item in the cart.
func TestOnce_addItem(t *testing.T) {
	t.Parallel()
	c := newCluster(t, withConfig(t, `
route "shop" {
  retry {
    on     = ["connect", "idempotent", "keyed"]
    within = "1m"
  }
  timeouts {
    connect = "20s" # who is late is not gone
  }
}
`))
	for name, tc := range map[string]struct {
		method, key string
		machine     bool // the agent dies too
	}{
		"POST with a key of the client's":  {"POST", "order-4711", false},
		"PUT, the request's id is the key": {"PUT", "", false},
		"POST without a key, tried once":   {"POST", "", false},
		"POST, and the machine dies":       {"POST", "order-4712", true},
	} {
		t.Run(name, func(t *testing.T) {
			var tills []*till
			for n, beside := range c {
				tills = append(tills, openTill(t, fmt.Sprintf("till%d", n+1), beside))
			}
			var u *user
			machine := func() {}
			if tc.machine {
				machine = func() {
					_ = u.till.beside.cmd.Process.Kill()
					<-u.till.beside.ended
				}
			}
			until(t, soon, "the session of a user is beside their instance", func(context.Context) error {
				u = c.user(t, tills)
				if o := owner(t, c[0], u.session); o != u.till.beside.name {
					return fmt.Errorf("that of a user of %s is at %s", u.till.beside.name, o)
				}
				return nil
			})
			u.till.dies.Store(&machine)

			began := time.Now()
			first := u.till
			resp := u.ask(t, tc.method, "/add", "apples", tc.key)
			t.Logf("answered after %s", time.Since(began).Round(time.Millisecond))
			second := resp.Header.Get("Till")
			if tc.method == "POST" && tc.key == "" {
				// Nobody has said that it may be sent twice: the user hears that
				// it may have been done, and it has been, once.
				if resp.StatusCode != 502 || second != "" {
					t.Fatalf("%s answered with %s", second, resp.Status)
				}
				u.cart(t, c, "apples")
				c.close(t, tills, nil)
				return
			}
			if resp.StatusCode != 200 || second == first.name || resp.Header.Get("Seen-Session") != u.session || len(resp.Cookies()) != 1 {
				t.Fatalf("%s answered with %s, session %q, cookies %v", second, resp.Status, resp.Header.Get("Seen-Session"), resp.Cookies())
			}
			tried := 0
			for _, s := range tills {
				tried += int(s.adds.Load())
			}
			if first.adds.Load() != 1 || tried != 2 {
				t.Errorf("%d tries, %d of them at the one that died", tried, first.adds.Load())
			}
			living := c
			if tc.machine {
				living = c.without(first.beside)
			}
			u.cart(t, living, "apples")

			// The user stays where the answer came from; what is sent again by
			// hand is the same, and what has another key is not.
			u.cookie = resp.Cookies()[0]
			if again := u.ask(t, tc.method, "/add", "apples", cmp.Or(tc.key, "by hand")); again.StatusCode != 200 || again.Header.Get("Till") != second || len(again.Cookies()) != 0 {
				t.Errorf("again: %s from %s, cookies %v", again.Status, again.Header.Get("Till"), again.Cookies())
			}
			if tc.key != "" {
				u.cart(t, living, "apples")
			} else {
				u.cart(t, living, "apples apples")
			}
			var dead *node
			if tc.machine {
				dead = first.beside
			}
			c.close(t, tills, dead)
			if tc.machine {
				first.beside.start(t)
				c.whole(t)
			}
		})
	}
}

// cart waits for what every agent says is in the user's cart, which must be that.
func (u *user) cart(t *testing.T, c cluster, want string) {
	t.Helper()
	for _, n := range c {
		until(t, soon, "the cart is read through "+n.name, func(ctx context.Context) error {
			s, err := n.api.Sessions().Get(ctx, u.session)
			if err != nil {
				return err
			}
			if s.Stale {
				return errors.New("the answer may be stale")
			}
			var items []string
			if err := json.Unmarshal(s.Attributes["cart"], &items); err != nil || strings.Join(items, " ") != want {
				t.Errorf("through %s the cart holds %s %v, want %s", n.name, s.Attributes["cart"], err, want)
			}
			return nil
		})
	}
}

// close ends the instances, and takes them from all agents but a dead one.
func (c cluster) close(t *testing.T, tills []*till, dead *node) {
	t.Helper()
	for _, s := range tills {
		if s.beside != dead {
			until(t, soon, s.name+" is gone", func(ctx context.Context) error { return s.beside.api.Agent().Deregister(ctx, s.name) })
		}
		s.server.Close()
	}
}

// user is one who came by an agent that is not beside their instance.
type user struct {
	by      *node
	till    *till
	session string
	cookie  *http.Cookie
}

// user makes a new one.
func (c cluster) user(t *testing.T, tills []*till) *user {
	t.Helper()
	u := &user{by: c[0]}
	until(t, later, "a user whose instance is beside another agent", func(context.Context) error {
		u.cookie = nil
		resp := u.ask(t, "GET", "/", "", "")
		if resp.StatusCode != 200 || len(resp.Cookies()) != 1 {
			return fmt.Errorf("%s, cookies %v", resp.Status, resp.Cookies())
		}
		u.cookie, u.session = resp.Cookies()[0], resp.Header.Get("Seen-Session")
		for _, s := range tills {
			if s.name == resp.Header.Get("Till") && s.beside != u.by {
				u.till = s
				return nil
			}
		}
		return fmt.Errorf("it is at %s", resp.Header.Get("Till"))
	})
	return u
}

// ask sends a request by way of the user's agent.
func (u *user) ask(t *testing.T, method, path, body, key string) *http.Response {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, "http://"+u.by.at.at(3)+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		q.Header.Set("Idempotency-Key", key)
	}
	if u.cookie != nil {
		q.AddCookie(u.cookie)
	}
	q.Close = true
	resp, err := http.DefaultTransport.(*http.Transport).RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp
}
