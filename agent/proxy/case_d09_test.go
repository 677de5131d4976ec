package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/rondel-project/rondel/agent/http1"
)

const spoofed = "X-Forwarded-For: 192.0.2.66\r\nX-Forwarded-For: 198.51.100.7, 127.0.0.9\r\n" +
	"X-Forwarded-Proto: https\r\nX_Forwarded_For: 9.9.9.9\r\nX-Forwarded-Host: evil\r\nForwarded: for=_x\r\nX-Forwarded-Port: 443\r\nRondel-Session: theirs\r\n" +
	"rondel_session: theirs\r\nRondel-Request-Id: theirs\r\nConnection: X-Hop, X-Forwarded-For, Forwarded, Rondel-Session\r\nX-Hop: 1\r\nKeep-Alive: 1\r\nTE: trailers, gzip\r\nX-Stays: 1\r\n"

// What the app is told of the client is true whatever the client says, for
// requests and handshakes; from trusted peers it is added to.
func TestCase_D09_forwardedFields(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		trusted   []netip.Prefix
		want, not []string
	}{
		"nobody trusted": {nil,
			[]string{"X-Forwarded-For: 127.0.0.1\r\n", "X-Forwarded-Proto: http\r\n", "X-Forwarded-Host: [2001:db8::1]:81\r\n", "Forwarded: for=\"127.0.0.1:", ";host=\"[2001:db8::1]:81\";proto=http\r\n", "TE: trailers\r\n", "X-Stays: 1\r\n"},
			[]string{"192.0.2.66", "evil", "_x", "theirs", "X-Hop", "Keep-Alive", "gzip", "9.9.9.9", "X-Forwarded-Port"}},
		"others trusted": {[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::/0")},
			[]string{"X-Forwarded-For: 127.0.0.1\r\n", "X-Forwarded-Proto: http\r\n"}, []string{"192.0.2.66", "evil", "_x", "theirs"}},
		"peer trusted": {[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			[]string{"X-Forwarded-For: 192.0.2.66, 198.51.100.7, 127.0.0.9, 127.0.0.1\r\n", "X-Forwarded-Proto: https\r\n", "X-Forwarded-Host: evil\r\n", "Forwarded: for=_x, for=\"127.0.0.1:", "X-Forwarded-Port: 443\r\n"},
			[]string{"theirs", "9.9.9.9"}},
	} {
		for _, how := range []string{"request", "handshake"} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				got := make(chan string, 1)
				reply, fields := ok, ""
				if how == "handshake" {
					reply, fields = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "Connection: Upgrade\r\nUpgrade: websocket\r\n"
				}
				a := startApp(t, "a1", raw(got, reply))
				cfg := routed(func(*Route) {})
				cfg.Trusted = tc.trusted
				r := startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(a, "m1")}})
				nc, br := r.send(t, "GET / HTTP/1.1\r\nHost: [2001:db8::1]:81\r\n"+spoofed+fields+"\r\n")
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					t.Fatal(err)
				}
				nc.Close()
				head := <-got
				for _, w := range tc.want {
					if how == "handshake" && strings.HasPrefix(w, "TE") {
						continue
					}
					if strings.Count(head, w) != 1 {
						t.Errorf("%q is not there once in %q", w, head)
					}
				}
				for _, w := range tc.not {
					if strings.Contains(head, w) {
						t.Errorf("%q is in %q", w, head)
					}
				}
				for _, field := range []string{"x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded", "rondel-session", "rondel-request-id", "host"} {
					if n := strings.Count(strings.ToLower(head), "\r\n"+field+":"); n != 1 {
						t.Errorf("%d fields of %s in %q", n, field, head)
					}
				}
				if id := resp.Header.Get("Rondel-Request-Id"); len(id) != 32 || !strings.Contains(head, "Rondel-Request-Id: "+id+"\r\n") {
					t.Errorf("request id %q", id)
				}
				if secure := strings.HasSuffix(resp.Header.Get("Set-Cookie"), "; Secure"); secure != (name == "peer trusted") {
					t.Errorf("cookie %q", resp.Header.Get("Set-Cookie"))
				}
			})
		}
	}
}

// The client is the rightmost hop that is not trusted, in one form of its address.
func TestCase_D09_whoTheClientIs(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48")}
	for _, tc := range []struct{ peer, fields, client, secure string }{
		{"192.0.2.1:5", "X-Forwarded-For: 192.0.2.66\r\nX-Forwarded-Proto: https\r\n", "192.0.2.1", "http"},
		{"10.0.0.1:5", "", "10.0.0.1", "http"},
		{"10.0.0.1:5", "X-Forwarded-For: 192.0.2.66\r\nX-Forwarded-Proto: HTTPS\r\n", "192.0.2.66", "https"},
		{"[::ffff:10.0.0.1]:5", "X-Forwarded-For: ::ffff:192.0.2.66\r\n", "192.0.2.66", "http"},
		{"10.0.0.1:5", "X-Forwarded-For: 198.51.100.1, 192.0.2.66, 10.0.0.2 ,10.0.0.3\r\n", "192.0.2.66", "http"},
		{"10.0.0.1:5", "X-Forwarded-For: 198.51.100.1\r\nX-Forwarded-For: 192.0.2.66\r\nX-Forwarded-For: 10.9.9.9\r\n", "192.0.2.66", "http"},
		{"10.0.0.1:5", "X-Forwarded-For: 10.0.0.3, 10.0.0.2\r\n", "10.0.0.3", "http"},
		{"10.0.0.1:5", "X-Forwarded-For: 192.0.2.66:4711\r\n", "192.0.2.66", "http"},
		{"10.0.0.1:5", "X-Forwarded-For: 2001:DB8:0:0::66\r\n", "2001:db8::66", "http"},
		{"10.0.0.1:5", "X-Forwarded-For: [2001:db8::66]:4711\r\n", "2001:db8::66", "http"},
		{"10.0.0.1:5", "X-Forwarded-For: [2001:db8::66]\r\n", "2001:db8::66", "http"},
		{"10.0.0.1:5", "X-Forwarded-For: 192.0.2.66, evil, 10.0.0.2\r\n", "10.0.0.2", "http"},
		{"10.0.0.1:5", "X-Forwarded-For: 192.0.2.66, , 10.0.0.2\r\n", "10.0.0.2", "http"},
		{"10.0.0.1:5", "X-Forwarded-For: unknown\r\n", "10.0.0.1", "http"},
		{"10.0.0.1:5", "X-Forwarded-For: 010.0.0.2\r\n", "10.0.0.1", "http"},
		{"10.0.0.1:5", "X-Forwarded-Proto: https, http\r\n", "10.0.0.1", "http"},
		{"10.0.0.1:5", "X-Forwarded-Proto: http\r\nX-Forwarded-Proto: https\r\n", "10.0.0.1", "https"},
		{"[2001:db8:1::5]:5", "X-Forwarded-For: fe80::1%eth0\r\n", "fe80::1", "http"},
		{"[2001:db8:2::5]:5", "X-Forwarded-For: 192.0.2.66\r\n", "2001:db8:2::5", "http"},
	} {
		var q http1.Request
		if err := q.Parse([]byte("GET / HTTP/1.1\r\nHost: x\r\n" + tc.fields + "\r\n")); err != nil {
			t.Fatal(err)
		}
		o := peerAt(netip.MustParseAddrPort(tc.peer), netip.AddrPort{}).origin(&q, trusted)
		if string(o.client) != tc.client || o.https != (tc.secure == "https") {
			t.Errorf("%s with %q: %s, https %v", tc.peer, tc.fields, o.client, o.https)
		}
	}
}

// Balancing by the client's address heeds nobody's word but trusted proxies'.
func TestCase_D09_balancingByAddress(t *testing.T) {
	t.Parallel()
	cfg := routed(func(rt *Route) { rt.Balance, rt.HashOn, rt.HashBalance = Hash, HashClientIP, 0 })
	_, list := fourApps(t)
	plain := startRig(t, setup{cfg: cfg, apps: list})
	cfg.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	trusting := startRig(t, setup{cfg: cfg, apps: list})
	names := func(r *rig, fields string) int {
		seen := map[string]bool{}
		for n := range 50 {
			_, br := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n"+fmt.Sprintf(fields, n)+"\r\n")
			_, body := read(t, br, "GET")
			seen[body[:2]] = true
		}
		return len(seen)
	}
	for _, fields := range []string{"X-Forwarded-For: 192.0.2.%d\r\n", "Forwarded: for=192.0.2.%d\r\n", "X-Real-Ip: 192.0.2.%d\r\n", "Client-Ip: 192.0.2.%d\r\n", "X_Forwarded_For: 192.0.2.%d\r\n"} {
		if n := names(plain, fields); n != 1 {
			t.Errorf("%q: reached %d instances", fields, n)
		}
	}
	if n := names(trusting, "X-Forwarded-For: 192.0.2.%d\r\n"); n != 4 {
		t.Errorf("50 clients reached %d instances", n)
	}
	if n := names(trusting, "X-Forwarded-For: 192.0.2.%d, 198.51.100.1\r\n"); n != 1 {
		t.Errorf("a client that makes hops up reached %d instances", n)
	}
}

// Host passes as it came, and instances, clients and listeners may be of v6.
func TestCase_D09_hostsAndV6(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"127.0.0.1", "::1"} {
		ln, err := net.Listen("tcp", net.JoinHostPort(addr, "0"))
		if err != nil && addr == "::1" {
			continue // a machine without v6 has nothing to get wrong
		} else if err != nil {
			t.Fatal(err)
		}
		rec := &recorder{}
		a := startAppOn(t, "a1", ln, rec.handle)
		p, err := New(Options{Config: routed(func(*Route) {}), Sessions: newSessions(), TagKey: []byte("secret")})
		if err != nil {
			t.Fatal(err)
		}
		p.SetInstances([]Instance{instanceOf(a, "m1")})
		own, err := net.Listen("tcp", net.JoinHostPort(addr, "0"))
		if err != nil {
			t.Fatal(err)
		}
		r := serveRigOn(t, p, own)
		for host, status := range map[string]int{
			"[2001:db8::1]": 200, "[2001:db8::1]:8080": 200, "[::]": 200, "[::ffff:192.0.2.1]:1": 200, "x": 200, "X.Example.COM.": 200, "x:80": 200, "x:": 200, "192.0.2.1": 200, "a_b": 200, "": 200, "%61": 200,
			"[::1]:99999": 400, "a@b": 400, "[::1": 400, "::1]": 400, "[::1]x": 400, "2001:db8::1": 400, "[fe80::1%25eth0]": 400, "[v1.x]": 400, "[]": 400, "x y": 400, "x/": 400, "x?": 400, "x#": 400, "x\\y": 400,
			":80": 400, "x:y": 400, "x:-1": 400, "x:1:2": 400, "\xe4": 400, "\"x\"": 400, "<x>": 400, own.Addr().String(): 200,
		} {
			nc, br := r.send(t, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
			resp, _ := read(t, br, "GET")
			nc.Close()
			if resp.StatusCode != status {
				t.Errorf("%q: %d", host, resp.StatusCode)
			}
			if status != 200 {
				continue
			}
			rec.mu.Lock()
			head := rec.heads[len(rec.heads)-1] + "\r\n"
			rec.mu.Unlock()
			node := `"` + net.JoinHostPort(addr, "")
			want := []string{"\r\nHost: " + host + "\r\n", "\r\nX-Forwarded-Host: " + host + "\r\n", "\r\nX-Forwarded-For: " + addr + "\r\n", "\r\nForwarded: for=" + node}
			if host != "" {
				want = append(want, `;host="`+host+`";proto=http`)
			}
			for _, w := range want {
				if strings.Count(head, w) != 1 {
					t.Errorf("%q is not there once in %q", w, head)
				}
			}
		}
		for text, status := range map[string]int{
			"GET / HTTP/1.1\r\n\r\n": 400, "GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n": 400, "GET / HTTP/1.1\r\nHost: x\r\nhost: y\r\n\r\n": 400,
			"GET / HTTP/1.0\r\n\r\n": 200, "GET / HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n": 400,
		} {
			_, br := r.send(t, text)
			resp, _ := read(t, br, "GET")
			if rest, _ := io.ReadAll(br); resp.StatusCode != status || len(rest) > 0 {
				t.Errorf("%q: %d, then %q", text, resp.StatusCode, rest)
			}
		}
	}
}
