package proxy

import (
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

func TestStrict_ratherNothingThanAnInstanceWithoutTheSession(t *testing.T) {
	t.Parallel()
	// Slot 1 is owned by m1; its copies are on m2 and m3; m4 has none.
	apps := map[string]*app{}
	instances := func(names ...string) (list []Instance) {
		for _, name := range names {
			if apps[name] == nil {
				apps[name] = startApp(t, name, echo(name))
			}
			list = append(list, instanceOf(apps[name], member.ID("m"+name[1:2])))
		}
		return list
	}
	for _, strict := range []bool{true, false} {
		sess := newSessions()
		sess.successors = []member.ID{"m2", "m3"}
		cfg := DefaultConfig()
		rt := DefaultRoute("shop")
		rt.Sticky.Strict = strict
		cfg.Routes = []Route{rt}
		r := startRig(t, setup{cfg: cfg, sess: sess, apps: instances("a1")})
		name, cookie, _ := r.get(t, "")
		if name != "a1" {
			t.Fatal(name)
		}
		for _, step := range []struct {
			there []string
			want  string // "": none may
			back  Health // of the first
		}{
			{[]string{"a1", "b1", "a2", "a4"}, "a1", Passing},
			{[]string{"a1", "b1", "a2", "a4"}, "b1", Critical}, // the owner's other one
			{[]string{"a1", "a3", "a4"}, "a3", Critical},       // beside a copy
			{[]string{"a1", "a4"}, "", Critical},
			{[]string{"a1", "a4"}, "a1", Passing},
			{[]string{"a4"}, "", Passing},
		} {
			list := instances(step.there...)
			list[0].Health = step.back
			r.SetInstances(list)
			resp, body := r.request(t, "/", cookie)
			got, _, _ := strings.Cut(body, " ")
			switch {
			case step.want != "" && got != step.want:
				t.Errorf("strict %v, with %v: %d from %q, want %s", strict, step.there, resp.StatusCode, body, step.want)
			case step.want == "" && strict && (resp.StatusCode != 503 || !strings.Contains(body, "strict") || resp.Header.Get("Retry-After") == "" || resp.Header.Get("Set-Cookie") != ""):
				t.Errorf("with %v: %d, %q, %v", step.there, resp.StatusCode, body, resp.Header)
			case step.want == "" && !strict && got != "a4":
				t.Errorf("with %v: %q", step.there, body)
			}
			if step.want == "" {
				if fresh, _, set := r.get(t, ""); fresh != "a4" || !set {
					t.Errorf("strict %v: a new client gets %q", strict, fresh)
				}
			}
		}
	}
}

// A refused connection counts as little as a failed check: the strict client
// waits for its instance, others do not go without an answer.
func TestStrict_instanceThatRefuses(t *testing.T) {
	t.Parallel()
	a, b := startApp(t, "a1", echo("a1")), startApp(t, "b4", echo("b4"))
	cfg := DefaultConfig()
	rt := DefaultRoute("shop")
	rt.Sticky.Strict = true
	cfg.Routes = []Route{rt}
	r := startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(a, "m1"), instanceOf(b, "m4")}})
	var cookie string
	for range 2 {
		if name, c, _ := r.get(t, ""); name == "a1" {
			cookie = c
		}
	}
	a.kill()
	for range 3 {
		if resp, body := r.request(t, "/", cookie); resp.StatusCode != 503 || !strings.Contains(body, "strict") {
			t.Errorf("%d %q", resp.StatusCode, body)
		}
		if name, _, _ := r.get(t, ""); name != "b4" {
			t.Error(name)
		}
	}
	// An id that cannot be read now may be a session's.
	odd := strings.Replace(cookie, "=v1~", "=v9~", 1)
	if resp, body := r.request(t, "/", odd); resp.StatusCode != 503 || !strings.Contains(body, "strict") {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	// One that the cluster never issued is none.
	if resp, body := r.request(t, "/", "RONDEL=nonsense."+cookie[len(cookie)-tagLen:]); resp.StatusCode != 200 {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
}

// A strict client waits for the instance that has its session, not for another.
func TestStrict_waitsForItsOwn(t *testing.T) {
	t.Parallel()
	gate := make(chan string, 1)
	a := startApp(t, "a1", raw(gate, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na1 "))
	b := startApp(t, "b4", echo("b4"))
	list := []Instance{instanceOf(a, "m1"), instanceOf(b, "m4")}
	list[0].MaxConnections = 1
	cfg := DefaultConfig()
	rt := DefaultRoute("shop")
	rt.Sticky.Strict = true
	rt.Queue = Queue{Length: 4, Timeout: 30 * time.Millisecond}
	cfg.Routes = []Route{rt}
	r := startRig(t, setup{cfg: cfg, apps: list})
	var cookie string
	for range 2 {
		if name, c, _ := r.get(t, ""); name == "a1" {
			cookie = c
			<-gate
		}
	}
	eventually(t, "both are over", func() bool { return r.Totals().InFlight == 0 })
	gate <- "" // the next one is held up
	_, first := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\nCookie: "+cookie+"\r\n\r\n")
	eventually(t, "one is under way", func() bool { return r.Totals().InFlight == 1 })
	if resp, body := r.request(t, "/", cookie); resp.StatusCode != 503 || strings.HasPrefix(body, "b4") {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	<-gate
	<-gate
	if resp, _ := read(t, first, "GET"); resp.StatusCode != 200 {
		t.Error(resp.StatusCode)
	}
}
