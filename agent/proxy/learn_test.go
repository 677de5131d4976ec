package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/rondel-project/rondel/agent/member"
)

// loginApp sets a cookie of its own where it is asked to, and answers its name
// and the session that it was told of.
func loginApp(t *testing.T, name string) *app {
	return startApp(t, name, func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			more := ""
			switch q.URL.Path {
			case "/login":
				more = "Set-Cookie: x=y\r\nSet-Cookie: APPID=" + q.URL.RawQuery + "; Path=/\r\n"
			case "/logout":
				more = "Rondel-Session: drop\r\n"
			}
			body := name + " " + q.Header.Get("Rondel-Session")
			io.WriteString(nc, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s", len(body), more, body))
		}
	})
}

func TestLearn_clientsThatBringTheApplicationsCookieAlone(t *testing.T) {
	t.Parallel()
	var list []Instance
	for n, name := range []string{"a1", "a2", "a3", "a4"} {
		list = append(list, instanceOf(loginApp(t, name), member.ID(fmt.Sprintf("m%d", n+1))))
	}
	cfg := DefaultConfig()
	rt := DefaultRoute("shop")
	rt.Sticky.Learn = "APPID"
	cfg.Routes = []Route{rt}
	r := startRig(t, setup{cfg: cfg, apps: list})
	ask := func(r *rig, path, header string) (body string, ours []string) {
		t.Helper()
		_, br := r.send(t, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+header+"\r\n")
		resp, body := read(t, br, "GET")
		for _, c := range resp.Header["Set-Cookie"] {
			if strings.HasPrefix(c, "RONDEL=") {
				ours = append(ours, c)
			}
		}
		return body, ours
	}
	for user := range 8 {
		first, ours := ask(r, fmt.Sprintf("/login?user%d", user), "")
		if len(ours) != 1 {
			t.Fatalf("cookies %q", ours)
		}
		for range 2 {
			again, set := ask(r, "/", fmt.Sprintf("Cookie: b=c; APPID=user%d\r\n", user))
			if again != first {
				t.Errorf("user %d: %q became %q", user, first, again)
			}
			// It brings no cookie of ours, so it is given the same one.
			if len(set) != 1 || set[0] != ours[0] {
				t.Errorf("user %d: cookies %q, not %q", user, set, ours)
			}
		}
	}
	first, _ := ask(r, "/", "Cookie: APPID=user3\r\n")
	ask(r, "/logout", "Cookie: APPID=user3\r\n")
	if after, _ := ask(r, "/", "Cookie: APPID=user3\r\n"); strings.Fields(after)[1] == strings.Fields(first)[1] {
		t.Error("an ended session is remembered")
	}

	// Agents that have not learned a value agree on where it goes.
	other := startRig(t, setup{cfg: cfg, apps: list, position: 1})
	third := startRig(t, setup{cfg: cfg, apps: list, position: 2})
	for n := range 20 {
		header := fmt.Sprintf("Cookie: APPID=stranger%d\r\n", n)
		a, _ := ask(other, "/", header)
		b, _ := ask(third, "/", header)
		if a[:2] != b[:2] {
			t.Errorf("one agent sends a value to %s, another to %s", a[:2], b[:2])
		}
	}
}

func TestRecent_forgetsTheOldest(t *testing.T) {
	t.Parallel()
	r := newRecent[int](4)
	for n := range 10000 {
		r.put(fmt.Sprint(n), n)
		if v, ok := r.get("0"); !ok || v != 0 {
			t.Fatalf("what is asked for all the time is forgotten after %d", n)
		}
	}
	left := 0
	for n := range 10000 {
		if v, ok := r.get(fmt.Sprint(n)); ok {
			if left++; v != n {
				t.Errorf("%d became %d", n, v)
			}
		}
	}
	if left == 0 || left > 2*4*recentShards {
		t.Errorf("%d are remembered", left)
	}
	r.put("x", 1)
	r.forget("x")
	if _, ok := r.get("x"); ok {
		t.Error("what was to be forgotten is remembered")
	}
}
