package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// unharmed fails if the only app was asked more than once, or blamed.
func unharmed(t testing.TB, r *rig, a *app) {
	t.Helper()
	if _, seen := a.conns(); seen != 1 {
		t.Errorf("%d tries", seen)
	}
	if f := r.idle(t).Failures; f != 0 {
		t.Errorf("%d failures", f)
	}
}

const tooLarge = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 50000\r\nConnection: close\r\n\r\n"

// An app reads the head only, answers with 50,000 bytes, and closes: hard, with
// the upload unread, or softly.
func TestCase_D02_answerBeforeTheUploadEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fields string
		hard   bool
	}{
		"sized, soft":   {"Content-Length: 200000000\r\n", false},
		"sized, hard":   {"Content-Length: 200000000\r\n", true},
		"chunked, soft": {chunkedField, false},
		"chunked, hard": {chunkedField, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, a := one(t, func(nc net.Conn) {
				br := bufio.NewReaderSize(nc, 16)
				if _, err := http.ReadRequest(br); err != nil {
					return
				}
				io.WriteString(nc, tooLarge+strings.Repeat("x", 50000))
				if !tc.hard {
					nc.(*net.TCPConn).CloseWrite()
					io.CopyN(io.Discard, nc, 1<<20)
				}
			})
			var body io.Reader = &pattern{n: 200e6}
			if tc.fields == chunkedField {
				body = &chunks{from: body, size: 30000}
			}
			_, br := r.put(t, strings.NewReader("POST / HTTP/1.1\r\nHost: x\r\n"+tc.fields+"\r\n"), body)
			resp, text := read(t, br, "POST")
			if resp.StatusCode != 413 || len(text) != 50000 || !resp.Close {
				t.Errorf("%d, %d bytes, close %v", resp.StatusCode, len(text), resp.Close)
			}
			if rest, _ := io.ReadAll(br); len(rest) > 0 {
				t.Errorf("then %.100q", rest)
			}
			unharmed(t, r, a)
		})
	}
}

// With an expectation the app gets no byte of the body that it does not want.
func TestCase_D02_expectationRefused(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]string{"sized": "Content-Length: 200000000\r\n", "chunked": chunkedField, "other case": "content-length: 7\r\nEXPECT: 100-Continue\r\nX: "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got atomic.Int64
			a := startApp(t, "a1", func(nc net.Conn) {
				br := bufio.NewReader(nc)
				q, err := http.ReadRequest(br)
				if err != nil || !strings.EqualFold(q.Header.Get("Expect"), "100-continue") {
					return
				}
				io.WriteString(nc, tooLarge+strings.Repeat("x", 50000))
				nc.(*net.TCPConn).CloseWrite()
				n, _ := io.Copy(io.Discard, br)
				got.Add(n)
			})
			cfg := routed(func(*Route) {})
			cfg.Timeouts.Continue = time.Minute // it is no app that stays silent
			r := startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(a, "m1")}})
			nc, br := r.send(t, "PUT / HTTP/1.1\r\nHost: x\r\n"+fields+"Expect: 100-continue\r\n\r\n")
			resp, text := read(t, br, "PUT")
			if resp.StatusCode != 413 || len(text) != 50000 || !resp.Close {
				t.Errorf("%d, %d bytes, close %v", resp.StatusCode, len(text), resp.Close)
			}
			nc.Close()
			unharmed(t, r, a)
			a.kill()
			if n := got.Load(); n != 0 {
				t.Errorf("the app got %d bytes of the body", n)
			}
		})
	}
}

// An app grants it, or stays silent: then the body goes after a while, whether
// the client waits for a 100 or not. The client sees one 100, never two.
func TestCase_D02_expectationGranted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		version, first, early string // what the app says to the head, what the client sends with it
		status                []int
	}{
		"granted":                  {"1.1", "HTTP/1.1 100 Continue\r\n\r\n", "", []int{100, 200}},
		"granted twice":            {"1.1", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n", "", []int{100, 200}},
		"hinted, then granted":     {"1.1", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n", "", []int{103, 100, 200}},
		"silent, client waits":     {"1.1", "", "", []int{100, 200}},
		"silent, client does not":  {"1.1", "", "hello", []int{200}},
		"granted, client does not": {"1.1", "HTTP/1.1 100 Continue\r\n\r\n", "hello", []int{100, 200}},
		"HTTP/1.0":                 {"1.0", "", "hello", []int{200}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := make(chan string, 1)
			ended := make(chan time.Time, 1)
			a := startApp(t, "a1", func(nc net.Conn) {
				br := bufio.NewReader(nc)
				q, err := http.ReadRequest(br)
				if err != nil || tc.version == "1.1" && q.Header.Get("Expect") != "100-continue" || tc.version == "1.0" && q.Header.Get("Expect") != "" {
					return
				}
				io.WriteString(nc, tc.first)
				b, _ := io.ReadAll(q.Body)
				ended <- time.Now()
				body <- string(b)
				io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			})
			cfg := routed(func(*Route) {})
			if cfg.Timeouts.Continue = time.Minute; tc.first == "" {
				cfg.Timeouts.Continue = 300 * time.Millisecond
			}
			r := startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(a, "m1")}})
			began := time.Now()
			nc, br := r.send(t, "PUT / HTTP/"+tc.version+"\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"+tc.early)
			for _, want := range tc.status {
				if resp, _ := read(t, br, "PUT"); resp.StatusCode != want {
					t.Fatalf("got %d, want %d", resp.StatusCode, want)
				}
				if want == 100 && tc.early == "" {
					io.WriteString(nc, "hello")
				}
			}
			if got := <-body; got != "hello" {
				t.Errorf("the app got %q", got)
			}
			if waited := (<-ended).Sub(began); tc.first == "" && tc.version == "1.1" && waited < cfg.Timeouts.Continue {
				t.Errorf("the body came after %s", waited)
			}
			unharmed(t, r, a)
		})
	}
}

// Interim answers pass, without what concerns one connection, and are none that
// later answers are taken for.
func TestCase_D02_interimAnswers(t *testing.T) {
	t.Parallel()
	const interim = "HTTP/1.1 100 Continue\r\n\r\n" +
		"HTTP/1.1 102 Processing\r\nConnection: x, keep-alive\r\nKeep-Alive: 5\r\nX: 1\r\nContent-Length: 5\r\n\r\n" +
		"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n" +
		"HTTP/1.1 199 Of its own\r\n\r\n"
	r, _ := one(t, hostile(interim+"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	nc, br := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	for range 3 {
		for _, want := range []string{
			"HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 102 Processing\r\n\r\n",
			"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n", "HTTP/1.1 199 Of its own\r\n\r\n",
		} {
			if got := rawHead(t, br); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if resp, body := read(t, br, "GET"); resp.StatusCode != 200 || body != "ok" {
			t.Errorf("%d %q", resp.StatusCode, body)
		}
		io.WriteString(nc, canary)
		if _, body := read(t, br, "GET"); body != "canary" {
			t.Errorf("next: %q", body)
		}
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	nc.Close()
	_, br = r.send(t, "GET / HTTP/1.0\r\n\r\n")
	if resp, _ := read(t, br, "GET"); resp.StatusCode != 200 {
		t.Errorf("an HTTP/1.0 client got %d", resp.StatusCode)
	}
	if f := r.idle(t).Failures; f != 0 {
		t.Errorf("%d failures", f)
	}
}
