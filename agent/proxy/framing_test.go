package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Responses that are framed otherwise than the client can take.
func TestFraming_responses(t *testing.T) {
	t.Parallel()
	const chunkedReply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-Sum: 1\r\nRondel-Session: 7\r\n\r\n"
	for name, tc := range map[string]struct {
		request, reply, body string
		status               int
		closes, broken       bool
	}{
		"chunked":           {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", chunkedReply, "abcde", 200, false, false},
		"chunked, to 1.0":   {"GET / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n", chunkedReply, "abcde", 200, true, false},
		"until close":       {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nabcde", "abcde", 200, false, false},
		"until close, 1.0":  {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nabcde", "abcde", 200, true, false},
		"length, 1.0":       {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde", "abcde", 200, false, false},
		"cut short":         {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabcde", "abcde", 200, true, true},
		"bad chunk":         {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\nzz\r\n", "abcde", 200, true, true},
		"two lengths":       {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde", "", 502, false, false},
		"identity":          {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nabcde", "", 502, false, false},
		"not HTTP":          {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-x\r\n\r\n", "", 502, false, false},
		"folded":            {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "", 502, false, false},
		"nothing":           {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "", "", 502, false, false},
		"half a head":       {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nConte", "", 502, false, false},
		"length and chunks": {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n", "abcde", 200, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startApp(t, "a1", func(nc net.Conn) {
				if _, err := http.ReadRequest(bufio.NewReader(nc)); err == nil {
					io.WriteString(nc, tc.reply)
				}
			})
			r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}})
			_, br := r.send(t, tc.request)
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			if (err != nil) != tc.broken {
				t.Errorf("broken: %v", err)
			}
			if resp.StatusCode != tc.status || tc.status == 200 && string(b) != tc.body {
				t.Errorf("%d %q", resp.StatusCode, b)
			}
			if !tc.broken && resp.Close != tc.closes {
				t.Errorf("close is %v", resp.Close)
			}
			if name == "chunked" && (resp.Trailer.Get("X-Sum") != "1" || resp.Trailer.Get("Rondel-Session") != "") {
				t.Errorf("trailers %v", resp.Trailer)
			}
		})
	}
}

// D-11: limits and their statuses.
func TestFraming_limits(t *testing.T) {
	t.Parallel()
	big := func(n int) string { return strings.Repeat("x", n<<10) }
	a := startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			n := 1
			fmt.Sscanf(q.URL.Path, "/%d", &n)
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nX: %s\r\nContent-Length: 0\r\n\r\n", big(n))
		}
	})
	r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}})
	for name, tc := range map[string]struct {
		text   string
		status int
	}{
		"16 KiB cookie":     {"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + big(16) + "\r\n\r\n", 200},
		"63 KiB cookie":     {"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + big(63) + "\r\n\r\n", 200},
		"65 KiB cookie":     {"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + big(65) + "\r\n\r\n", 431},
		"1100 KiB cookie":   {"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + big(1100) + "\r\n\r\n", 431},
		"long target":       {"GET /" + big(65) + " HTTP/1.1\r\nHost: x\r\n\r\n", 414},
		"many fields":       {"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 1000) + "\r\n", 200},
		"too many fields":   {"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 12000) + "\r\n", 431},
		"200 KiB response":  {"GET /200 HTTP/1.1\r\nHost: x\r\n\r\n", 200},
		"257 KiB response":  {"GET /257 HTTP/1.1\r\nHost: x\r\n\r\n", 502},
		"1000 KiB response": {"GET /1000 HTTP/1.1\r\nHost: x\r\n\r\n", 502},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			nc.SetDeadline(time.Now().Add(patience))
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				io.WriteString(nc, tc.text) // it may be refused half-way
			}()
			resp, _ := read(t, bufio.NewReader(nc), "GET")
			if resp.StatusCode != tc.status {
				t.Errorf("status %d, want %d", resp.StatusCode, tc.status)
			}
			nc.Close()
			<-sent
		})
	}
}

func TestFraming_slowHead(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", echo("a1"))
	cfg := routed(func(*Route) {})
	r := startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(a, "m1")}})
	nc, br := r.send(t, getRequest) // one that never said anything would be closed without an answer
	read(t, br, "GET")
	cfg.Timeouts.Header = 100 * time.Millisecond
	if err := r.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	io.WriteString(nc, "GET / HT")
	if resp, _ := read(t, br, "GET"); resp.StatusCode != 408 {
		t.Errorf("status %d", resp.StatusCode)
	}
	_, br = r.send(t, "")
	if b, err := io.ReadAll(br); len(b) > 0 || err != nil {
		t.Errorf("a silent client got %q, %v", b, err)
	}
}
