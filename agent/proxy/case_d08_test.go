package proxy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Headers go at once, and each piece as it comes, whatever the content type
// and encoding: the next one is made only when the one before has arrived.
func TestCase_D08_nothingIsHeldBack(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{
		"text/event-stream", "text/event-stream; charset=utf-8", "Text/Event-Stream", "application/x-ndjson", "application/grpc", "application/octet-stream", "",
	} {
		for _, framing := range []string{"", "Transfer-Encoding: chunked\r\n", "Content-Length: 45\r\n"} {
			t.Run(kind+", "+framing, func(t *testing.T) {
				t.Parallel()
				next := make(chan string)
				done := make(chan struct{})
				r, a := one(t, func(nc net.Conn) {
					defer close(done)
					if _, err := http.ReadRequest(bufio.NewReader(nc)); err != nil {
						return
					}
					for s := range next {
						io.WriteString(nc, s)
					}
				})
				fields := framing
				if kind != "" {
					fields += "Content-Type: " + kind + "\r\n"
				}
				_, br := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n")
				next <- head200 + fields + "\r\n"
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					t.Fatal(err)
				}
				if resp.Header.Get("Content-Type") != kind || resp.Header.Get("Content-Encoding") != "" {
					t.Errorf("head %v", resp.Header)
				}
				for n := range 5 {
					event := fmt.Sprintf("data: %d\n\n", n)
					if n == 2 {
						event = ": alive\n\n" // a heart-beat
					}
					if strings.HasPrefix(framing, "T") {
						next <- fmt.Sprintf("%x\r\n%s\r\n", len(event), event)
					} else {
						next <- event
					}
					b := make([]byte, len(event))
					if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != event {
						t.Fatalf("%q %v", b, err)
					}
				}
				if strings.HasPrefix(framing, "T") {
					next <- "0\r\n\r\n"
				}
				close(next)
				if _, err := io.ReadAll(resp.Body); err != nil {
					t.Error(err)
				}
				<-done
				unharmed(t, r, a)
			})
		}
	}
}

// A stream may be silent for longer than an answer may take to begin, before
// its first event and between two.
func TestCase_D08_idleStreamsAreNotCut(t *testing.T) {
	t.Parallel()
	cfg := routed(func(*Route) {})
	const most, silence = 3 * time.Second, 4 * time.Second // a busy machine may need some of it to begin
	cfg.Timeouts.Response, cfg.Timeouts.Send, cfg.Timeouts.Body = most, most, most
	cfg.Timeouts.Idle, cfg.Timeouts.Upstream, cfg.Timeouts.Header = most, most, most
	pause := func(nc net.Conn) { // as long as nobody says anything
		nc.SetReadDeadline(time.Now().Add(silence))
		nc.Read(make([]byte, 1))
	}
	a := startApp(t, "a1", func(nc net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(nc)); err != nil {
			return
		}
		io.WriteString(nc, head200+"Content-Type: text/event-stream\r\n\r\n")
		for n := range 2 {
			pause(nc)
			fmt.Fprintf(nc, "data: %d\n\n", n)
		}
	})
	r := startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(a, "m1")}})
	began := time.Now()
	_, br := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if string(b) != "data: 0\n\ndata: 1\n\n" || err != nil || time.Since(began) < 2*silence {
		t.Errorf("%q %v after %s", b, err, time.Since(began))
	}
	unharmed(t, r, a)
}

// A client that leaves a silent stream ends it at the app; an app that ends one
// ends it at the client.
func TestCase_D08_endsOfStreams(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	r, a := one(t, func(nc net.Conn) {
		br := bufio.NewReader(nc)
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		io.WriteString(nc, head200+"Content-Type: text/event-stream\r\n\r\n")
		br.ReadByte()
		close(ended)
	})
	nc, br := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	rawHead(t, br)
	nc.Close()
	soon(t, "the app is told", ended)
	unharmed(t, r, a)

	gone := startApp(t, "a1", func(nc net.Conn) {
		nc.Read(make([]byte, 4096))
		io.WriteString(nc, head200+"Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 0\n\n\r\n")
		nc.(*net.TCPConn).SetLinger(0)
	})
	r = startRig(t, setup{apps: []Instance{instanceOf(gone, "m1")}})
	_, br = r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(resp.Body); err == nil || len(b) > 9 {
		t.Errorf("a stream that broke ended well: %q", b)
	}
}

// The same through TLS: an event is there before the next one is made.
func TestCase_D08_throughTLS(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	a := startApp(t, "a1", func(nc net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(nc)); err != nil {
			return
		}
		for s := range next {
			io.WriteString(nc, s)
		}
	})
	p, err := New(Options{Config: routed(func(*Route) {}), Sessions: newSessions(), TagKey: []byte("secret")})
	if err != nil {
		t.Fatal(err)
	}
	p.SetInstances([]Instance{instanceOf(a, "m1")})
	lender := httptest.NewTLSServer(nil) // of its certificate
	lender.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := serveRigOn(t, p, &Door{Listener: ln, TLS: &tls.Config{Certificates: lender.TLS.Certificates}})
	nc, err := tls.Dial("tcp", r.addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	next <- head200 + "Content-Type: text/event-stream\r\n\r\n"
	resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
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
	unharmed(t, r, a)
}
