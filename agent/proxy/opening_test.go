package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/proxyproto"
)

var everybody = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// headers answers with the header fields of the request, as JSON.
func headers(nc net.Conn) {
	r := bufio.NewReader(nc)
	for {
		q, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		b, _ := json.Marshal(q.Header)
		fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
	}
}

func configWith(change func(*Config)) Config {
	cfg := DefaultConfig()
	cfg.Routes = []Route{DefaultRoute("shop")}
	cfg = unhurried(cfg)
	change(&cfg)
	return cfg
}

// ask writes the bytes and returns the fields that the instance has seen, or
// nil if the connection was closed instead.
func ask(t *testing.T, r *rig, text string) http.Header {
	t.Helper()
	nc, br := r.send(t, text)
	defer nc.Close()
	return answerOf(t, br)
}

func answerOf(t *testing.T, br *bufio.Reader) http.Header {
	t.Helper()
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		return nil
	}
	if resp.StatusCode != 200 {
		return http.Header{"Status": {resp.Status}}
	}
	var seen http.Header
	if err := json.NewDecoder(resp.Body).Decode(&seen); err != nil {
		t.Fatal(err)
	}
	return seen
}

const getRequest = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

func v2Header(h proxyproto.Header) string { return string(proxyproto.V2.Append(nil, h)) }

func ends4() proxyproto.Header {
	return proxyproto.Header{Source: netip.MustParseAddrPort("192.0.2.9:4711"), Destination: netip.MustParseAddrPort("198.51.100.2:443")}
}

func TestOpening_theHeaderNamesTheClient(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", headers)
	r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}, cfg: configWith(func(c *Config) {
		c.PeerHeader, c.PeerHeaderFrom = PeerHeaderRequired, everybody
	})})
	for name, tc := range map[string]struct{ header, xff, forwarded string }{
		"v1 TCP4":    {"PROXY TCP4 192.0.2.9 198.51.100.2 4711 443\r\n", "192.0.2.9", `for="192.0.2.9:4711";`},
		"v1 TCP6":    {"PROXY TCP6 2001:db8::9 2001:db8::1 4711 443\r\n", "2001:db8::9", `for="[2001:db8::9]:4711";`},
		"v1 mapped":  {"PROXY TCP6 ::ffff:192.0.2.9 ::1 4711 443\r\n", "192.0.2.9", `for="192.0.2.9:4711";`},
		"v1 UNKNOWN": {"PROXY UNKNOWN\r\n", "127.0.0.1", `for="127.0.0.1:`},
		"v2 TCP4":    {v2Header(ends4()), "192.0.2.9", `for="192.0.2.9:4711";`},
		"v2 LOCAL":   {v2Header(proxyproto.Header{Local: true}), "127.0.0.1", `for="127.0.0.1:`},
		"v2 UNSPEC":  {v2Header(proxyproto.Header{}), "127.0.0.1", `for="127.0.0.1:`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := ask(t, r, tc.header+getRequest)
			if got := seen.Get("X-Forwarded-For"); got != tc.xff {
				t.Errorf("X-Forwarded-For %q, want %q", got, tc.xff)
			}
			if got := seen.Get("Forwarded"); !strings.HasPrefix(got, tc.forwarded) {
				t.Errorf("Forwarded %q, want %q", got, tc.forwarded)
			}
		})
	}
}

// A header that comes in pieces, with the request right behind its last byte,
// on a connection that is used for several requests.
func TestOpening_inPieces(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", headers)
	r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}, cfg: configWith(func(c *Config) {
		c.PeerHeader, c.PeerHeaderFrom = PeerHeaderRequired, everybody
	})})
	for _, h := range []string{"PROXY TCP4 192.0.2.9 198.51.100.2 4711 443\r\n", v2Header(ends4())} {
		nc, br := r.send(t, "")
		for _, piece := range []string{h[:1], h[1:13], h[13 : len(h)-1], h[len(h)-1:] + getRequest[:5], getRequest[5:]} {
			io.WriteString(nc, piece)
		}
		for range 3 {
			if got := answerOf(t, br).Get("X-Forwarded-For"); got != "192.0.2.9" {
				t.Fatalf("X-Forwarded-For %q", got)
			}
			io.WriteString(nc, getRequest)
		}
	}
}

// Who may send a header must, and nobody else is believed.
func TestCase_D09_onlyListedPeersSayWhoTheyAre(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", headers)
	elsewhere := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	line := "PROXY TCP4 192.0.2.9 198.51.100.2 4711 443\r\n"
	for name, tc := range map[string]struct {
		mode PeerHeader
		from []netip.Prefix
		text string
		want string // X-Forwarded-For, "closed", or a status
	}{
		"off, with one":                   {PeerHeaderOff, everybody, line + getRequest, "400 Bad Request"},
		"off, with version 2":             {PeerHeaderOff, everybody, v2Header(ends4()) + getRequest, "400 Bad Request"},
		"required and sent":               {PeerHeaderRequired, everybody, line + getRequest, "192.0.2.9"},
		"required and missing":            {PeerHeaderRequired, everybody, getRequest, "closed"},
		"required, sent by somebody else": {PeerHeaderRequired, elsewhere, line + getRequest, "closed"},
		"required, a client":              {PeerHeaderRequired, elsewhere, getRequest, "closed"},
		"required and malformed":          {PeerHeaderRequired, everybody, "PROXY TCP4 192.0.2.9 198.51.100.2 4711\r\n" + getRequest, "closed"},
		"listed and sent":                 {PeerHeaderListed, everybody, line + getRequest, "192.0.2.9"},
		"listed and missing":              {PeerHeaderListed, everybody, getRequest, "closed"},
		"listed, sent by somebody else":   {PeerHeaderListed, elsewhere, line + getRequest, "400 Bad Request"},
		"listed, a client":                {PeerHeaderListed, elsewhere, getRequest, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}, cfg: configWith(func(c *Config) {
				c.PeerHeader, c.PeerHeaderFrom = tc.mode, tc.from
			})})
			seen := ask(t, r, tc.text)
			got := "closed"
			if seen != nil {
				got = seen.Get("X-Forwarded-For") + seen.Get("Status")
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// The address of the header is the peer's for all that asks for it: what
// trusted proxies say, and the hash.
func TestCase_D09_theHeadersAddressCountsEverywhere(t *testing.T) {
	t.Parallel()
	a, b, c := startApp(t, "a1", echo("a1")), startApp(t, "b1", echo("b1")), startApp(t, "c1", echo("c1"))
	r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1"), instanceOf(b, "m2"), instanceOf(c, "m3")}, cfg: configWith(func(c *Config) {
		c.PeerHeader, c.PeerHeaderFrom = PeerHeaderRequired, everybody
		c.Trusted = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		c.Routes[0].Balance, c.Routes[0].HashOn, c.Routes[0].HashBalance = Hash, HashClientIP, 0
	})})
	to := func(source, spoofed string) string {
		t.Helper()
		nc, br := r.send(t, "PROXY TCP4 "+source+" 198.51.100.2 4711 443\r\nGET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: "+spoofed+"\r\n\r\n")
		defer nc.Close()
		_, body := read(t, br, "GET")
		return body[:2]
	}
	untrusted, trusted, bySource := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for n := range 50 {
		untrusted[to("203.0.113.7", fmt.Sprintf("198.18.0.%d", n))] = true
		trusted[to("192.0.2.1", fmt.Sprintf("198.18.0.%d", n))] = true
		bySource[to(fmt.Sprintf("203.0.113.%d", n), "198.18.0.1")] = true
	}
	if len(untrusted) != 1 {
		t.Errorf("an untrusted peer chooses its instance: %v", untrusted)
	}
	if len(trusted) != 3 || len(bySource) != 3 {
		t.Errorf("50 clients came to %v behind a trusted proxy, to %v directly", trusted, bySource)
	}
}

// A connection that says nothing holds up nobody and ends in time.
func TestOpening_silence(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", headers)
	lender := httptest.NewTLSServer(nil)
	lender.Close()
	p, err := New(Options{Config: configWith(func(c *Config) {
		c.PeerHeader, c.PeerHeaderFrom = PeerHeaderRequired, everybody
		c.Timeouts.Handshake = 3 * time.Second // which the one that speaks has, too
	}), Sessions: newSessions()})
	if err != nil {
		t.Fatal(err)
	}
	p.SetInstances([]Instance{instanceOf(a, "m1")})
	r := serveRigOn(t, p, &Door{Listener: listen(t), TLS: &tls.Config{Certificates: lender.TLS.Certificates}})
	var silent []*bufio.Reader
	for _, start := range []string{"", "PROXY TCP4 1", v2Header(ends4())[:14], "PROXY UNKNOWN\r\n", "PROXY UNKNOWN\r\n\x16\x03\x01"} {
		_, br := r.send(t, start)
		silent = append(silent, br)
	}
	nc, _ := r.send(t, "PROXY TCP4 192.0.2.9 198.51.100.2 4711 443\r\n")
	tc := tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
	io.WriteString(tc, getRequest)
	seen := answerOf(t, bufio.NewReader(tc))
	if seen.Get("X-Forwarded-For") != "192.0.2.9" || seen.Get("X-Forwarded-Proto") != "https" {
		t.Errorf("the instance saw %v", seen)
	}
	for n, br := range silent {
		if b, err := io.ReadAll(br); len(b) > 0 && n != 4 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d: %q, %v", n, b, err)
		}
	}
	eventually(t, "none is left", func() bool {
		p.connMu.Lock()
		defer p.connMu.Unlock()
		return len(p.conns) == 1
	})
}

// A stop does not wait for handshakes.
func TestOpening_stopWhileOpening(t *testing.T) {
	t.Parallel()
	p, err := New(Options{Config: configWith(func(c *Config) {
		c.PeerHeader, c.PeerHeaderFrom = PeerHeaderRequired, everybody
		c.Timeouts.Handshake, c.Timeouts.Drain = time.Hour, time.Hour
	})})
	if err != nil {
		t.Fatal(err)
	}
	r := serveRigOn(t, p, listen(t))
	_, br := r.send(t, "PROXY TCP4 1")
	eventually(t, "it is there", func() bool {
		p.connMu.Lock()
		defer p.connMu.Unlock()
		return len(p.conns) == 1
	})
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if b, _ := io.ReadAll(br); len(b) > 0 { // closed or, with bytes unread, reset
		t.Errorf("%q", b)
	}
}

func TestOpening_plainHTTPOnTheTLSPort(t *testing.T) {
	t.Parallel()
	lender := httptest.NewTLSServer(nil)
	lender.Close()
	p, err := New(Options{Config: configWith(func(*Config) {})})
	if err != nil {
		t.Fatal(err)
	}
	r := serveRigOn(t, p, &Door{Listener: listen(t), TLS: &tls.Config{Certificates: lender.TLS.Certificates}})
	_, br := r.send(t, getRequest)
	resp, body := read(t, br, "GET")
	if resp.StatusCode != 400 || !strings.Contains(body, "HTTPS") {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	_, br = r.send(t, "SSH-2.0-x\r\n\r\n\r\n")
	if b, _ := io.ReadAll(br); bytes.Contains(b, []byte("HTTP")) {
		t.Errorf("%q", b)
	}
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// What connections begin with may change while one is waited for, and whoever comes
// next is met by the new rule: when he goes to an event loop otherwise, too.
func TestOpening_theRuleMayChangeBetweenConnections(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", headers)
	with := func(rule PeerHeader) Config {
		return configWith(func(c *Config) { c.PeerHeader, c.PeerHeaderFrom = rule, everybody })
	}
	r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}, cfg: with(PeerHeaderOff)})
	const header = "PROXY TCP4 192.0.2.9 198.51.100.2 4711 443\r\n"
	for range 2 {
		for _, tc := range []struct {
			rule         PeerHeader
			header, want string
		}{{PeerHeaderOff, "", "127.0.0.1"}, {PeerHeaderRequired, header, "192.0.2.9"}} {
			if err := r.Reload(with(tc.rule)); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if got := ask(t, r, tc.header+getRequest).Get("X-Forwarded-For"); got != tc.want {
					t.Errorf("rule %d, connection %d: X-Forwarded-For %q, want %q", tc.rule, i, got, tc.want)
				}
			}
		}
	}
}
