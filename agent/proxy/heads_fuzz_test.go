package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
)

// deadEnd is a connection that nobody reads from.
type deadEnd struct{ net.Conn }

func (deadEnd) LocalAddr() net.Addr                { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9), Port: 80} }
func (deadEnd) RemoteAddr() net.Addr               { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711} }
func (deadEnd) Write(p []byte) (int, error)        { return len(p), nil }
func (deadEnd) Read([]byte) (int, error)           { return 0, io.EOF }
func (deadEnd) SetReadDeadline(t time.Time) error  { return nil }
func (deadEnd) SetWriteDeadline(t time.Time) error { return nil }

// headOf returns the first head of a message, if http1 finds one, and what is
// behind it.
func headOf(in []byte) (head, rest []byte, ok bool) {
	i := bytes.Index(in, []byte("\r\n\r\n"))
	if i < 0 {
		return nil, nil, false
	}
	return bytes.Clone(in[:i+4]), in[i+4:], true
}

// fuzzed is an exchange that has got as far as its request's head.
func fuzzed(p *Proxy, head []byte) (*exchange, bool) {
	c := newConn(p, deadEnd{}, newPeer(deadEnd{}), nil)
	if c.req.Parse(head) != nil {
		return nil, false
	}
	c.x.begin(c)
	c.x.rt = c.x.snap.match(c.req.Host, c.req.Path)
	c.x.prepare(true)
	c.x.id = "ours"
	c.x.inst = &instance{backend: &backend{}, tag: "12345678901"}
	return &c.x, true
}

func fuzzProxy(f *testing.F, trusted ...netip.Prefix) *Proxy {
	f.Helper()
	cfg := routed(func(*Route) {})
	cfg.Trusted = trusted
	p, err := New(Options{Config: cfg, Sessions: newSessions(), TagKey: []byte("secret")})
	if err != nil {
		f.Fatal(err)
	}
	return p
}

// FuzzRequestHead looks at what instances get for whatever a client says: one
// well-formed head, with the client's method, target, host and framing, and with
// Rondel's fields as Rondel wrote them, for net/http's reader as for ours.
func FuzzRequestHead(f *testing.F) {
	for _, tc := range smuggled {
		if len(tc.text) < 4096 {
			f.Add([]byte(tc.text), false)
		}
	}
	f.Add([]byte("GET / HTTP/1.1\r\nHost: [2001:db8::1]:81\r\n"+spoofed+"\r\n"), true)
	f.Add([]byte("GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c, websocket\r\n\r\n"), false)
	plain, trusting := fuzzProxy(f), fuzzProxy(f, netip.MustParsePrefix("192.0.2.0/24"))
	f.Fuzz(func(t *testing.T, in []byte, trusted bool) {
		p := plain
		if trusted {
			p = trusting
		}
		head, _, ok := headOf(in)
		if !ok {
			return
		}
		x, ok := fuzzed(p, head)
		if !ok {
			return
		}
		out := x.appendRequest(nil)
		var q http1.Request
		if err := q.Parse(bytes.Clone(out)); err != nil {
			t.Fatalf("%q leaves as %q: %v", head, out, err)
		}
		if bytes.Count(out, []byte("\r\n\r\n")) != 1 || !bytes.HasSuffix(out, []byte("\r\n\r\n")) {
			t.Fatalf("%q leaves as several heads: %q", head, out)
		}
		host := x.q.Host
		if host == nil {
			host = []byte("192.0.2.9:80")
		}
		if !bytes.Equal(q.Method, x.q.Method) || !bytes.Equal(q.Target, x.q.Target) || !bytes.Equal(q.Host, host) ||
			q.Framing != x.q.Framing || q.HasLength() != x.q.HasLength() || q.Length != x.q.Length || q.Minor != 1 {
			t.Fatalf("%q leaves as %q", head, out)
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(out)))
		if err != nil {
			if q.Target[0] == '/' || q.Target[0] == '*' {
				// Its URL parser refuses some targets that pass as bytes.
				r, err = http.ReadRequest(bufio.NewReader(bytes.NewReader(bytes.Replace(out, q.Target, []byte("/"), 1))))
			}
			if err != nil {
				t.Fatalf("%q leaves as %q, which others do not read: %v", head, out, err)
			}
		}
		for name, want := range map[string]string{"Rondel-Session": "ours", "Rondel-Request-Id": string(x.reqID[:])} {
			if v := r.Header.Values(name); len(v) != 1 || v[0] != want {
				t.Fatalf("%q leaves with %s %q", head, name, v)
			}
		}
		for name := range r.Header {
			if dashed := strings.ReplaceAll(name, "_", "-"); dashed != name && ours([]byte(dashed)) {
				t.Fatalf("%q leaves with a field %s", head, name)
			}
		}
		if v := r.Header.Values("X-Forwarded-For"); len(v) != 1 || !trusted && v[0] != "192.0.2.1" || !strings.HasSuffix(v[0], "192.0.2.1") {
			t.Fatalf("%q leaves with X-Forwarded-For %q", head, v)
		}
		for _, name := range []string{"Keep-Alive", "Proxy-Connection", "Http2-Settings", "Trailer"} {
			if r.Header.Get(name) != "" {
				t.Fatalf("%q leaves with %s", head, name)
			}
		}
		if up := r.Header.Get("Upgrade"); up != "" && !strings.EqualFold(up, "websocket") {
			t.Fatalf("%q asks for %q", head, up)
		}
	})
}

// FuzzResponseHead looks at what clients get for whatever an instance says: one
// well-formed head with at most one framing field and one cookie of ours.
func FuzzResponseHead(f *testing.F) {
	for _, tc := range hostileAnswers {
		if len(tc.reply) < 4096 {
			f.Add([]byte(tc.reply), uint8(0))
			f.Add([]byte(tc.reply), uint8(3))
		}
	}
	f.Add([]byte(head200+"Rondel-Session: drop\r\nContent-Length: 1\r\n\r\n"), uint8(1))
	asks := [4]string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HEAD / HTTP/1.1\r\nHost: x\r\nCookie: RONDEL=v9~1~1~x.12345678901\r\n\r\n",
		"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
	}
	p := fuzzProxy(f)
	f.Fuzz(func(t *testing.T, in []byte, kind uint8) {
		head, _, ok := headOf(in)
		if !ok {
			return
		}
		x, ok := fuzzed(p, []byte(asks[kind&3]))
		if !ok {
			t.Fatal("refused")
		}
		if x.resp.Parse(head, x.q.Method) != nil || x.resp.Status == 101 {
			return
		}
		chunk := x.resp.Framing == http1.UntilClose && x.q.Minor > 0
		out := x.appendResponse(nil, kind&4 == 0, chunk)
		if x.resp.Status < 200 {
			out = x.appendInterim(nil)
		}
		if bytes.Count(out, []byte("\r\n\r\n")) != 1 || !bytes.HasSuffix(out, []byte("\r\n\r\n")) {
			t.Fatalf("%q leaves as several heads: %q", head, out)
		}
		r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), &http.Request{Method: string(x.q.Method)})
		if err != nil {
			t.Fatalf("%q leaves as %q, which others do not read: %v", head, out, err)
		}
		lower := bytes.ToLower(out)
		lengths, codings := bytes.Count(lower, []byte("\r\ncontent-length:")), bytes.Count(lower, []byte("\r\ntransfer-encoding:"))
		if lengths+codings > 1 || (r.StatusCode < 200 || r.StatusCode == 204) && lengths+codings > 0 || x.q.Minor == 0 && codings > 0 {
			t.Fatalf("%q leaves as %q", head, out)
		}
		if x.resp.Framing == http1.Sized && r.ContentLength != x.resp.Length || r.StatusCode != x.resp.Status {
			t.Fatalf("%q leaves as %q", head, out)
		}
		if len(r.Header.Values("Rondel-Session")) != 0 || r.StatusCode >= 200 && (len(r.Header.Values("Rondel-Request-Id")) != 1 || r.Header.Get("Rondel-Request-Id") != string(x.reqID[:]) || r.Header.Get("Date") == "") {
			t.Fatalf("%q leaves with %v", head, r.Header)
		}
		cookies := 0
		for _, c := range r.Header.Values("Set-Cookie") {
			if strings.HasPrefix(c, "RONDEL=ours.") || strings.HasPrefix(c, "RONDEL=; Max-Age=0") {
				cookies++
			}
		}
		if came := bytes.Count(bytes.ToLower(head), []byte("rondel=")); cookies > 1+came {
			t.Fatalf("%q leaves with %d cookies", head, cookies)
		}
	})
}
