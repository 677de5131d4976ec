package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/rondel-project/rondel/agent/member"
)

// one starts a proxy in front of one app.
func one(t testing.TB, handle func(net.Conn)) (*rig, *app) {
	t.Helper()
	a := startApp(t, "a1", handle)
	return startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}}), a
}

// idle waits until no request is in flight, and returns the counters.
func (r *rig) idle(t testing.TB) Totals {
	t.Helper()
	eventually(t, "no request in flight", func() bool { return r.Totals().InFlight == 0 })
	return r.Totals()
}

// D-07: path and query arrive as they were sent.
func TestPassing_targetIsLeftAlone(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	r, _ := one(t, raw(got, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	for sent, want := range map[string]string{
		"/a%2Fb": "", "/a//b": "", "/a/../b": "", "/%252e": "", "/x;y=1": "", "/?a=1;b=2&c=%zz&d": "", "/?": "",
		"//host/x": "", "/%e4": "", "/a%00b": "", "/\xe4": "", "/a?b?c": "", "/{}|": "",
		"http://other:81/p?q": "/p?q", "HTTP://other": "/", "http://other?q": "/?q",
	} {
		if want == "" {
			want = sent
		}
		_, br := r.send(t, "GET "+sent+" HTTP/1.1\r\nHost: x\r\n\r\n")
		read(t, br, "GET")
		line, rest, _ := strings.Cut(<-got, "\r\n")
		if line != "GET "+want+" HTTP/1.1" {
			t.Errorf("%q became %q", sent, line)
		}
		if strings.Contains(strings.ToLower(sent), "other") != strings.Contains(rest, "Host: other") {
			t.Errorf("%q: %q", sent, rest)
		}
	}
}

// D-09: forwarded headers tell the truth, whatever the client says.
func TestPassing_forwardedHeaders(t *testing.T) {
	t.Parallel()
	const spoofed = "GET / HTTP/1.1\r\nHost: [2001:db8::1]:81\r\nX-Forwarded-For: 192.0.2.66\r\nX-Forwarded-For: 198.51.100.7, 127.0.0.9\r\n" +
		"X-Forwarded-Proto: https\r\nX_Forwarded_For: 9.9.9.9\r\nX-Forwarded-Host: evil\r\nForwarded: for=_x\r\nRondel-Session: theirs\r\n" +
		"rondel_session: theirs\r\nRondel-Request-Id: theirs\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\nTE: trailers, gzip\r\nX-Stays: 1\r\n\r\n"
	for name, tc := range map[string]struct {
		trusted []netip.Prefix
		want    []string
		not     []string
	}{
		"nobody trusted": {nil,
			[]string{"X-Forwarded-For: 127.0.0.1\r\n", "X-Forwarded-Proto: http\r\n", "X-Forwarded-Host: [2001:db8::1]:81\r\n", "Forwarded: for=\"127.0.0.1:", ";host=\"[2001:db8::1]:81\";proto=http\r\n", "TE: trailers\r\n", "X-Stays: 1\r\n", "Connection: TE\r\n"},
			[]string{"192.0.2.66", "evil", "_x", "theirs", "X-Hop", "Keep-Alive", "gzip", "9.9.9.9"}},
		"peer trusted": {[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			[]string{"X-Forwarded-For: 192.0.2.66, 198.51.100.7, 127.0.0.9, 127.0.0.1\r\n", "X-Forwarded-Proto: https\r\n", "X-Forwarded-Host: evil\r\n", "Forwarded: for=_x, for=\"127.0.0.1:"},
			[]string{"theirs", "9.9.9.9"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan string, 1)
			a := startApp(t, "a1", raw(got, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nRondel-Request-Id: app\r\nConnection: X-Mine\r\nX-Mine: 1\r\n\r\n"))
			cfg := DefaultConfig()
			cfg.Routes = []Route{DefaultRoute("shop")}
			cfg.Trusted = tc.trusted
			r := startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(a, "m1")}})
			_, br := r.send(t, spoofed)
			resp, _ := read(t, br, "GET")
			head := <-got
			for _, w := range tc.want {
				if !strings.Contains(head, w) {
					t.Errorf("%q is missing in %q", w, head)
				}
			}
			for _, w := range tc.not {
				if strings.Contains(head, w) {
					t.Errorf("%q is in %q", w, head)
				}
			}
			id := resp.Header.Get("Rondel-Request-Id")
			if len(id) != 32 || !strings.Contains(head, "Rondel-Request-Id: "+id+"\r\n") || resp.Header.Get("X-Mine") != "" {
				t.Errorf("request id %q, head %v", id, resp.Header)
			}
			if secure := strings.HasSuffix(resp.Header.Get("Set-Cookie"), "; Secure"); secure != (tc.trusted != nil) {
				t.Errorf("cookie %q", resp.Header.Get("Set-Cookie"))
			}
		})
	}
}

func TestPassing_clientBehindTrustedProxies(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	rt := DefaultRoute("shop")
	rt.Balance, rt.HashOn = Hash, HashClientIP
	cfg.Routes = []Route{rt}
	_, list := fourApps(t)
	plain := startRig(t, setup{cfg: cfg, apps: list})
	cfg.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	trusting := startRig(t, setup{cfg: cfg, apps: list})
	names := func(r *rig) int {
		seen := map[string]bool{}
		for n := range 40 {
			_, br := r.send(t, fmt.Sprintf("GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.%d\r\n\r\n", n))
			_, body := read(t, br, "GET")
			seen[body[:2]] = true
		}
		return len(seen)
	}
	if n := names(plain); n != 1 {
		t.Errorf("spoofed addresses reached %d instances", n)
	}
	if n := names(trusting); n != 4 {
		t.Errorf("40 clients reached %d instances", n)
	}
}

// D-08: what comes goes on at once.
func TestPassing_eventStream(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	r, _ := one(t, func(nc net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(nc)); err != nil {
			return
		}
		for s := range next {
			io.WriteString(nc, s)
		}
	})
	_, br := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	next <- "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\n\r\n"
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		event := fmt.Sprintf("data: %d\n\n", n)
		next <- event
		b := make([]byte, len(event))
		if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != event {
			t.Fatalf("%q %v", b, err)
		}
	}
	close(next)
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Error(err)
	}
}

func TestPassing_largeBodies(t *testing.T) {
	t.Parallel()
	r, _ := one(t, func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			b, err := io.ReadAll(q.Body)
			if err != nil {
				return
			}
			if q.ContentLength < 0 {
				fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
				for piece := range slices.Chunk(b, 5000) {
					fmt.Fprintf(nc, "%x\r\n%s\r\n", len(piece), piece)
				}
				io.WriteString(nc, "0\r\n\r\n")
				continue
			}
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
		}
	})
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	for _, length := range []int64{int64(len(body)), -1} {
		tr := &http.Transport{}
		q, err := http.NewRequest("POST", "http://"+r.addr, io.NopCloser(bytes.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		q.ContentLength = length
		for range 2 {
			resp, err := tr.RoundTrip(q)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			if err != nil || !bytes.Equal(got, body) {
				t.Errorf("length %d: %d of %d bytes: %v", length, len(got), len(body), err)
			}
			q.Body = io.NopCloser(bytes.NewReader(body))
		}
		tr.CloseIdleConnections()
	}
}

func TestPassing_whatTheApplicationSaysOfItsSession(t *testing.T) {
	t.Parallel()
	sess := newSessions()
	rotated, _ := sess.Mint("m1")
	for name, tc := range map[string]struct{ says, cookie string }{
		"rotated": {rotated, "RONDEL=" + rotated + "."},
		"dropped": {"drop", "RONDEL=; Max-Age=0"},
		"foreign": {"made-up", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var say string
			a := startApp(t, "a1", func(nc net.Conn) {
				br := bufio.NewReader(nc)
				for {
					q, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					say = ""
					if q.URL.Path == "/say" {
						say = "Rondel-Session: " + tc.says + "\r\n"
					}
					io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=1\r\nSet-Cookie: a=1\r\n"+say+"\r\nok")
				}
			})
			r := startRig(t, setup{sess: sess, apps: []Instance{instanceOf(a, "m1")}})
			resp, _ := r.request(t, "/", "")
			set := resp.Header.Values("Set-Cookie")
			if len(set) != 3 || set[0] != "a=1" || set[1] != "a=1" {
				t.Fatalf("cookies %q", set)
			}
			cookie, _, _ := strings.Cut(set[2], ";")
			resp, _ = r.request(t, "/say", cookie)
			set = resp.Header.Values("Set-Cookie")[2:]
			if resp.Header.Get("Rondel-Session") != "" {
				t.Error("header passed on")
			}
			if tc.cookie == "" && len(set) != 0 || tc.cookie != "" && (len(set) != 1 || !strings.HasPrefix(set[0], tc.cookie)) {
				t.Errorf("cookies %q", set)
			}
		})
	}
}

func TestPassing_routes(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	var list []Instance
	for _, rt := range []struct{ name, host, path string }{
		{"any", "", "/"}, {"api", "", "/api"}, {"exact", "shop.example.com", "/"}, {"deep", "shop.example.com", "/a/b"}, {"suffix", "*.example.com", "/"},
		{"longer", "*.eu.example.com", "/"},
	} {
		route := DefaultRoute(rt.name)
		route.Host, route.Path = rt.host, rt.path
		cfg.Routes = append(cfg.Routes, route)
		in := instanceOf(startApp(t, rt.name, echo(rt.name)), "m1")
		in.Service = rt.name
		list = append(list, in)
	}
	r := startRig(t, setup{cfg: cfg, apps: list})
	for _, tc := range []struct{ host, path, want string }{
		{"x", "/", "any"}, {"x", "/api", "api"}, {"x", "/api/v1", "api"}, {"x", "/apiary", "any"}, {"x", "/api?q", "api"}, {"x", "/%61pi", "any"},
		{"shop.example.com", "/", "exact"}, {"SHOP.example.com.", "/api", "exact"}, {"shop.example.com:8780", "/a/b/c", "deep"},
		{"www.example.com", "/a/b", "suffix"}, {"example.com", "/", "any"}, {"a.eu.example.com", "/", "longer"}, {"[::1]:80", "/", "any"},
	} {
		_, br := r.send(t, "GET "+tc.path+" HTTP/1.1\r\nHost: "+tc.host+"\r\n\r\n")
		if _, body := read(t, br, "GET"); !strings.HasPrefix(body, tc.want+" ") {
			t.Errorf("%s%s went to %q, want %s", tc.host, tc.path, body, tc.want)
		}
	}
	cfg.Routes = cfg.Routes[2:3]
	if err := r.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if resp, _ := r.request(t, "/", ""); resp.StatusCode != 404 {
		t.Errorf("no route: %d", resp.StatusCode)
	}
}

func TestPassing_redirect(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Routes = []Route{DefaultRoute("shop")}
	cfg.Routes[0].Redirect = true
	a := startApp(t, "a1", echo("a1"))
	r := startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(a, member.ID("m1"))}})
	resp, _ := r.request(t, "/a//b?c", "")
	if resp.StatusCode != 307 || resp.Header.Get("Location") != "http://"+a.addr()+"/a//b?c" || resp.Header.Get("Set-Cookie") == "" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
}
