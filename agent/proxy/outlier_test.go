package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"pgregory.net/rapid"
)

// logText collects what a proxy logs.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// ejecting is a rig whose log can be read.
func ejecting(t *testing.T, cfg Config, apps ...Instance) (*rig, *logText) {
	t.Helper()
	l := &logText{}
	sess := newSessions()
	p, err := New(Options{Config: unhurried(cfg), Sessions: sess, TagKey: []byte("secret"), Log: hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: l})})
	if err != nil {
		t.Fatal(err)
	}
	p.SetInstances(apps)
	r := serveRig(t, p)
	r.sess = sess
	return r, l
}

func (r *rig) counters(id string) Counters {
	for _, c := range r.Counters() {
		if c.ID == id {
			return c
		}
	}
	return Counters{}
}

// switched is an app that answers like echo until it is told to do otherwise.
type switched struct {
	*app
	how atomic.Pointer[string] // nil: echo; "": break off; else the answer
}

func startSwitched(t testing.TB, name string) *switched {
	s := &switched{}
	good := echo(name)
	s.app = startApp(t, name, func(nc net.Conn) {
		how := s.how.Load()
		if how == nil {
			good(nc)
			return
		}
		buf := make([]byte, 4<<10)
		if _, err := nc.Read(buf); err == nil && *how != "" {
			io.WriteString(nc, *how)
		}
	})
	return s
}

// say makes it answer otherwise; connections that are there are ended.
func (s *switched) say(how string) {
	s.how.Store(&how)
	s.endAll()
}

func (s *switched) endAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.Close()
	}
}

func (s *switched) recover() {
	s.how.Store(nil)
	s.endAll()
}

// letIn lets an instance's ejection be over.
func (r *rig) letIn(t *testing.T, id string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now().UnixNano()
	for k, b := range r.backends {
		if k.id == id {
			b.back.Store(now)
			b.suspect.Store(now)
		}
	}
}

// An instance that breaks off one request after another is ejected, with one
// line in the log; its clients are bound anew, once, and it comes back.
func TestOutlier_brokenAnswers(t *testing.T) {
	t.Parallel()
	bad, good := startSwitched(t, "bad"), startApp(t, "good", echo("good"))
	cfg := routed(func(r *Route) {
		r.Outlier = Outlier{Failures: 3, For: time.Hour, AtMost: time.Hour, Percent: 50}
	})
	r, log := ejecting(t, cfg, instanceOf(bad.app, "m1"), instanceOf(good, "m2"))
	cookies := map[string]string{}
	for len(cookies) < 2 {
		name, cookie, _ := r.get(t, "")
		cookies[name] = cookie
	}
	// The end of a good answer may be counted a moment after the client has it.
	eventually(t, "all ended", func() bool { return r.Totals().InFlight == 0 })
	bad.say("")
	tries := 0
	for ; r.counters("bad").Ejected.IsZero(); tries++ {
		if tries == 3 {
			t.Fatal("not ejected after 3 failures")
		}
		if name, _, set := r.get(t, cookies["bad"]); name != "good" || !set {
			t.Fatalf("%s answered, cookie set %v", name, set)
		}
	}
	if tries != 3 || log.count("instance ejected") != 1 || log.count("the connection broke off") != 1 {
		t.Errorf("%d tries; log:\n%s", tries, log.b.String())
	}
	_, seen := bad.conns()
	name, next, set := r.get(t, cookies["bad"])
	if name != "good" || !set {
		t.Errorf("a client of the ejected one got %s, cookie set %v", name, set)
	}
	if name, _, set := r.get(t, next); name != "good" || set {
		t.Errorf("bound anew to %s, cookie set again %v", name, set)
	}
	for range 10 {
		if name, _, _ := r.get(t, ""); name != "good" {
			t.Errorf("a new client got %s", name)
		}
	}
	if _, now := bad.conns(); now != seen {
		t.Errorf("%d more connections to the ejected one", now-seen)
	}
	bad.recover()
	r.letIn(t, "bad")
	eventually(t, "the ejected one gets new clients again", func() bool {
		name, _, _ := r.get(t, "")
		return name == "bad"
	})
	eventually(t, "its return is in the log", func() bool { return log.count("gets traffic again") == 1 })
	if log.count("instance ejected") != 1 {
		t.Error("ejected again")
	}
}

// The ways to fail, and what is none.
func TestOutlier_whatCounts(t *testing.T) {
	t.Parallel()
	half := "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"
	for name, tc := range map[string]struct {
		how   string
		eject bool
	}{
		"broken":                  {"", true},
		"nonsense":                {"nonsense\r\n\r\n", true},
		"half an answer":          {half, true},
		"a status that counts":    {"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", true},
		"a status that does not":  {"HTTP/1.1 502 Oh\r\nContent-Length: 0\r\n\r\n", false},
		"an answer":               {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false},
		"an answer to the end":    {"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall", false},
		"no such page":            {"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", false},
		"head of an answer alone": {"HTTP/1.1 200 OK\r\nContent-", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad, good := startSwitched(t, "bad"), startApp(t, "good", echo("good"))
			bad.say(tc.how)
			r, _ := ejecting(t, routed(func(r *Route) {
				r.Outlier = Outlier{Failures: 4, Statuses: []int{500, 503}, For: time.Minute, AtMost: time.Minute, Percent: 50}
			}), instanceOf(bad.app, "m1"), instanceOf(good, "m2"))
			for range 10 {
				nc, _ := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
				io.Copy(io.Discard, nc)
			}
			eventually(t, "all ended", func() bool { return r.Totals().InFlight == 0 })
			if got := !r.counters("bad").Ejected.IsZero(); got != tc.eject {
				t.Errorf("ejected %v: %+v", got, r.counters("bad"))
			}
		})
	}
}

// D-05: clients that hang up say nothing about the instance.
func TestOutlier_clientsHangUp(t *testing.T) {
	t.Parallel()
	slow := startApp(t, "slow", func(nc net.Conn) { io.Copy(io.Discard, nc) })
	other := startApp(t, "other", func(nc net.Conn) { io.Copy(io.Discard, nc) })
	r, _ := ejecting(t, routed(func(r *Route) {
		r.Outlier = Outlier{Failures: 1, For: time.Minute, AtMost: time.Minute, Percent: 50}
	}), instanceOf(slow, "m1"), instanceOf(other, "m2"))
	for range 10 {
		nc, _ := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		eventually(t, "the request is there", func() bool { return r.Totals().InFlight == 1 })
		nc.Close()
		eventually(t, "the request is over", func() bool { return r.Totals().InFlight == 0 })
	}
	for _, id := range []string{"slow", "other"} {
		if c := r.counters(id); c.Failures != 0 || !c.Ejected.IsZero() {
			t.Errorf("%+v", c)
		}
	}
}

// Connections that are refused count, and with one instance left nobody is
// ejected.
func TestOutlier_neverTheLast(t *testing.T) {
	t.Parallel()
	cfg := routed(func(r *Route) { r.Outlier = Outlier{Failures: 2, For: time.Minute, AtMost: time.Minute, Percent: 100} })
	r, log := ejecting(t, cfg, deaf(t, "a"), deaf(t, "b"))
	for range 20 {
		if resp, _ := r.request(t, "/", ""); resp.StatusCode != 503 && resp.StatusCode != 502 {
			t.Fatal(resp.Status)
		}
	}
	if n := log.count("instance ejected"); n != 1 {
		t.Errorf("%d of two ejected", n)
	}
}

// At most the share is out at a time, but one may always be, and never the last
// that takes new clients.
func TestOutlier_share(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "instances")
		o := &Outlier{For: time.Second, AtMost: time.Minute, Percent: rapid.IntRange(0, 100).Draw(t, "percent")}
		rt := routeOver(RoundRobin, make1(n)...)
		for _, m := range rt.group.members {
			switch rapid.IntRange(0, 5).Draw(t, "state") {
			case 0:
				m.Draining = true
			case 1:
				m.Health = Critical
			}
		}
		now := time.Now()
		for _, m := range rt.group.members {
			rt.group.eject(m, o, now)
		}
		healthy, out, left, open := 0, 0, 0, 0
		for _, m := range rt.group.members {
			if m.usable() {
				healthy++
			}
			if m.ejected(now) {
				out++
			} else if m.open() {
				left++
			}
			if m.open() {
				open++
			}
		}
		if out > max(1, healthy*o.Percent/100) || open > 0 && left == 0 {
			t.Fatalf("%d of %d healthy ones are out at %d%%, %d are left", out, healthy, o.Percent, left)
		}
	})
}

// Each time is twice as long as the one before, up to a bound; long peace or a
// check that passes again begins anew.
func TestOutlier_growingTimes(t *testing.T) {
	t.Parallel()
	o := &Outlier{For: 10 * time.Second, AtMost: time.Minute, Percent: 50}
	rt := routeOver(RoundRobin, 1, 1)
	i := rt.active[0]
	now := time.Now()
	for n, want := range []time.Duration{10, 20, 40, 60, 60} {
		d, ok := rt.group.eject(i, o, now)
		if !ok || d != want*time.Second || !i.suspected(now.Add(d-1)) || i.suspected(now.Add(d)) {
			t.Fatalf("time %d: %v %v", n, d, ok)
		}
		if _, again := rt.group.eject(i, o, now); again {
			t.Fatal("ejected while it is out")
		}
		now = now.Add(d + time.Second)
	}
	now = now.Add(time.Minute)
	if d, _ := rt.group.eject(i, o, now); d != 10*time.Second {
		t.Errorf("after long peace: %v", d)
	}
	i.seen, i.wasUsable = true, false
	i.cameUp(now)
	if i.suspected(now) || i.ejected(now) {
		t.Error("still out although its check passes again")
	}
}

// An ejected instance starts slowly, as one that was down.
func TestOutlier_thenSlowStart(t *testing.T) {
	t.Parallel()
	rt := routeOver(RoundRobin, 1, 1)
	i := rt.active[0]
	i.SlowStart = 10 * time.Second
	now := time.Now()
	if _, ok := rt.group.eject(i, &Outlier{For: time.Second, AtMost: time.Minute, Percent: 50}, now); !ok {
		t.Fatal("not ejected")
	}
	k := picker{now: now.Add(6 * time.Second)}
	k.once(rt, rt.active, nil, false)
	if got := i.share(k.now); got != 0.5 || !k.slow {
		t.Errorf("half-way its share is %v, heeded %v", got, k.slow)
	}
}

// No new configuration makes a good answer cost a write that others read.
func TestOutlier_off(t *testing.T) {
	t.Parallel()
	bad, good := startSwitched(t, "bad"), startApp(t, "good", echo("good"))
	bad.say("")
	r, log := ejecting(t, routed(func(r *Route) { r.Outlier.Failures = 0 }), instanceOf(bad.app, "m1"), instanceOf(good, "m2"))
	for n := range 20 {
		if name, _, _ := r.get(t, ""); name != "good" {
			t.Fatalf("%d: %s", n, name)
		}
	}
	if c := r.counters("bad"); log.count("ejected") != 0 || c.Failures < 5 || !c.Ejected.IsZero() {
		t.Error(fmt.Sprintf("%+v", c), log.b.String())
	}
}
