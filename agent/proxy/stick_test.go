package proxy

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

func fourApps(t testing.TB) ([]*app, []Instance) {
	var apps []*app
	var list []Instance
	for n := 1; n <= 4; n++ {
		name := fmt.Sprintf("a%d", n)
		a := startApp(t, name, echo(name))
		apps = append(apps, a)
		list = append(list, instanceOf(a, member.ID(fmt.Sprintf("m%d", n))))
	}
	return apps, list
}

func TestSticky_newClientsAreSpreadEvenly(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	for position := range 3 {
		r := startRig(t, setup{apps: list, position: position})
		count := map[string]int{}
		for range 100 {
			name, _, set := r.get(t, "")
			if !set {
				t.Fatal("no cookie")
			}
			count[name]++
		}
		for n := 1; n <= 4; n++ {
			if got := count[fmt.Sprintf("a%d", n)]; got != 25 {
				t.Errorf("position %d: a%d got %d of 100", position, n, got)
			}
		}
	}
}

func TestSticky_staysAndSaysNothing(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	r := startRig(t, setup{apps: list})
	other := startRig(t, setup{apps: list, sess: r.sess, position: 2})
	first, cookie, _ := r.get(t, "")
	for range 10 {
		for _, via := range []*rig{r, other} {
			name, _, set := via.get(t, cookie)
			if name != first || set {
				t.Fatalf("%s became %s, cookie set again: %v", first, name, set)
			}
		}
	}
}

func TestSticky_attributes(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	r := startRig(t, setup{apps: list})
	resp, body := r.request(t, "/", "")
	c := resp.Header.Get("Set-Cookie")
	if !strings.HasSuffix(c, "; Path=/; HttpOnly; SameSite=Lax") || !strings.HasPrefix(c, "RONDEL=v1~") {
		t.Errorf("cookie %q", c)
	}
	id := strings.Fields(body)[2]
	value, _, _ := strings.Cut(strings.TrimPrefix(c, "RONDEL="), ";")
	if got, tag := splitCookie([]byte(value)); string(got) != id || len(tag) != tagLen {
		t.Errorf("application got %q, cookie has %q and %q", id, got, tag)
	}
}

func TestSticky_reboundWhenItsInstanceIsGone(t *testing.T) {
	t.Parallel()
	apps, list := fourApps(t)
	r := startRig(t, setup{apps: list})
	first, cookie, _ := r.get(t, "")
	for _, a := range apps {
		if a.name == first {
			a.kill()
		}
	}
	next, cookie2, set := r.get(t, cookie)
	if next == first || !set {
		t.Fatalf("%s answered, cookie set: %v", next, set)
	}
	id, _ := splitCookie([]byte(cookie))
	id2, _ := splitCookie([]byte(cookie2))
	if string(id) != string(id2) {
		t.Errorf("session %s became %s", id, id2)
	}
	for range 3 {
		if name, _, set := r.get(t, cookie2); name != next || set {
			t.Errorf("moved again to %s, cookie set: %v", name, set)
		}
	}
}

func TestSticky_goesToOwnerThenSuccessor(t *testing.T) {
	t.Parallel()
	apps, list := fourApps(t)
	list[1].Member = "m1" // a1 and a2 on m1
	sess := newSessions()
	sess.successors = []member.ID{"m4", "m3"}
	r := startRig(t, setup{apps: list[:1], sess: sess})
	first, cookie, _ := r.get(t, "")
	if first != "a1" {
		t.Fatal(first)
	}
	r.SetInstances(list)
	apps[0].kill()
	second, cookie, _ := r.get(t, cookie)
	if second != "a2" {
		t.Fatalf("not to the other instance of the owner but to %s", second)
	}
	apps[1].kill()
	if third, _, _ := r.get(t, cookie); third != "a4" {
		t.Fatalf("not to the first successor but to %s", third)
	}
}

func TestSticky_followsTheOwnerOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		follow  Follow
		settled time.Duration
		age     time.Duration
		want    string
	}{
		"settled":        {FollowOwner, 11 * time.Second, time.Minute, "a2"},
		"not settled":    {FollowOwner, 9 * time.Second, time.Minute, "a1"},
		"owner is older": {FollowOwner, time.Hour, time.Minute, "a1"},
		"instance":       {FollowInstance, 11 * time.Second, time.Minute, "a1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, list := fourApps(t)
			sess := newSessions()
			sess.age = tc.age
			cfg := DefaultConfig()
			cfg.Routes = []Route{DefaultRoute("shop")}
			cfg.Routes[0].Sticky.Follow = tc.follow
			r := startRig(t, setup{apps: list[:2], sess: sess, cfg: cfg})
			first, cookie, _ := r.get(t, "")
			if first != "a1" {
				t.Fatal(first)
			}
			sess.set(func() { sess.owners[1], sess.settled = "m2", tc.settled })
			second, cookie, set := r.get(t, cookie)
			if second != tc.want || set != (tc.want != "a1") {
				t.Fatalf("went to %s, cookie set: %v", second, set)
			}
			if third, _, set := r.get(t, cookie); third != tc.want || set {
				t.Errorf("then to %s, cookie set: %v", third, set)
			}
		})
	}
}

func TestSticky_drainMaintenanceWeight(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Instance)
		stays  bool
	}{
		"drain":       {func(i *Instance) { i.Draining = true }, true},
		"weight 0":    {func(i *Instance) { i.Weight = 0 }, true},
		"maintenance": {func(i *Instance) { i.Maintenance = true }, false},
		"critical":    {func(i *Instance) { i.Health = Critical }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, list := fourApps(t)
			r := startRig(t, setup{apps: list})
			first, cookie, _ := r.get(t, "")
			for n := range list {
				if list[n].ID == first {
					tc.change(&list[n])
				}
			}
			r.SetInstances(list)
			if name, _, set := r.get(t, cookie); (name == first) != tc.stays || set == tc.stays {
				t.Errorf("%s now at %s, cookie set: %v", first, name, set)
			}
			for range 12 {
				if name, _, _ := r.get(t, ""); name == first {
					t.Error("it got a new client")
				}
			}
		})
	}
}

func TestSticky_noneLeft(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	for n := range list {
		list[n].Weight = 0
	}
	r := startRig(t, setup{apps: list})
	if resp, _ := r.request(t, "/", ""); resp.StatusCode != 503 {
		t.Errorf("status %d", resp.StatusCode)
	}
	r.SetInstances(nil)
	if resp, _ := r.request(t, "/", ""); resp.StatusCode != 503 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// D-13: what the cluster did not issue is as if absent.
func TestSticky_forgedValues(t *testing.T) {
	t.Parallel()
	apps, list := fourApps(t)
	r := startRig(t, setup{apps: list})
	_, cookie, _ := r.get(t, "")
	for _, a := range apps {
		if strings.Contains(cookie, a.addr()) || strings.Contains(cookie, a.name) {
			t.Errorf("cookie %q tells about %s", cookie, a.name)
		}
	}
	value := strings.TrimPrefix(cookie, "RONDEL=")
	dot := strings.LastIndexByte(value, '.')
	for i := dot + 1; i < len(value); i++ {
		if _, next, set := r.get(t, "RONDEL="+flip(value, i)); !set || !strings.HasPrefix(next, "RONDEL="+value[:dot]) {
			t.Errorf("byte %d: not rebound: %q", i, next)
		}
	}
	for _, v := range []string{"", ".", "x", "x.y", "v2" + value[2:], strings.Repeat("a", 4000), value[dot:], "127.0.0.1:80"} {
		if _, _, set := r.get(t, "RONDEL="+v); !set {
			t.Errorf("%q accepted", v)
		}
	}
}

func TestSticky_unknownKeyIsNeverReplaced(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	r := startRig(t, setup{apps: list})
	_, cookie, _ := r.get(t, "")
	unknown := strings.Replace(cookie, "v1~", "v9~", 1)
	resp, body := r.request(t, "/", unknown)
	if c := resp.Header.Get("Set-Cookie"); c != "" {
		t.Errorf("cookie replaced: %q", c)
	}
	if got := strings.Split(body, " ")[2]; got != "" {
		t.Errorf("application got %q", got)
	}
	r.sess.set(func() { r.sess.noTable = true })
	if resp, _ := r.request(t, "/", ""); resp.StatusCode != 200 || resp.Header.Get("Set-Cookie") != "" {
		t.Errorf("without a table: %d %q", resp.StatusCode, resp.Header.Get("Set-Cookie"))
	}
}

func TestSticky_deadSessionGetsNewID(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	sess := newSessions()
	sess.age = 20 * time.Minute
	r := startRig(t, setup{apps: list, sess: sess})
	_, living, _ := r.get(t, "")
	for range 3 {
		if _, _, set := r.get(t, living); set {
			t.Fatal("a living session was replaced")
		}
	}
	if sess.asked != 1 {
		t.Errorf("asked %d times", sess.asked)
	}
	for range 3 {
		r.get(t, "")
	}
	first, cookie, _ := r.get(t, "")
	id, _ := splitCookie([]byte(strings.TrimPrefix(cookie, "RONDEL=")))
	sess.set(func() { sess.dead[string(id)], sess.age = true, 0 })
	resp, body := r.request(t, "/", cookie)
	if c := resp.Header.Get("Set-Cookie"); c == "" || strings.Contains(c, string(id)) || strings.Contains(body, string(id)) {
		t.Errorf("dead id passed on: %q %q", c, body)
	}
	if name, _, _ := strings.Cut(body, " "); name != first {
		t.Errorf("instance changed from %s to %s", first, name)
	}
}

func TestSticky_nobodyKnowsIfItExists(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	sess := newSessions()
	sess.age, sess.mute = 20*time.Minute, true
	r := startRig(t, setup{apps: list, sess: sess})
	_, cookie, _ := r.get(t, "")
	if _, _, set := r.get(t, cookie); set {
		t.Error("replaced")
	}
}

// Nobody is waited for longer than that, nor asked again at once.
func TestSticky_howLongSomebodyIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sess := newSessions()
		sess.mute = true
		e, began := newExistence(), time.Now()
		c := &claim{id: "x", issued: began.Add(-time.Hour)}
		if e.gone(sess, c, time.Hour, began) {
			t.Error("it is gone because nobody could say")
		}
		if d := time.Since(began); d != existsTimeout {
			t.Errorf("took %s", d)
		}
		if e.unsure(c, time.Hour, began.Add(existsRetry-1)) || !e.unsure(c, time.Hour, began.Add(existsRetry)) {
			t.Error("somebody is asked again too early, or too late")
		}
	})
}

// D-14: two services under one cookie name leave each other's binding alone.
func TestSticky_twoServicesOneCookie(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	for n := range list {
		list[n].Service = []string{"s1", "s2"}[n%2]
		list[n].Member = "m1"
	}
	cfg := DefaultConfig()
	for _, s := range []string{"s1", "s2"} {
		rt := DefaultRoute(s)
		rt.Path = "/" + s
		cfg.Routes = append(cfg.Routes, rt)
	}
	r := startRig(t, setup{apps: list, cfg: cfg})
	resp, body := r.request(t, "/s1", "")
	cookie, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	want := map[string]string{"/s1": body[:2]}
	for range 20 {
		for _, path := range []string{"/s2", "/s1"} {
			resp, body := r.request(t, path, cookie)
			if c := resp.Header.Get("Set-Cookie"); c != "" {
				t.Fatalf("%s: cookie set again: %q", path, c)
			}
			if want[path] == "" {
				want[path] = body[:2]
			}
			if body[:2] != want[path] {
				t.Fatalf("%s: %s became %s", path, want[path], body[:2])
			}
		}
	}
}
