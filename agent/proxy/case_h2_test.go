package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2Do asks over HTTP/2 and reads the whole answer.
func h2Do(t testing.TB, c *http.Client, q *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := c.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func h2Request(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	q, err := http.NewRequest(method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestCase_D02_overHTTP2(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		q, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		switch q.URL.Path {
		case "/refuse": // having read the head alone
			body := strings.Repeat("n", 50<<10)
			fmt.Fprintf(nc, "HTTP/1.1 413 Large\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			nc.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, br)
		case "/continue":
			io.WriteString(nc, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
			n, _ := io.Copy(io.Discard, q.Body)
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n%2d", n)
		}
	})
	r := startRig(t, setup{cfg: h2cConfig(), apps: []Instance{instanceOf(a, "m1")}})
	c := h2Client(t)
	c.Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
	for _, expect := range []bool{false, true} {
		q := h2Request(t, "POST", "http://"+r.addr+"/refuse", io.MultiReader(strings.NewReader(strings.Repeat("x", 8<<20))))
		if expect {
			q.Header.Set("Expect", "100-continue")
		}
		if resp, body := h2Do(t, c, q); resp.StatusCode != 413 || len(body) != 50<<10 {
			t.Errorf("expect %v: %v, %d bytes", expect, resp.Status, len(body))
		}
	}
	q := h2Request(t, "POST", "http://"+r.addr+"/continue", strings.NewReader("ten bytes."))
	q.Header.Set("Expect", "100-continue")
	var interim []string
	q = q.WithContext(httptrace.WithClientTrace(q.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			interim = append(interim, fmt.Sprint(code, h.Get("Link")))
			return nil
		},
	}))
	if resp, body := h2Do(t, c, q); resp.StatusCode != 200 || body != "10" || fmt.Sprint(interim) != "[100 102 103</x>]" && fmt.Sprint(interim) != "[102 103</x>]" {
		t.Errorf("%v %q %v", resp.Status, body, interim)
	}
	if n := r.idle(t); n.Failures != 0 || n.Requests != 3 {
		t.Errorf("%+v", n)
	}
}

func TestCase_D04_overHTTP2(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			io.WriteString(nc, map[string]string{
				"/length": "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n", "/chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
				"/304": "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", "/204": "HTTP/1.1 204 No Content\r\n\r\n",
				"/next": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext",
			}[q.URL.Path])
		}
	})
	r := startRig(t, setup{cfg: h2cConfig(), apps: []Instance{instanceOf(a, "m1")}})
	p := h2Raw(t, r.addr)
	for n, one := range []struct{ method, path, length string }{{"HEAD", "/length", "1234"}, {"HEAD", "/chunked", ""}, {"GET", "/304", "99"}, {"GET", "/204", ""}} {
		id := uint32(4*n + 1)
		p.headers(id, true, ":method", one.method, ":scheme", "http", ":authority", "x", ":path", one.path)
		h, ok := p.frame(id).(*http2.MetaHeadersFrame)
		if !ok || !h.StreamEnded() {
			t.Fatalf("%s %s: %v", one.method, one.path, h)
		}
		length := ""
		for _, f := range h.RegularFields() {
			switch f.Name {
			case "content-length":
				length = f.Value
			case "transfer-encoding":
				t.Errorf("%s %s: %v", one.method, one.path, f)
			}
		}
		if length != one.length {
			t.Errorf("%s %s: length %q", one.method, one.path, length)
		}
		p.headers(id+2, true, ":method", "GET", ":scheme", "http", ":authority", "x", ":path", "/next")
		if got := p.body(id + 2); got != "next" {
			t.Errorf("after %s: %q", one.path, got)
		}
	}
}

func TestCase_D05_overHTTP2(t *testing.T) {
	t.Parallel()
	left := make(chan struct{}, 100)
	begun := make(chan struct{}, 100)
	h1 := startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		begun <- struct{}{}
		io.Copy(io.Discard, br)
		left <- struct{}{}
	})
	h2 := startH2App(t, false, func(w http.ResponseWriter, q *http.Request) {
		begun <- struct{}{}
		<-q.Context().Done()
		left <- struct{}{}
	})
	for _, in := range []Instance{instanceOf(h1, "m1"), h2.instance("a2", "h2c")} {
		other := startApp(t, "other", echo("other"))
		idle := instanceOf(other, "m2")
		idle.Backup = true // would get what is tried again
		r := startRig(t, setup{cfg: h2cConfig(), apps: []Instance{in, idle}})
		c := h2Client(t)
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() {
				var body io.Reader
				if n%2 == 1 { // it leaves while it uploads
					pr, pw := io.Pipe()
					defer pw.Close()
					go pw.Write(make([]byte, 1000))
					body = pr
				}
				q := h2Request(t, "PUT", "http://"+r.addr+"/", body).WithContext(ctx)
				if resp, err := c.Do(q); !errors.Is(err, context.Canceled) {
					t.Errorf("%v %v", resp, err)
				}
			})
		}
		for range 20 {
			<-begun
		}
		cancel()
		all.Wait()
		for range 20 {
			soon(t, "the instance is told", left)
		}
		eventually(t, "nothing is under way", func() bool { return r.Totals().InFlight == 0 })
		if n := r.Totals(); n.Failures != 0 || n.Requests != 20 {
			t.Errorf("%+v", n)
		}
	}
}

func TestCase_D07_overHTTP2(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", echo("a1"))
	r := startRig(t, setup{cfg: h2cConfig(), apps: []Instance{instanceOf(a, "m1")}})
	p := h2Raw(t, r.addr)
	for n, path := range []string{"/a%2Fb", "/a//b", "/a/../b", "/%252e", "/x;y=1", "/?a=1;b=2&c=%zz&d", "/?", "//host/x", "/%e4"} {
		id := uint32(2*n + 1)
		p.headers(id, true, ":method", "GET", ":scheme", "http", ":authority", "x", ":path", path)
		if got := p.body(id); !strings.HasPrefix(got, "a1 "+path+" ") {
			t.Errorf("%s came as %q", path, got)
		}
	}
}

func TestCase_D08_overHTTP2(t *testing.T) {
	t.Parallel()
	events := make(chan string)
	h1 := startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\n\r\n")
		for e := range events {
			io.WriteString(nc, e)
			if e == "" {
				return
			}
		}
	})
	h2 := startH2App(t, false, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(200)
		http.NewResponseController(w).Flush()
		for e := range events {
			if e == "" {
				return
			}
			io.WriteString(w, e)
			http.NewResponseController(w).Flush()
		}
	})
	for _, in := range []Instance{instanceOf(h1, "m1"), h2.instance("a2", "h2c")} {
		r := startRig(t, setup{cfg: h2cConfig(), apps: []Instance{in}})
		resp, err := h2Client(t).Get("http://" + r.addr + "/")
		if err != nil {
			t.Fatal(err)
		}
		br := bufio.NewReader(resp.Body) // the head is here, and no event was
		for n := range 5 {
			events <- fmt.Sprintf("data: %d\n", n)
			if line, err := br.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", n) {
				t.Fatalf("%q %v", line, err)
			}
		}
		events <- ""
		if b, err := io.ReadAll(br); err != nil || len(b) != 0 {
			t.Errorf("end: %q %v", b, err)
		}
		resp.Body.Close()
	}
}

func TestCase_D09_overHTTP2(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	a := startApp(t, "a1", raw(got, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	r := startRig(t, setup{cfg: h2cConfig(), apps: []Instance{instanceOf(a, "m1")}})
	q := h2Request(t, "GET", "http://"+r.addr+"/", nil)
	q.Host = "[2001:db8::1]:80"
	for name, v := range map[string]string{"X-Forwarded-For": "192.0.2.66", "X-Forwarded-Proto": "https", "X-Forwarded-Port": "1", "Forwarded": "for=_x", "Rondel-Session": "mine"} {
		q.Header.Set(name, v)
	}
	h2Do(t, h2Client(t), q)
	head := <-got
	for _, line := range []string{"Host: [2001:db8::1]:80", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: [2001:db8::1]:80", "Via: 2 rondel"} {
		if !strings.Contains(head, "\r\n"+line+"\r\n") {
			t.Errorf("no %q in %q", line, head)
		}
	}
	for _, lie := range []string{"192.0.2.66", "proto=https", "_x", "mine", "Port"} {
		if strings.Contains(head, lie) {
			t.Errorf("%q in %q", lie, head)
		}
	}
}

// h2Peer is a client frame by frame.
type h2Peer struct {
	t  testing.TB
	fr *http2.Framer
	hb bytes.Buffer
	he *hpack.Encoder
}

func h2Raw(t testing.TB, addr string) *h2Peer {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return h2Over(t, nc)
}

// h2Over begins to speak HTTP/2 on a connection.
func h2Over(t testing.TB, nc net.Conn) *h2Peer {
	io.WriteString(nc, http2.ClientPreface)
	p := &h2Peer{t: t, fr: http2.NewFramer(nc, nc)}
	p.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	p.he = hpack.NewEncoder(&p.hb)
	p.fr.WriteSettings()
	return p
}

func (p *h2Peer) headers(id uint32, end bool, fields ...string) {
	p.t.Helper()
	p.hb.Reset()
	for i := 0; i < len(fields); i += 2 {
		p.he.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	if err := p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.hb.Bytes(), EndStream: end, EndHeaders: true}); err != nil {
		p.t.Fatal(err)
	}
}

// frame returns the next frame of a stream.
func (p *h2Peer) frame(id uint32) http2.Frame {
	p.t.Helper()
	for {
		f, err := p.fr.ReadFrame()
		if err != nil {
			p.t.Fatal(err)
		}
		if f.Header().StreamID == id {
			return f
		}
	}
}

// body reads a stream to its end.
func (p *h2Peer) body(id uint32) (body string) {
	p.t.Helper()
	for {
		switch f := p.frame(id).(type) {
		case *http2.DataFrame:
			body += string(f.Data())
			if f.StreamEnded() {
				return body
			}
		case *http2.RSTStreamFrame:
			return body + f.ErrCode.String()
		}
	}
}

// WebSockets come over HTTP/2 (RFC 8441) and reach instances as upgrades of
// HTTP/1.1, those too that speak HTTP/2.
func TestH2_webSocket(t *testing.T) {
	t.Parallel()
	socket := func(nc net.Conn) {
		br := bufio.NewReader(nc)
		q, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if q.Method != "GET" || q.Header.Get("Upgrade") != "websocket" || len(q.Header.Get("Sec-Websocket-Key")) != 24 || q.URL.Path != "/chat" {
			io.WriteString(nc, "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno")
			return
		}
		io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: chat\r\n\r\n")
		b, _ := io.ReadAll(br) // until the client has ended its half
		nc.Write(append([]byte("all of "), b...))
	}
	for _, protocol := range []string{"http1", "h2c"} {
		a := startApp(t, "a1", socket)
		in := instanceOf(a, "m1")
		in.Protocol = protocol
		r := startRig(t, setup{cfg: h2cConfig(), apps: []Instance{in}})
		p := h2Raw(t, r.addr)
		p.headers(1, false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/chat", ":authority", "x", "sec-websocket-version", "13")
		h, ok := p.frame(1).(*http2.MetaHeadersFrame)
		if !ok || h.PseudoValue("status") != "200" || h.StreamEnded() {
			t.Fatalf("%s: %v", protocol, h)
		}
		for _, f := range h.RegularFields() {
			if f.Name == "upgrade" || f.Name == "connection" || f.Name == "sec-websocket-accept" {
				t.Errorf("%s: %v", protocol, f)
			}
		}
		p.fr.WriteData(1, false, []byte("i"))
		p.fr.WriteData(1, true, []byte("t"))
		if got := p.body(1); got != "all of it" {
			t.Errorf("%s: %q", protocol, got)
		}
		p.headers(3, false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/other", ":authority", "x")
		if h := p.frame(3).(*http2.MetaHeadersFrame); h.PseudoValue("status") != "403" {
			t.Errorf("%s: refused with %v", protocol, h)
		}
		eventually(t, "nothing is under way", func() bool { return r.Totals().InFlight == 0 })
	}
}

// A request that an instance did not look at goes to the next one, whatever its
// method; one that it gave up is tried again only if it may be repeated.
func TestH2_refusedRequestsGoElsewhere(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", framed(func(fr *http2.Framer, h *http2.MetaHeadersFrame) {
		code := http2.ErrCodeRefusedStream
		if strings.HasPrefix(h.PseudoValue("path"), "/reset") {
			code = http2.ErrCodeInternal
		}
		fr.WriteRSTStream(h.StreamID, code)
	}))
	b := startApp(t, "b1", echo("b1"))
	first, second := instanceOf(a, "m1"), instanceOf(b, "m1")
	first.Protocol, second.Backup = "h2c", true
	cfg := h2cConfig()
	cfg.Routes[0].Outlier.Failures = 0 // it gets the first try each time
	r := startRig(t, setup{cfg: cfg, apps: []Instance{first, second}})
	for _, c := range []struct {
		method, path, body string
		status             int
	}{{"POST", "/refused", "ten bytes.", 200}, {"GET", "/refused", "", 200}, {"GET", "/reset", "", 200}, {"POST", "/reset", "ten bytes.", 502}} {
		_, br := r.send(t, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", c.method, c.path, len(c.body), c.body))
		resp, body := read(t, br, c.method)
		if resp.StatusCode != c.status || c.status == 200 && !strings.HasSuffix(body, fmt.Sprint(" ", len(c.body))) {
			t.Errorf("%s %s: %v %q", c.method, c.path, resp.Status, body)
		}
	}
}

// One client that does not read holds up neither its other streams nor others
// at the same connection to the instance.
func TestH2_slowReaderHoldsUpNobody(t *testing.T) {
	t.Parallel()
	a := startH2App(t, false, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/large" {
			w.Write(make([]byte, 8<<20))
		}
		io.WriteString(w, "end")
	})
	r := startRig(t, setup{cfg: h2cConfig(), apps: []Instance{a.instance("a1", "h2c")}})
	c := h2Client(t)
	c.Timeout = 0 // it is much that is read in the end
	var unread []*http.Response
	for range 5 {
		resp, err := c.Get("http://" + r.addr + "/large")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		unread = append(unread, resp)
	}
	for range 5 {
		if _, body := h2Get(t, c, "http://"+r.addr+"/"); body != "end" {
			t.Errorf("got %q", body)
		}
	}
	for _, resp := range unread {
		if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != 8<<20+3 {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
	if _, seen := a.conns(); seen != 1 {
		t.Errorf("%d connections", seen)
	}
}

// A response that breaks off is seen to, on its stream alone.
func TestH2_brokenResponse(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		q, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if q.URL.Path == "/breaks" {
			io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
			return
		}
		io.WriteString(nc, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
	})
	r := startRig(t, setup{cfg: h2cConfig(), apps: []Instance{instanceOf(a, "m1")}})
	p := h2Raw(t, r.addr)
	p.headers(1, true, ":method", "GET", ":scheme", "http", ":authority", "x", ":path", "/breaks")
	if got := p.body(1); got != "halfINTERNAL_ERROR" {
		t.Errorf("got %q", got)
	}
	p.headers(3, true, ":method", "GET", ":scheme", "http", ":authority", "x", ":path", "/")
	if got := p.body(3); got != "ok" {
		t.Errorf("got %q", got)
	}
}
