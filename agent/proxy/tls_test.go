package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Interrupted reads must not harm a connection that speaks TLS: slow answers
// have somebody watch the client, who is told to stop when the answer comes.
func TestTLS_slowAnswersUploadsAndTunnels(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			n, err := io.Copy(io.Discard, q.Body)
			if err != nil {
				return
			}
			if q.URL.Path == "/ws" {
				io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				b, _ := io.ReadAll(br) // until the client has ended its half
				nc.Write(append([]byte("all of "), b...))
				return
			}
			if q.URL.Path == "/hang" {
				br.ReadByte()
				return
			}
			if q.URL.Path == "/slow" {
				<-time.After(watchAfter * 5 / 4)
			}
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n%9d", n)
		}
	})
	cfg := DefaultConfig()
	cfg.Routes = []Route{DefaultRoute("shop")}
	cfg.Timeouts.Handshake, cfg.Timeouts.Header = time.Minute, time.Minute
	p, err := New(Options{Config: unhurried(cfg), Sessions: newSessions(), TagKey: []byte("k")})
	if err != nil {
		t.Fatal(err)
	}
	p.SetInstances([]Instance{instanceOf(a, "m1")})
	// The standard library's test server has a certificate to borrow.
	lender := httptest.NewTLSServer(nil)
	lender.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := serveRigOn(t, p, &Door{Listener: ln, TLS: &tls.Config{Certificates: lender.TLS.Certificates}})
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	dial := func() (*tls.Conn, *bufio.Reader) {
		t.Helper()
		nc, err := d.DialContext(context.Background(), "tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		nc.SetDeadline(time.Now().Add(time.Minute))
		return nc.(*tls.Conn), bufio.NewReader(nc)
	}
	nc, br := dial()
	body := bytes.Repeat([]byte("0123456789"), 50_000)
	for n := range 6 {
		path, length := "/slow", 0
		if n%2 == 1 {
			path, length = "/", len(body)
		}
		fmt.Fprintf(nc, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", path, length)
		if _, err := nc.Write(body[:length]); err != nil {
			t.Fatal(err)
		}
		resp, got := read(t, br, "POST")
		if want := fmt.Sprintf("%9d", length); got != want || resp.Close {
			t.Fatalf("request %d: %q, close %v", n, got, resp.Close)
		}
		if c := resp.Cookies(); len(c) != 1 || !c[0].Secure {
			t.Errorf("cookies %v", c)
		}
	}
	nc.Close()

	nc, br = dial()
	io.WriteString(nc, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 101 {
		t.Fatalf("%v %v", resp, err)
	}
	io.WriteString(nc, "it")
	if err := nc.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(br); err != nil || string(b) != "all of it" {
		t.Errorf("%q %v", b, err)
	}

	// A client that leaves while it waits ends the request.
	eventually(t, "nothing is under way", func() bool { return r.Totals().InFlight == 0 })
	nc, _ = dial()
	io.WriteString(nc, "GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
	eventually(t, "it is under way", func() bool { return r.Totals().InFlight == 1 })
	nc.Close()
	eventually(t, "nothing is under way", func() bool { return r.Totals().InFlight == 0 })

	// Who does not speak TLS is not answered, and hinders nobody.
	plain, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	plain.SetDeadline(time.Now().Add(patience))
	io.WriteString(plain, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if b, _ := io.ReadAll(plain); bytes.Contains(b, []byte(" 200 ")) {
		t.Errorf("got %q", b)
	}
}
