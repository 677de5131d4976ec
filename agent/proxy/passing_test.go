package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// one starts a proxy in front of one app.
func one(t testing.TB, handle func(net.Conn)) (*rig, *app) {
	t.Helper()
	return oneIn(t, 0, handle)
}

func oneIn(t testing.TB, loops int, handle func(net.Conn)) (*rig, *app) {
	t.Helper()
	a := startApp(t, "a1", handle)
	return startRig(t, setup{loops: loops, apps: []Instance{instanceOf(a, "m1")}}), a
}

// eachWay runs a test with event loops, and where goroutines carry everything.
func eachWay(t *testing.T, test func(t *testing.T, loops int)) {
	t.Helper()
	for name, loops := range map[string]int{"loops": 2, "goroutines": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, loops)
		})
	}
}

// idle waits until no request is in flight, and returns the counters.
func (r *rig) idle(t testing.TB) Totals {
	t.Helper()
	eventually(t, "no request in flight", func() bool { return r.Totals().InFlight == 0 })
	return r.Totals()
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
			a := startApp(t, "a1", func(nc net.Conn) {
				br := bufio.NewReader(nc)
				for {
					q, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					say := ""
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
