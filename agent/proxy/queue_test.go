package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// gated is an app that answers a request when it is told to, and tells of each
// that has come, by its target.
type gated struct {
	*app
	came chan string
	let  chan struct{}

	mu   sync.Mutex
	now  int
	most int
}

func startGated(t testing.TB, name string) *gated {
	g := &gated{came: make(chan string, 1000), let: make(chan struct{}, 1000)}
	g.app = startApp(t, name, func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			line, err := br.ReadString('\n')
			if err != nil {
				return
			}
			for l := line; l != "\r\n" && err == nil; l, err = br.ReadString('\n') {
			}
			if err != nil {
				return
			}
			g.count(1)
			g.came <- strings.Fields(line)[1]
			<-g.let
			g.count(-1)
			if _, err := fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s ", len(name)+1, name); err != nil {
				return
			}
		}
	})
	t.Cleanup(func() { close(g.let) }) // runs before the app is killed
	return g
}

func (g *gated) count(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now += n
	g.most = max(g.most, g.now)
}

func limited(g *gated, m string, most int) Instance {
	in := instanceOf(g.app, "m1")
	in.MaxConnections = most
	return in
}

func (r *rig) waiting(name string) int {
	for _, rt := range r.snap.Load().any {
		if rt.Name == name {
			return int(rt.turn.waiting.Load())
		}
	}
	return -1
}

func (r *rig) ask(t testing.TB, target, cookie string) (net.Conn, *bufio.Reader) {
	t.Helper()
	if cookie != "" {
		cookie = "Cookie: " + cookie + "\r\n"
	}
	return r.send(t, "GET "+target+" HTTP/1.1\r\nHost: x\r\n"+cookie+"\r\n")
}

// Requests that find no room wait, and are served in the order in which they
// came; the instance never has more than it takes.
func TestQueue_inOrder(t *testing.T) {
	t.Parallel()
	a := startGated(t, "a")
	r := startRig(t, setup{cfg: routed(func(r *Route) { r.Queue = Queue{Length: 50, Timeout: time.Minute} }), apps: []Instance{limited(a, "m1", 2)}})
	var answers []*bufio.Reader
	for n := range 12 {
		_, br := r.ask(t, fmt.Sprint("/", n), "")
		answers = append(answers, br)
		if n < 2 {
			<-a.came
		}
		eventually(t, "the request waits", func() bool { return r.waiting("shop") == max(n-1, 0) })
	}
	if c := r.counters("a"); c.InFlight != 2 {
		t.Errorf("%+v", c)
	}
	for n := 2; n < 12; n++ {
		a.let <- struct{}{}
		if got := <-a.came; got != fmt.Sprint("/", n) {
			t.Fatalf("request %d came when it was the turn of %d", n, n)
		}
	}
	a.let <- struct{}{}
	a.let <- struct{}{}
	for _, br := range answers {
		if resp, _ := read(t, br, "GET"); resp.StatusCode != 200 {
			t.Error(resp.Status)
		}
	}
	eventually(t, "all ended", func() bool { return r.Totals().InFlight == 0 && r.waiting("shop") == 0 })
	if a.most > 2 {
		t.Errorf("the instance had %d at a time", a.most)
	}
}

// Who finds the line full, or waits too long, is told to come again.
func TestQueue_fullAndTooLong(t *testing.T) {
	t.Parallel()
	a := startGated(t, "a")
	cfg := routed(func(r *Route) { r.Queue = Queue{Length: 1, Timeout: time.Hour} })
	r := startRig(t, setup{cfg: cfg, apps: []Instance{limited(a, "m1", 1)}})
	r.ask(t, "/1", "")
	<-a.came
	gone, _ := r.ask(t, "/2", "")
	eventually(t, "one waits", func() bool { return r.waiting("shop") == 1 })
	resp, body := r.request(t, "/3", "")
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || !strings.Contains(body, "no more can wait") {
		t.Errorf("%s %v %s", resp.Status, resp.Header, body)
	}
	gone.Close()
	eventually(t, "none waits", func() bool { return r.waiting("shop") == 0 })
	cfg.Routes[0].Queue.Timeout = 50 * time.Millisecond
	if err := r.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	resp, body = r.request(t, "/4", "")
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || !strings.Contains(body, "none became free in time") {
		t.Errorf("%s %v %s", resp.Status, resp.Header, body)
	}
	if got := r.waiting("shop"); got != 0 {
		t.Errorf("%d wait", got)
	}
	a.let <- struct{}{}
	eventually(t, "room again", func() bool { return r.Totals().InFlight == 0 })
	a.let <- struct{}{}
	if name, _, _ := r.get(t, ""); name != "a" {
		t.Error(name)
	}
}

// Without a queue nobody waits.
// However many come at once, no more wait than may.
func TestQueue_lengthHoldsForABurst(t *testing.T) {
	t.Parallel()
	g := &group{}
	rt := &route{Route: Route{Queue: Queue{Length: 10}}, turn: &turn{}, group: g}
	start := make(chan struct{})
	var waiting atomic.Int32
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			<-start
			if g.join(&waiter{rt: rt, ready: make(chan *instance, 1)}) {
				waiting.Add(1)
			}
		})
	}
	close(start)
	wg.Wait()
	if n := waiting.Load(); n != 10 || len(g.line) != 10 || g.waiting.Load() != 10 || rt.turn.queued.Load() != 10 {
		t.Errorf("%d wait, %d in line", n, len(g.line))
	}
}

func TestQueue_none(t *testing.T) {
	t.Parallel()
	a := startGated(t, "a")
	r := startRig(t, setup{cfg: routed(func(r *Route) { r.Queue = Queue{} }), apps: []Instance{limited(a, "m1", 1)}})
	r.ask(t, "/1", "")
	<-a.came
	if resp, _ := r.request(t, "/2", ""); resp.StatusCode != 503 {
		t.Error(resp.Status)
	}
}

// A client that hangs up is out of line, and its request reaches nobody.
func TestQueue_clientHangsUp(t *testing.T) {
	t.Parallel()
	a := startGated(t, "a")
	r := startRig(t, setup{cfg: routed(func(r *Route) { r.Queue = Queue{Length: 9, Timeout: time.Minute} }), apps: []Instance{limited(a, "m1", 1)}})
	r.ask(t, "/1", "")
	<-a.came
	gone, _ := r.ask(t, "/gone", "")
	eventually(t, "one waits", func() bool { return r.waiting("shop") == 1 })
	_, br := r.ask(t, "/3", "")
	eventually(t, "two wait", func() bool { return r.waiting("shop") == 2 })
	gone.Close()
	eventually(t, "one is gone", func() bool { return r.waiting("shop") == 1 })
	a.let <- struct{}{}
	if got := <-a.came; got != "/3" {
		t.Errorf("%s came", got)
	}
	a.let <- struct{}{}
	if resp, _ := read(t, br, "GET"); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
	if c := r.counters("a"); c.Failures != 0 {
		t.Errorf("%+v", c)
	}
}

// A client that is bound waits for its own instance; a new one takes whichever
// has room first, also when that comes after the bound one in line.
func TestQueue_boundClientsWaitForTheirOwn(t *testing.T) {
	t.Parallel()
	a, b := startGated(t, "a"), startGated(t, "b")
	apps := []Instance{limited(a, "m1", 1), limited(b, "m1", 1)}
	r := startRig(t, setup{cfg: routed(func(r *Route) { r.Queue = Queue{Length: 9, Timeout: time.Minute} }), apps: apps})
	cookie := ""
	for name := ""; name != "a"; {
		a.let <- struct{}{}
		b.let <- struct{}{}
		name, cookie, _ = r.get(t, "")
		select { // the other one's permission
		case <-a.let:
		case <-b.let:
		}
		select {
		case <-a.came:
		case <-b.came:
		}
		eventually(t, "it is over", func() bool { return r.Totals().InFlight == 0 })
	}
	r.ask(t, "/a", cookie)
	<-a.came
	r.ask(t, "/b", "")
	<-b.came
	_, mine := r.ask(t, "/mine", cookie)
	eventually(t, "the bound one waits", func() bool { return r.waiting("shop") == 1 })
	if c := r.counters("a"); c.Queued != 1 {
		t.Errorf("%+v", c)
	}
	_, any := r.ask(t, "/any", "")
	eventually(t, "both wait", func() bool { return r.waiting("shop") == 2 })
	b.let <- struct{}{}
	if got := <-b.came; got != "/any" {
		t.Errorf("b got %s", got)
	}
	if r.waiting("shop") != 1 {
		t.Error("the bound one left its line")
	}
	a.let <- struct{}{}
	if got := <-a.came; got != "/mine" {
		t.Errorf("a got %s", got)
	}
	a.let <- struct{}{}
	b.let <- struct{}{}
	for _, br := range []*bufio.Reader{mine, any} {
		resp, body := read(t, br, "GET")
		if resp.StatusCode != 200 || br == mine && (body != "a " || len(resp.Header["Set-Cookie"]) != 0) {
			t.Errorf("%s %q %v", resp.Status, body, resp.Header)
		}
	}
}

// Who waits learns of instances that come and go.
// Where the first choice cannot be used, whoever finds the second one full waits
// for it: it is no worse than a first one that is full.
func TestQueue_forASpareInstance(t *testing.T) {
	t.Parallel()
	far := startGated(t, "far")
	near, other := deaf(t, "near"), limited(far, "m2", 1)
	near.Local = true
	r := startRig(t, setup{cfg: routed(func(rt *Route) { rt.Local, rt.Queue.Timeout = true, time.Minute }), apps: []Instance{near, other}})
	_, first := r.ask(t, "/1", "")
	<-far.came
	_, second := r.ask(t, "/2", "")
	eventually(t, "the second request in line", func() bool { return r.waiting("shop") == 1 })
	far.let <- struct{}{}
	<-far.came
	far.let <- struct{}{}
	for n, br := range []*bufio.Reader{first, second} {
		if resp, body := read(t, br, "GET"); resp.StatusCode != 200 || body != "far " {
			t.Errorf("request %d: %d %q", n+1, resp.StatusCode, body)
		}
	}
}

func TestQueue_instancesChange(t *testing.T) {
	t.Parallel()
	a, b := startGated(t, "a"), startApp(t, "b", echo("b"))
	apps := []Instance{limited(a, "m1", 1)}
	r := startRig(t, setup{cfg: routed(func(r *Route) { r.Queue = Queue{Length: 9, Timeout: time.Minute} }), apps: apps})
	a.let <- struct{}{}
	_, cookie, _ := r.get(t, "")
	<-a.came
	eventually(t, "it is over", func() bool { return r.Totals().InFlight == 0 })
	r.ask(t, "/1", cookie)
	<-a.came
	_, bound := r.ask(t, "/bound", cookie)
	eventually(t, "one waits", func() bool { return r.waiting("shop") == 1 })
	_, any := r.ask(t, "/any", "")
	eventually(t, "two wait", func() bool { return r.waiting("shop") == 2 })
	apps = append(apps, instanceOf(b, "m2"))
	r.SetInstances(apps)
	if resp, body := read(t, any, "GET"); resp.StatusCode != 200 || !strings.HasPrefix(body, "b ") {
		t.Errorf("%s %s", resp.Status, body)
	}
	eventually(t, "the bound one goes on waiting", func() bool { return r.waiting("shop") == 1 && r.counters("a").Queued == 1 })
	apps[0].Health = Critical
	r.SetInstances(apps)
	resp, body := read(t, bound, "GET")
	if resp.StatusCode != 200 || !strings.HasPrefix(body, "b ") || len(resp.Header["Set-Cookie"]) != 1 {
		t.Errorf("%s %s %v", resp.Status, body, resp.Header)
	}
}

// A request whose body is still coming waits too, and arrives whole.
func TestQueue_bodies(t *testing.T) {
	t.Parallel()
	a := startGated(t, "a")
	got := make(chan message, 9)
	b := startApp(t, "b", digest(got, ok))
	r := startRig(t, setup{cfg: routed(func(r *Route) { r.Queue = Queue{Length: 9, Timeout: time.Minute} }), apps: []Instance{limited(a, "m1", 1)}})
	r.ask(t, "/1", "")
	<-a.came
	text := strings.Repeat("0123456789", 30_000)
	_, br := r.put(t, strings.NewReader(fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", len(text))), strings.NewReader(text))
	eventually(t, "it waits", func() bool { return r.waiting("shop") == 1 })
	r.SetInstances([]Instance{limited(a, "m1", 1), instanceOf(b, "m2")})
	if resp, _ := read(t, br, "POST"); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
	if m := <-got; !m.of(text) {
		t.Errorf("%+v", m)
	}
}

// However many come at once, nobody is sent more than it takes, nobody is
// forgotten in line, and all counters end at zero.
func TestQueue_stress(t *testing.T) {
	t.Parallel()
	var apps []Instance
	var all []*counting
	for n := range 3 {
		c := startCounting(t, fmt.Sprint("a", n))
		in := instanceOf(c.app, "m1")
		in.MaxConnections = n + 1
		apps, all = append(apps, in), append(all, c)
	}
	for _, how := range []Balance{RoundRobin, WeightedRoundRobin, Random, LeastLoad, Hash} {
		r := startRig(t, setup{cfg: routed(func(r *Route) {
			r.Balance, r.HashOn, r.Queue = how, HashPath, Queue{Length: 1000, Timeout: time.Minute}
		}), apps: apps})
		var wg sync.WaitGroup
		for n := range 40 {
			wg.Go(func() {
				nc, err := net.Dial("tcp", r.addr)
				if err != nil {
					t.Error(err)
					return
				}
				defer nc.Close()
				nc.SetDeadline(time.Now().Add(time.Minute))
				br, cookie := bufio.NewReader(nc), ""
				for k := range 25 {
					fmt.Fprintf(nc, "GET /%d HTTP/1.1\r\nHost: x\r\n%s\r\n", n*k, cookie)
					resp, _ := read(t, br, "GET")
					if resp.StatusCode != 200 {
						t.Errorf("%d: %s", how, resp.Status)
						return
					}
					if c := resp.Header.Get("Set-Cookie"); c != "" && n%2 == 0 {
						v, _, _ := strings.Cut(c, ";")
						cookie = "Cookie: " + v + "\r\n"
					}
				}
			})
		}
		wg.Wait()
		eventually(t, "all ended", func() bool { return r.Totals().InFlight == 0 })
		g := r.snap.Load().any[0].group
		g.mu.Lock() // the last answers may be there before who gave them has looked for others in line
		line := len(g.line)
		g.mu.Unlock()
		if g.waiting.Load() != 0 || line != 0 || r.waiting("shop") != 0 {
			t.Errorf("%d: %d still wait", how, g.waiting.Load())
		}
		for _, c := range r.Counters() {
			if c.Queued != 0 {
				t.Errorf("%+v", c)
			}
		}
		r.Close()
	}
	for n, c := range all {
		if c.most > n+1 {
			t.Errorf("one that takes %d had %d", n+1, c.most)
		}
	}
}

// counting is an app that counts the requests it has at a time. It counts one as
// ended before it answers.
type counting struct {
	*app
	mu        sync.Mutex
	now, most int
}

func startCounting(t testing.TB, name string) *counting {
	c := &counting{}
	c.app = startApp(t, name, func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			for line := ""; line != "\r\n"; {
				var err error
				if line, err = br.ReadString('\n'); err != nil {
					return
				}
			}
			c.mu.Lock()
			c.now++
			c.most = max(c.most, c.now)
			c.mu.Unlock()
			for range 3 {
				io.WriteString(io.Discard, name)
			}
			c.mu.Lock()
			c.now--
			c.mu.Unlock()
			if _, err := io.WriteString(nc, ok); err != nil {
				return
			}
		}
	})
	return c
}
