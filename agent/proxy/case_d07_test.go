package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/rondel-project/rondel/agent/http1"
)

// targets are what clients ask for, and what the app is to be asked for where
// that differs.
var targets = map[string]string{
	"/a%2Fb": "", "/a%2fb": "", "/a%3Ab": "", "/a//b": "", "/a/../b": "", "/a/./b": "", "/../..": "", "/%252e": "", "/%2e%2e/": "", "/x;y=1": "",
	"/?a=1;b=2&c=%zz&d": "", "/?": "", "/??": "", "//host/x": "", "///": "", "/%e4": "", "/a%00b": "", "/a%0d%0ab": "", "/%": "", "/%zz": "", "/%u00e4": "",
	"/\xe4": "", "/\xc3\xa4?\xff": "", "/a?b?c": "", "/{}|\\^`\"<>": "", "/'": "", "/a+b?a+b=%2B": "", "/?a=/../b": "", "/a:b": "", "/?http://x/": "",
	"/" + strings.Repeat("a/", 20000): "",
	"http://x/p?q":                    "/p?q", "HTTP://x": "/", "http://x?q": "/?q", "https://x/a//b": "/a//b", "http://x//": "//", "http://x:80/%2F": "/%2F",
}

// lines is an app that keeps the first lines of its requests as they came, and
// answers with reply or, without one, ends.
type lines struct {
	mu   sync.Mutex
	seen []string
}

func (l *lines) handle(reply string) func(net.Conn) {
	return func(nc net.Conn) {
		br := bufio.NewReaderSize(nc, 1<<17)
		for {
			line, err := br.ReadString('\n')
			if err != nil {
				return
			}
			for rest := line; rest != "\r\n"; {
				if rest, err = br.ReadString('\n'); err != nil {
					return
				}
			}
			l.mu.Lock()
			l.seen = append(l.seen, strings.TrimSuffix(line, "\r\n"))
			l.mu.Unlock()
			if reply == "" {
				return
			}
			io.WriteString(nc, reply)
		}
	}
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.seen...)
}

// Path and query arrive byte for byte, at each app that is tried.
func TestCase_D07_targetsAreLeftAlone(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{"at once": ok, "after one broke off": "", "after one said no": refusal} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var a0, a1 lines
			list := []Instance{instanceOf(startApp(t, "a0", a0.handle(first)), "m0"), instanceOf(startApp(t, "a1", a1.handle(ok)), "m1")}
			list[1].Backup = true // so that all go to the other one first
			r := startRig(t, setup{apps: list, cfg: routed(func(rt *Route) { rt.Retry.Statuses, rt.Outlier.Failures = []int{503}, 0 })})
			n := 0
			for sent, want := range targets {
				if want == "" {
					want = sent
				}
				nc, br := r.send(t, "GET "+sent+" HTTP/1.1\r\nHost: x\r\n\r\n")
				if resp, _ := read(t, br, "GET"); resp.StatusCode != 200 {
					t.Errorf("%q: %d, location %q", sent, resp.StatusCode, resp.Header.Get("Location"))
				}
				nc.Close()
				n++
				want = "GET " + want + " HTTP/1.1"
				all := a0.all()
				if first != ok {
					all = append(all[n-1:], a1.all()[n-1:]...)
				} else {
					all = all[n-1:]
				}
				for _, line := range all {
					if line != want {
						t.Errorf("%q became %q", sent, line)
					}
				}
			}
			if len(a1.all()) != 0 && first == ok {
				t.Error("the backup was asked")
			}
		})
	}
}

// What cannot be passed on as it is is refused, and nobody hears of it.
func TestCase_D07_targetsThatAreRefused(t *testing.T) {
	t.Parallel()
	var a lines
	r, _ := one(t, a.handle(ok))
	for _, target := range []string{
		"/a b", " /a", "/a ", "/a\tb", "/a\x00b", "/a\x01", "/a\x1f", "/a\x7f", "/a\rb", "/a#b", "", "a", "?a", "*", ":80", "x:80", "http://", "http:///a", "http://a b/", "http://x#", "ftp://x/", "http:a", "urn:x", "http://[::1/", "http://u:p@x/", "http://x:99999/",
	} {
		nc, br := r.send(t, "GET "+target+" HTTP/1.1\r\nHost: x\r\n\r\n"+canary)
		resp, _ := read(t, br, "GET")
		if rest, _ := io.ReadAll(br); resp.StatusCode != 400 || len(rest) != 0 {
			t.Errorf("%q: %d, then %q", target, resp.StatusCode, rest)
		}
		nc.Close()
	}
	if seen := a.all(); len(seen) != 0 {
		t.Errorf("the app saw %q", seen)
	}
}

// An absolute target says where to; the Host field does not, and the app gets one.
func TestCase_D07_absoluteTargets(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	r, _ := one(t, rec.handle)
	for text, want := range map[string]string{
		"GET http://other:81/p?q HTTP/1.1\r\nHost: x\r\n\r\n":         "GET /p?q @other:81",
		"GET http://[2001:db8::1]/ HTTP/1.1\r\nHost: x\r\n\r\n":       "GET / @[2001:db8::1]",
		"GET http://Other HTTP/1.0\r\n\r\n":                           "GET / @Other",
		"OPTIONS http://other HTTP/1.1\r\nHost: x\r\n\r\n":            "OPTIONS * @other",
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n":                       "OPTIONS * @x",
		"GET https://other/?http://evil/ HTTP/1.1\r\nHost: x\r\n\r\n": "GET /?http://evil/ @other",
	} {
		nc, br := r.send(t, text)
		if resp, _ := read(t, br, "GET"); resp.StatusCode != 200 {
			t.Errorf("%q: %d", text, resp.StatusCode)
		}
		nc.Close()
		rec.mu.Lock()
		n := len(rec.seen) - 1
		if got := rec.seen[n] + "@" + rec.hosts[n]; got != want || strings.Count(rec.heads[n], "\nHost:") != 1 || !strings.Contains(rec.heads[n], "X-Forwarded-Host: "+rec.hosts[n]+"\r\n") {
			t.Errorf("%q became %q: %q", text, got, rec.heads[n])
		}
		rec.mu.Unlock()
	}
}

// Routes and hash policies look at the same bytes: nothing is decoded, only & parts
// parameters, the first of a name counts, and a semicolon or plus is itself.
func TestCase_D07_whatPoliciesRead(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"/?a=1;b=2&c=%zz&d": "1;b=2", "/?c=%zz&a=%zz": "%zz", "/?a=x+y": "x+y", "/?a=x%20y": "x%20y", "/?a=1&a=2": "1", "/?b=1": "", "/": "", "/?a": "",
		"/?%61=1": "", "/?A=1": "", "/?&&a=b=c&": "b=c", "/?b=1;a=2": "", "/?a=\xe4": "\xe4", "/?x?a=1": "", "/a=1": "",
	} {
		x := &exchange{q: &http1.Request{}, rt: &route{Route: Route{Balance: Hash, HashOn: HashQuery, HashName: "a"}}}
		if err := x.q.Parse([]byte("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		if got := string(x.hashKey()); got != want {
			t.Errorf("%q: key %q, want %q", target, got, want)
		}
		x.rt = &route{Route: Route{Balance: Hash, HashOn: HashPath}}
		if path, _, _ := strings.Cut(target, "?"); string(x.hashKey()) != path {
			t.Errorf("%q: path %q", target, x.hashKey())
		}
	}
	// A path that an application would decode to another one is another one here.
	var shop, admin lines
	cfg := routed(func(*Route) {})
	rt := DefaultRoute("admin")
	rt.Path = "/admin"
	cfg.Routes = append(cfg.Routes, rt)
	list := []Instance{instanceOf(startApp(t, "a0", shop.handle(ok)), "m0"), instanceOf(startApp(t, "a1", admin.handle(ok)), "m0")}
	list[1].Service = "admin"
	r := startRig(t, setup{apps: list, cfg: cfg})
	for target, isAdmin := range map[string]bool{
		"/admin": true, "/admin/": true, "/admin?x": true, "/%61dmin": false, "//admin": false, "/x/../admin": false, "/admin%2f": false, "/Admin": false, "/admin;x": false, "/administrator": false,
	} {
		before := len(admin.all())
		resp, _ := r.request(t, target, "")
		if got := len(admin.all()) > before; got != isAdmin || resp.StatusCode != http.StatusOK {
			t.Errorf("%q: %d, to admin is %v", target, resp.StatusCode, got)
		}
	}
}
