package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestRun_stopsGracefully(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan struct{}), make(chan struct{})
	a := startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if q.URL.Path == "/slow" {
				began <- struct{}{}
				<-goOn
			}
			io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	p, err := New(Options{Config: routed(func(*Route) {})})
	if err != nil {
		t.Fatal(err)
	}
	p.SetInstances([]Instance{instanceOf(a, "m1")})
	r := serveRig(t, p)
	_, idle := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	read(t, idle, "GET")
	_, busy := r.send(t, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
	<-began
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	if b, err := io.ReadAll(idle); len(b) > 0 || err != nil {
		t.Errorf("idle connection: %q %v", b, err)
	}
	if nc, err := net.Dial("tcp", r.addr); err == nil {
		nc.Close()
		t.Error("still accepting")
	}
	select {
	case <-stopped:
		t.Fatal("did not wait")
	default:
	}
	close(goOn)
	resp, body := read(t, busy, "GET")
	if body != "ok" || !resp.Close {
		t.Errorf("%q, close %v", body, resp.Close)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestRun_endsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Routes = []Route{DefaultRoute("shop")}
	cfg.Timeouts.Drain = 50 * time.Millisecond
	hang := func(nc net.Conn) { io.Copy(io.Discard, nc) }
	ws := startApp(t, "a1", switching)
	silent := startApp(t, "a2", hang)
	list := []Instance{instanceOf(ws, "m1")}
	r := startRig(t, setup{cfg: cfg, apps: list})
	_, br := r.send(t, fmt.Sprintf(handshake, "Upgrade", "websocket"))
	if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 101 {
		t.Fatal(err)
	}
	r.SetInstances([]Instance{list[0], instanceOf(silent, "m2")})
	for range 2 {
		r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	eventually(t, "a request in flight", func() bool { return r.Totals().InFlight >= 2 })
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if n := r.Totals().InFlight; n != 0 {
		t.Errorf("%d in flight", n)
	}
}

func TestRun_timeouts(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Routes = []Route{DefaultRoute("shop")}
	cfg.Timeouts.Response = 200 * time.Millisecond
	cfg.Timeouts.Body = 2 * time.Second // in which answers have to leave, too
	a := startApp(t, "a1", func(nc net.Conn) { io.Copy(io.Discard, nc) })
	r := startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(a, "m1")}})
	for text, want := range map[string]int{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n":                                 504,
		"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nxx":          504,
		"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nxx":          408,
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2": 408,
	} {
		t.Run(text[:4], func(t *testing.T) {
			t.Parallel()
			_, br := r.send(t, text)
			if resp, _ := read(t, br, "GET"); resp.StatusCode != want {
				t.Errorf("status %d, want %d", resp.StatusCode, want)
			}
		})
	}
}

func TestRun_pipelinedRequests(t *testing.T) {
	t.Parallel()
	r, _ := one(t, echo("a1"))
	nc, br := r.send(t, strings.Repeat("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 50)+"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	nc.SetDeadline(time.Now().Add(2 * time.Minute)) // they are many for a busy machine
	for range 50 {
		if _, body := read(t, br, "POST"); !strings.HasPrefix(body, "a1 /p ") || !strings.HasSuffix(body, " 3") {
			t.Fatalf("got %q", body)
		}
	}
	if resp, body := read(t, br, "GET"); !strings.HasPrefix(body, "a1 /last ") || !resp.Close {
		t.Errorf("got %q", body)
	}
}

func TestValidate_namesEveryProblem(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	bad := Route{Name: "a", Host: "a:b", Path: "x", Balance: Hash, Sticky: Sticky{Cookie: "a b", SameSite: "no"}}
	host := DefaultRoute("s")
	host.Sticky.Cookie = "__Host-x"
	cfg.Routes = []Route{bad, bad, host}
	_, err := New(Options{Config: cfg})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"there twice", "same host and path", "names no service", "does not begin", "neither a name", "hash on", "no name for a cookie", "same_site", "attempt", "secure on"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing about %q in %v", want, err)
		}
	}
	ok := DefaultConfig()
	ok.Routes = []Route{DefaultRoute("s")}
	p, err := New(Options{Config: ok})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Reload(cfg); err == nil || p.snap.Load().any == nil {
		t.Error("a bad configuration was loaded")
	}
}

func TestRun_aListenerThatFailsStopsIt(t *testing.T) {
	t.Parallel()
	p, err := New(Options{Config: DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := p.Run(t.Context(), ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
