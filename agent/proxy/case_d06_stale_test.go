package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// An instance that closes a connection while a second request is on its way has
// perhaps read it, and perhaps not: what may be repeated is sent to it again over
// a new connection, and nothing else is. It is no failure of the instance.
func TestCase_D06_connectionsThatCloseAtThatMoment(t *testing.T) {
	t.Parallel()
	const key = "Idempotency-Key: 7\r\n"
	for name, tc := range map[string]struct {
		method, fields, body string
		change               func(*Route)
		status               int
	}{
		"GET":                     {"GET", "", "", nil, 200},
		"PUT":                     {"PUT", "", "0123456789", nil, 200},
		"POST":                    {"POST", "", "0123456789", nil, 502},
		"POST, empty":             {"POST", "", "", nil, 502},
		"POST, undeclared key":    {"POST", key, "0123456789", nil, 502},
		"POST, declared key":      {"POST", key, "0123456789", func(rt *Route) { rt.Retry.IdempotencyKey = true }, 200},
		"POST, declared, no key":  {"POST", "", "0123456789", func(rt *Route) { rt.Retry.IdempotencyKey = true }, 502},
		"GET with one attempt":    {"GET", "", "", func(rt *Route) { rt.Retry.Attempts = 1 }, 200},
		"PUT over the limit":      {"PUT", "", strings.Repeat("x", 64<<10+1), nil, 502},
		"PUT, nothing to be kept": {"PUT", "", "0123456789", func(rt *Route) { rt.Retry.Body = 0 }, 502},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := tc.change
			if change == nil {
				change = func(*Route) {}
			}
			length := ""
			if tc.method != "GET" {
				length = fmt.Sprintf("Content-Length: %d\r\n", len(tc.body))
			}
			var got chan message
			var r *rig
			var first message
			for tries := 0; ; tries++ {
				got = make(chan message, 8)
				a := startApp(t, "a1", func(nc net.Conn) { // one answer for each connection
					digest(got, ok)(&onlyOnce{Conn: nc})
				})
				r = startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}, cfg: routed(change)})
				nc, br := r.send(t, canary)
				read(t, br, "GET")
				<-got
				io.WriteString(nc, tc.method+" /p HTTP/1.1\r\nHost: x\r\n"+tc.fields+length+"\r\n"+tc.body)
				resp, _ := read(t, br, tc.method)
				first = <-got
				if resp.StatusCode == tc.status {
					break
				}
				// A busy machine may let the connection rest for so long that what
				// must not be repeated is not sent over it.
				if _, seen := a.conns(); tries > 10 || resp.StatusCode != 200 || seen != 2 || len(got) > 0 {
					t.Fatalf("status %d, want %d", resp.StatusCode, tc.status)
				}
			}
			if !first.of(tc.body) {
				t.Errorf("the app saw %+v", first)
			}
			if tc.status == 200 {
				if again := <-got; again != first {
					t.Errorf("the app saw %+v, then %+v", first, again)
				}
			}
			none(t, got)
			if f := r.idle(t).Failures; f != 0 {
				t.Errorf("%d failures", f)
			}
		})
	}
}

// onlyOnce breaks instead of writing a second time.
type onlyOnce struct {
	net.Conn
	wrote bool
}

func (c *onlyOnce) Write(p []byte) (int, error) {
	if c.wrote {
		return 0, net.ErrClosed
	}
	c.wrote = true
	return c.Conn.Write(p)
}

// A connection that its instance closed while it rested costs nobody a request.
func TestCase_D06_connectionsThatWereClosed(t *testing.T) {
	t.Parallel()
	r, a := one(t, func(nc net.Conn) {
		br := bufio.NewReader(nc)
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
	})
	for n := range 10 {
		resp, _ := r.request(t, "/", "")
		if resp.StatusCode != 200 {
			t.Fatalf("status %d", resp.StatusCode)
		}
		if f := r.Totals().Failures; f != 0 {
			t.Fatalf("%d failures after %d", f, n)
		}
	}
	if _, seen := a.conns(); seen < 5 {
		t.Errorf("%d connections", seen)
	}
}
