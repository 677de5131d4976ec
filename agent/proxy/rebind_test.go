package proxy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rondel-project/rondel/agent/member"
)

// Who has a cookie of Rondel's own and opens a link with somebody else's id
// changes nothing for those who bring that id alone, at no agent, whether or not
// it has seen the id, and whatever the application says to him.
func TestLearn_anothersIDIsNotTakenOver(t *testing.T) {
	t.Parallel()
	for _, carrier := range []struct{ path, header string }{
		{"/?sid=victim", ""},
		{"/a;jsessionid=victim", ""},
		{"/", "JSESSIONID=victim"},
		{"/?sid=victim", "JSESSIONID=mine"},
	} {
		t.Run(carrier.path+carrier.header, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, nil)
			app, session, _, _ := c.ask(t, 0, "/login", "Give: cookie=victim\r\n")
			bound, _ := c.shared.get("shop|victim")
			// The other has a session at another instance.
			var own string
			for n := 0; own == ""; n++ {
				if a, _, _, set := c.ask(t, n%3, "/", ""); a != app {
					own, _, _ = strings.Cut(set[0], ";")
				}
			}
			moved := flip(own, len(own)-1) // its tag is of no use: it is told another one
			for n := range 3 {
				for _, cookie := range []string{own, moved} {
					for _, give := range []string{"", "drop", "location=victim", "query=victim", "cookie=victim", "header=victim", "deleted"} {
						header := "Cookie: " + cookie + "; " + carrier.header + "\r\nGive: " + give + "\r\n"
						c.ask(t, n, carrier.path, header)
						if a, s, _, _ := c.ask(t, n, "/", "Cookie: JSESSIONID=victim\r\n"); a != app || s != session {
							t.Errorf("agent %d, %q: from %s with %s to %s with %s", n, header, app, session, a, s)
						}
					}
				}
			}
			for n := range 3 {
				c.rigs[n].stop()
			}
			if text, _ := c.shared.get("shop|victim"); text != bound {
				t.Errorf("%q became %q", bound, text)
			}
		})
	}
}

// The same at an agent that is alone.
func TestLearn_anothersIDIsNotTakenOverAlone(t *testing.T) {
	t.Parallel()
	var list []Instance
	for n, name := range []string{"a1", "a2", "a3", "a4"} {
		list = append(list, instanceOf(carrierApp(t, name), member.ID(fmt.Sprintf("m%d", n+1))))
	}
	cfg := DefaultConfig()
	rt := DefaultRoute("shop")
	rt.Sticky.Learn, rt.Sticky.LearnQuery = "JSESSIONID", "sid"
	cfg.Routes = []Route{rt}
	c := &cluster{rigs: []*rig{startRig(t, setup{cfg: cfg, apps: list})}}
	app, session, _, _ := c.ask(t, 0, "/login", "Give: cookie=victim\r\n")
	for range 8 {
		_, _, _, set := c.ask(t, 0, "/", "")
		own, _, _ := strings.Cut(set[0], ";")
		c.ask(t, 0, "/?sid=victim", "Cookie: "+own+"\r\n")
		c.ask(t, 0, "/?sid=victim", "Cookie: "+own+"\r\nGive: query=victim\r\n")
	}
	if a, s, _, _ := c.ask(t, 0, "/", "Cookie: JSESSIONID=victim\r\n"); a != app || s != session {
		t.Errorf("from %s with %s to %s with %s", app, session, a, s)
	}
}

// A client that brings both cookies takes the binding along where its own
// session goes, also by way of an agent that has not seen the id; and so does
// the application, where it gives the id out anew.
func TestLearn_theOwnersChangesAreFollowed(t *testing.T) {
	t.Parallel()
	for n, seen := range []bool{true, false} {
		t.Run(fmt.Sprint(seen), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, nil)
			app, session, _, set := c.ask(t, 0, "/login", "Give: cookie=v\r\n")
			own, _, _ := strings.Cut(set[0], ";")
			for _, a := range c.apps {
				if a.name == app {
					a.kill()
				}
			}
			next, s, _, set := c.ask(t, n, "/", "Cookie: "+own+"; JSESSIONID=v\r\n")
			if next == app || s != session || len(set) != 1 {
				t.Fatalf("from %s with %s to %s with %s, %q", app, session, next, s, set)
			}
			want, _, _ := strings.Cut(strings.TrimPrefix(set[0], "RONDEL="), ";")
			eventually(t, "the binding follows", func() bool { text, _ := c.shared.get("shop|v"); return text == want })

			// Its session has ended: the next one takes its place.
			for _, r := range c.rigs {
				r.sess.set(func() { r.sess.age, r.sess.dead[session] = DefaultConfig().SessionTTL, true })
			}
			_, other, _, set := c.ask(t, 2, "/login", "Give: cookie=v\r\n")
			if other == session || len(set) != 1 {
				t.Fatalf("%s, %q", other, set)
			}
			want, _, _ = strings.Cut(strings.TrimPrefix(set[0], "RONDEL="), ";")
			if text, _ := c.shared.get("shop|v"); text != want {
				t.Errorf("given out with %q, bound to %q", want, text)
			}
		})
	}
}
