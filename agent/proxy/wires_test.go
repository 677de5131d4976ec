package proxy

import (
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// Whom an instance with TLS is believed by, and what it is called.
func TestInstanceTLS(t *testing.T) {
	t.Parallel()
	a := startH2App(t, true, func(w http.ResponseWriter, q *http.Request) { io.WriteString(w, q.Proto) })
	roots := a.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs // good for example.com and 127.0.0.1
	for name, c := range map[string]struct {
		tls InstanceTLS
		ok  bool
	}{
		"believed":        {InstanceTLS{Roots: roots}, true},
		"named":           {InstanceTLS{Roots: roots, Name: "example.com"}, true},
		"by its service":  {InstanceTLS{Roots: roots, Name: "*.example.com"}, true},
		"another name":    {InstanceTLS{Roots: roots, Name: "*.example.org"}, false},
		"other authority": {InstanceTLS{Roots: x509.NewCertPool()}, false},
		"whoever":         {InstanceTLS{SkipVerify: true, Name: "x"}, true},
	} {
		for _, protocol := range []string{"h2", "https"} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				t.Parallel()
				cfg := h2cConfig()
				cfg.InstanceTLS = c.tls
				r := startRig(t, setup{cfg: cfg, apps: []Instance{a.instance("a1", protocol)}})
				resp, body := r.request(t, "/", "")
				if ok := resp.StatusCode == 200 && strings.HasPrefix(body, "HTTP/"); ok != c.ok {
					t.Errorf("%v %q", resp.Status, body)
				}
				if !c.ok && r.Totals().Failures == 0 {
					t.Error("no failure was counted")
				}
			})
		}
	}
}

// An instance that is said to speak HTTP/2 and speaks HTTP/1.1 cannot be
// reached, be it with TLS or without.
func TestInstance_speaksSomethingElse(t *testing.T) {
	t.Parallel()
	plain := startApp(t, "plain", echo("plain"))
	secure := httptest.NewTLSServer(nil)
	defer secure.Close()
	good := startApp(t, "good", echo("good"))
	for protocol, addr := range map[string]string{"h2c": plain.addr(), "h2": secure.Listener.Addr().String()} {
		cfg := h2cConfig()
		cfg.InstanceTLS.SkipVerify = true
		other := instanceOf(good, "m1")
		other.Backup = true
		r := startRig(t, setup{cfg: cfg, apps: []Instance{{Service: "shop", ID: "bad", Member: "m1", Addr: addr, Weight: 1, Health: Passing, Protocol: protocol}, other}})
		_, br := r.send(t, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
		if resp, body := read(t, br, "POST"); resp.StatusCode != 200 || !strings.HasPrefix(body, "good / ") || !strings.HasSuffix(body, " 2") {
			t.Errorf("%s: %v %q", protocol, resp.Status, body)
		}
	}
}

// Without h2c the preface is a request of another version, and an upgrade is
// no way in with it either.
func TestH2_onlyWhereWanted(t *testing.T) {
	t.Parallel()
	got := make(chan string, 2)
	a := startApp(t, "a1", raw(got, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	for _, on := range []bool{false, true} {
		cfg := h2cConfig()
		cfg.H2C = on
		r := startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(a, "m1")}})
		if !on {
			_, br := r.send(t, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
			if resp, _ := read(t, br, "GET"); resp.StatusCode != 505 {
				t.Errorf("%v", resp.Status)
			}
		}
		_, br := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n")
		if resp, _ := read(t, br, "GET"); resp.StatusCode != 200 {
			t.Errorf("%v", resp.Status)
		}
		if head := strings.ToLower(<-got); strings.Contains(head, "upgrade") || strings.Contains(head, "http2-settings") {
			t.Errorf("the instance got %q", head)
		}
	}
}

// A connection that a balancer announces is taken for HTTP/2 too, and each
// client's requests to an instance that wants to know of it go their own way.
func TestH2_behindABalancer(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	a := startApp(t, "a1", raw(got, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	cfg := h2cConfig()
	cfg.PeerHeader, cfg.PeerHeaderFrom = PeerHeaderListed, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	r := startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(a, "m1")}})
	nc, _ := r.send(t, "PROXY TCP4 192.0.2.7 192.0.2.1 4711 80\r\n")
	p := h2Over(t, nc)
	p.headers(1, true, ":method", "GET", ":scheme", "http", ":authority", "x", ":path", "/")
	if body := p.body(1); body != "ok" {
		t.Errorf("got %q", body)
	}
	if head := <-got; !strings.Contains(head, "X-Forwarded-For: 192.0.2.7\r\n") {
		t.Errorf("the instance got %q", head)
	}
}
