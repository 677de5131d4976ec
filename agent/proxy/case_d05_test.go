package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// patient is an app that answers nothing until its connection ends, and then
// tells so.
type patient struct {
	began atomic.Int64
	ended atomic.Int64
}

func (p *patient) handle(nc net.Conn) {
	buf := make([]byte, 32<<10)
	if _, err := nc.Read(buf); err != nil {
		return
	}
	p.began.Add(1)
	defer p.ended.Add(1)
	for {
		if _, err := nc.Read(buf); err != nil {
			return
		}
	}
}

// Users close their tabs: each request was seen by one app, which notices, is
// not blamed and stays in rotation; nothing stays active. What the access log
// says of them is in its own tests.
func TestCase_D05_clientsHangUp(t *testing.T) {
	t.Parallel()
	const clients = 60
	for name, tc := range map[string]struct {
		text string
		hard bool // with a reset
	}{
		"waiting":          {"GET /p HTTP/1.1\r\nHost: x\r\n\r\n", false},
		"waiting, reset":   {"GET /p HTTP/1.1\r\nHost: x\r\n\r\n", true},
		"uploading":        {post("Content-Length: 100000\r\n", "abc"), false},
		"uploading, reset": {"PUT /p HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nabc", true},
		"between chunks":   {post(chunkedField, "5\r\nhello\r\n"), false},
		"expecting":        {post("Content-Length: 5\r\nExpect: 100-continue\r\n", ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			apps := []*patient{{}, {}, {}}
			var list []Instance
			for n, a := range apps {
				list = append(list, instanceOf(startApp(t, fmt.Sprint("a", n), a.handle), "m1"))
			}
			r := startRig(t, setup{apps: list})
			sum := func(f func(*patient) int64) (n int64) {
				for _, a := range apps {
					n += f(a)
				}
				return n
			}
			var open []net.Conn
			for range clients {
				nc, _ := r.send(t, tc.text)
				open = append(open, nc)
			}
			eventually(t, "all requests are at apps", func() bool { return sum(func(p *patient) int64 { return p.began.Load() }) == clients })
			for _, nc := range open {
				if tc.hard {
					nc.(*net.TCPConn).SetLinger(0)
				}
				nc.Close()
			}
			eventually(t, "the apps notice", func() bool { return sum(func(p *patient) int64 { return p.ended.Load() }) == clients })
			if total := r.idle(t); total.Failures != 0 || total.Requests != clients {
				t.Errorf("%d failures, %d tries", total.Failures, total.Requests)
			}
			if n := sum(func(p *patient) int64 { return p.began.Load() }); n != clients {
				t.Errorf("the apps saw %d requests", n)
			}
			for _, c := range r.Counters() {
				if c.Requests == 0 || c.Requests > clients/3+1 {
					t.Errorf("%s got %d", c.ID, c.Requests)
				}
			}
			// Nobody is out of rotation.
			for range 3 {
				r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			}
			for n, a := range apps {
				eventually(t, fmt.Sprint("app ", n, " gets traffic"), func() bool { return a.began.Load() > a.ended.Load() })
			}
		})
	}
}

// The same while an answer streams, and while the client sends little by little.
func TestCase_D05_streams(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text, reply string
		drips       bool
	}{
		"events":           {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", head200 + "Content-Type: text/event-stream\r\n\r\ndata: 1\n\n", false},
		"a large answer":   {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", head200 + "Content-Length: 100000000\r\n\r\ndata: 1\n\n" + strings.Repeat("x", 1<<20), false},
		"a slow upload":    {post("Content-Length: 100000\r\n", ""), "", true},
		"both at one time": {post("Content-Length: 100000\r\n", ""), head200 + "Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan struct{}, 8)
			r, a := one(t, func(nc net.Conn) {
				buf := make([]byte, 4096)
				nc.Read(buf)
				io.WriteString(nc, tc.reply)
				for {
					if _, err := nc.Read(buf); err != nil {
						break
					}
				}
				ended <- struct{}{}
			})
			nc, br := r.send(t, tc.text)
			if tc.reply != "" {
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					t.Fatal(err)
				}
				b := make([]byte, 7)
				if io.ReadFull(resp.Body, b); string(b) != "data: 1" {
					t.Errorf("got %q", b)
				}
			}
			if tc.drips {
				tick := time.NewTicker(5 * time.Millisecond)
				defer tick.Stop()
				for range 40 {
					io.WriteString(nc, "x")
					<-tick.C
				}
			}
			nc.Close()
			soon(t, "the app is told", ended)
			unharmed(t, r, a)
		})
	}
}

// A client that never reads holds the app's slot no longer than the timeout.
func TestCase_D05_clientThatNeverReads(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"sized":   head200 + "Content-Length: 1000000000\r\n\r\n",
		"chunked": head200 + "Transfer-Encoding: chunked\r\n\r\n",
		"endless": head200 + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan struct{})
			a := startApp(t, "a1", func(nc net.Conn) {
				br := bufio.NewReader(nc)
				if _, err := http.ReadRequest(br); err != nil {
					return
				}
				defer close(ended)
				io.WriteString(nc, reply)
				piece := strings.Repeat("x", 64<<10)
				if name == "chunked" {
					piece = fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece)
				}
				for {
					if _, err := io.WriteString(nc, piece); err != nil {
						return
					}
				}
			})
			cfg := routed(func(*Route) {})
			cfg.Timeouts.Body = 200 * time.Millisecond
			r := startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(a, "m1")}})
			r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			soon(t, "the app writes no more", ended)
			unharmed(t, r, a)
		})
	}
}

// An app that breaks, breaks off or times out is blamed: only what the client
// did is not.
func TestCase_D05_whatCounts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reply string
		hangs bool
		want  uint64
	}{
		"a good answer":          {ok, false, 0},
		"an error of its own":    {"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", false, 0},
		"nothing":                {"", false, 1},
		"half an answer":         {head200 + "Content-Length: 9\r\n\r\nhalf", false, 1},
		"nonsense":               {"nonsense\r\n\r\n", false, 1},
		"silence for too long":   {"", true, 1},
		"a status the route has": {refusal, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startApp(t, "a1", func(nc net.Conn) {
				if _, err := http.ReadRequest(bufio.NewReader(nc)); err != nil {
					return
				}
				io.WriteString(nc, tc.reply)
				if tc.hangs {
					io.Copy(io.Discard, nc)
				}
			})
			cfg := routed(func(rt *Route) { rt.Retry.Statuses, rt.Retry.Attempts = []int{503}, 1 })
			if tc.hangs {
				cfg.Timeouts.Response = 200 * time.Millisecond
			}
			r := startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(a, "m1")}})
			_, br := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			io.Copy(io.Discard, br)
			if f := r.idle(t).Failures; f != tc.want {
				t.Errorf("%d failures, want %d", f, tc.want)
			}
		})
	}
}
