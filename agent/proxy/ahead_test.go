package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func TestAhead_redirectToHTTPS(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", echo("a1"))
	for name, tc := range map[string]struct {
		port    uint16
		trusted bool
		request string
		status  int
		want    string
	}{
		"usual port":    {443, false, "GET /a?b=c HTTP/1.1\r\nHost: Shop.example.com:80\r\n\r\n", 308, "https://shop.example.com/a?b=c"},
		"other port":    {8443, false, "GET / HTTP/1.1\r\nHost: shop.example.com:8080\r\n\r\n", 308, "https://shop.example.com:8443/"},
		"POST":          {443, false, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab", 308, "https://x/a"},
		"IPv6":          {8443, false, "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 308, "https://[::1]:8443/"},
		"asterisk":      {443, false, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 308, "https://x/"},
		"no host":       {443, false, "GET / HTTP/1.0\r\n\r\n", 400, ""},
		"said https":    {443, false, "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-Proto: https\r\n\r\n", 308, "https://x/"},
		"trusted https": {443, true, "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-Proto: https\r\n\r\n", 200, ""},
		"trusted http":  {443, true, "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-Proto: http\r\n\r\n", 308, "https://x/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}, cfg: configWith(func(c *Config) {
				c.RedirectHTTPS, c.HTTPSPort = true, tc.port
				if tc.trusted {
					c.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
				}
			})})
			_, br := r.send(t, tc.request)
			method, _, _ := strings.Cut(tc.request, " ")
			resp, _ := read(t, br, method)
			if resp.StatusCode != tc.status || resp.Header.Get("Location") != tc.want {
				t.Errorf("%d %q, want %d %q", resp.StatusCode, resp.Header.Get("Location"), tc.status, tc.want)
			}
		})
	}
}

func TestAhead_noRedirectOfHTTPS(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", echo("a1"))
	lender := httptest.NewTLSServer(nil)
	lender.Close()
	p, err := New(Options{Config: configWith(func(c *Config) { c.RedirectHTTPS = true })})
	if err != nil {
		t.Fatal(err)
	}
	p.SetInstances([]Instance{instanceOf(a, "m1")})
	r := serveRigOn(t, p, &Door{Listener: listen(t), TLS: &tls.Config{Certificates: lender.TLS.Certificates}})
	nc, _ := r.send(t, "")
	tc := tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
	io.WriteString(tc, getRequest)
	if resp, _ := read(t, bufio.NewReader(tc), "GET"); resp.StatusCode != 200 {
		t.Errorf("%d", resp.StatusCode)
	}
}

// oneToken is asked for one token of one host.
type oneToken struct{}

func (oneToken) Covers(host string) bool { return host == "shop.example.com" }

func (oneToken) Answer(_ context.Context, token string) (string, bool) {
	return token + ".thumb", token == "tok-EN_1"
}

func TestAhead_challenges(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", echo("a1"))
	p, err := New(Options{Challenges: oneToken{}, Config: configWith(func(c *Config) { c.RedirectHTTPS, c.HTTPSPort = true, 443 })})
	if err != nil {
		t.Fatal(err)
	}
	p.SetInstances([]Instance{instanceOf(a, "m1")})
	r := serveRig(t, p)
	for request, want := range map[string]string{
		"GET /.well-known/acme-challenge/tok-EN_1 HTTP/1.1\r\nHost: Shop.example.com:80\r\n\r\n": "200 tok-EN_1.thumb\n",
		"GET /.well-known/acme-challenge/other HTTP/1.1\r\nHost: shop.example.com\r\n\r\n":       "404 no certificate authority has been promised an answer here\n",
		"GET /.well-known/acme-challenge/tok-EN_1 HTTP/1.1\r\nHost: other.example.com\r\n\r\n":   "308 this is served by https\n",
		"GET /.well-known/other HTTP/1.1\r\nHost: shop.example.com\r\n\r\n":                      "308 this is served by https\n",
	} {
		_, br := r.send(t, request)
		resp, body := read(t, br, "GET")
		if got := resp.Status[:4] + body; got != want {
			t.Errorf("%q: %q, want %q", request, got, want)
		}
	}
}
