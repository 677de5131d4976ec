package proxy

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// keep is one client connection that asks one thing after another, without a
// cookie unless the caller has one.
type keep struct {
	t  testing.TB
	nc net.Conn
	br *bufio.Reader
}

func (r *rig) keep(t testing.TB) *keep {
	nc, br := r.send(t, "")
	nc.SetDeadline(time.Now().Add(5 * time.Minute)) // for all that it asks
	return &keep{t, nc, br}
}

func (k *keep) ask(target, fields string) (*http.Response, string) {
	k.t.Helper()
	fmt.Fprintf(k.nc, "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n", target, fields)
	return read(k.t, k.br, "GET")
}

// who returns which app answers.
func (k *keep) who(target, fields string) string {
	k.t.Helper()
	resp, body := k.ask(target, fields)
	if resp.StatusCode != 200 {
		k.t.Fatalf("%s: %s %s", target, resp.Status, body)
	}
	name, _, _ := strings.Cut(body, " ")
	return name
}

func (k *keep) spread(n int) map[string]int {
	k.t.Helper()
	count := map[string]int{}
	for range n {
		count[k.who("/", "")]++
	}
	return count
}

func weighted(list []Instance, weights ...int) []Instance {
	out := append([]Instance(nil), list[:len(weights)]...)
	for n, w := range weights {
		out[n].Weight = w
	}
	return out
}

func near(got, want, n int) bool { return 100*max(got-want, want-got) <= 2*n }

// D-15: 5:1:1, 1:0:1 and 0:0:0, by turns and by chance.
func TestCase_D15_weightsOverRequests(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	r := startRig(t, setup{cfg: routed(func(r *Route) { r.Balance = WeightedRoundRobin }), apps: weighted(list, 5, 1, 1)})
	k := r.keep(t)
	count := k.spread(1400)
	if count["a1"] != 1000 || count["a2"] != 200 || count["a3"] != 200 {
		t.Errorf("5:1:1 gave %v", count)
	}
	r.SetInstances(weighted(list, 1, 0, 1))
	if count = k.spread(400); count["a1"] != 200 || count["a2"] != 0 {
		t.Errorf("1:0:1 gave %v", count)
	}
	r.SetInstances(weighted(list, 0, 0, 0))
	resp, body := k.ask("/", "")
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || !strings.Contains(body, "weight 0") {
		t.Errorf("0:0:0 gave %s %q", resp.Status, body)
	}
}

// D-15: an instance that was down comes back with the weight it had.
func TestCase_D15_weightSurvivesDownAndUp(t *testing.T) {
	t.Parallel()
	apps, list := fourApps(t)
	list = weighted(list, 50, 1)
	r := startRig(t, setup{cfg: routed(func(r *Route) { r.Balance = WeightedRoundRobin }), apps: list})
	k := r.keep(t)
	if count := k.spread(510); count["a1"] != 500 {
		t.Errorf("50:1 gave %v", count)
	}
	for range 3 {
		list[0].Health = Critical
		r.SetInstances(list)
		if count := k.spread(20); count["a2"] != 20 {
			t.Errorf("with the heavy one down: %v", count)
		}
		list[0].Health = Passing
		r.SetInstances(list)
		if count := k.spread(510); !near(count["a1"], 500, 510) {
			t.Errorf("50:1 after it was down gave %v", count)
		}
	}
	// Also where nobody but traffic notices.
	apps[0].kill()
	for range 5 {
		k.who("/", "")
	}
	back := startApp(t, "a1", echo("a1"))
	list[0].Addr = back.addr()
	r.SetInstances(list)
	if count := k.spread(510); !near(count["a1"], 500, 510) {
		t.Errorf("50:1 at a new address gave %v", count)
	}
}

// D-15: another weight counts at once, and moves nobody who is bound, to 0
// included.
func TestCase_D15_weightChangeMovesNobody(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	list = weighted(list, 1, 1, 1)
	for _, how := range []Balance{RoundRobin, WeightedRoundRobin, Random, LeastLoad, Hash} {
		r := startRig(t, setup{cfg: routed(func(r *Route) { r.Balance, r.HashOn = how, HashPath }), apps: list})
		k := r.keep(t)
		jars := map[string]string{}
		for n := range 60 {
			resp, body := k.ask(fmt.Sprint("/", n), "")
			cookie, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
			name, _, _ := strings.Cut(body, " ")
			jars[cookie] = name
		}
		for _, weights := range [][]int{{9, 1, 1}, {0, 1, 1}, {0, 0, 0}, {1, 1, 1}} {
			r.SetInstances(weighted(list, weights...))
			for cookie, name := range jars {
				resp, body := k.ask("/", "Cookie: "+cookie+"\r\n")
				if !strings.HasPrefix(body, name+" ") || len(resp.Header["Set-Cookie"]) > 0 {
					t.Fatalf("%d: with %v a client of %s got %q, cookies %v", how, weights, name, body, resp.Header["Set-Cookie"])
				}
			}
			if weights[0] == 0 && weights[1] > 0 {
				for n := range 40 {
					if got := k.who(fmt.Sprint("/", n), ""); got == "a1" {
						t.Fatalf("%d: a new client came to the one with weight 0", how)
					}
				}
			}
		}
	}
}

// D-15: an agent that starts again does not begin at the same instance always.
func TestCase_D15_restartsBeginElsewhere(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	for _, how := range []Balance{RoundRobin, WeightedRoundRobin, Random, LeastLoad} {
		first := map[string]int{}
		for start := range uint64(30) {
			p, err := New(Options{Config: routed(func(r *Route) { r.Balance = how }), Start: start * golden})
			if err != nil {
				t.Fatal(err)
			}
			p.SetInstances(list)
			r := serveRig(t, p)
			first[r.keep(t).who("/", "")]++
			p.Close()
		}
		if len(first) < 3 {
			t.Errorf("%d: 30 restarts began at %v", how, first)
		}
	}
}

// D-15 and slow start: clients that are bound to what came up again are not
// held up; new ones are.
func TestCase_D15_slowStartIsForNewClients(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	list = list[:2]
	list[0].SlowStart = time.Hour
	r := startRig(t, setup{apps: list})
	cookie := ""
	for name := ""; name != "a1"; {
		name, cookie, _ = r.get(t, "")
	}
	list[0].Health = Critical
	r.SetInstances(list)
	list[0].Health = Passing
	r.SetInstances(list)
	k := r.keep(t)
	for range 50 {
		if got := k.who("/", "Cookie: "+cookie+"\r\n"); got != "a1" {
			t.Fatalf("a bound client got %s", got)
		}
	}
	if count := k.spread(200); count["a1"] > 30 {
		t.Errorf("the one that has just come up got %d of 200 new clients", count["a1"])
	}
}
