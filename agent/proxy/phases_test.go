package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
)

// routesOf returns the default configuration with two routes to one service, of
// which the second is changed.
func routesOf(change func(*Config, *Route)) Config {
	cfg := DefaultConfig()
	own := DefaultRoute("shop")
	own.Name, own.Path = "own", "/own"
	change(&cfg, &own)
	cfg.Routes = []Route{DefaultRoute("shop"), own}
	return cfg
}

func TestTimeouts_ofARoute(t *testing.T) {
	t.Parallel()
	cfg := routesOf(func(cfg *Config, own *Route) {
		cfg.Timeouts.Response = time.Minute
		own.Timeouts.Response = 150 * time.Millisecond
	})
	silent := DefaultRoute("shop")
	silent.Name, silent.Path, silent.Timeouts.Tunnel = "silent", "/silent", 150*time.Millisecond
	cfg.Routes = append(cfg.Routes, silent)
	a := startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			switch {
			case strings.HasSuffix(q.URL.Path, "/slow"):
				br.ReadByte()
				return
			case strings.HasSuffix(q.URL.Path, "/ok"):
				io.WriteString(nc, "HTTP/1.1 204 No Content\r\n\r\n")
			case strings.HasSuffix(q.URL.Path, "/stall"):
				io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
				br.ReadByte()
				return
			case q.Header.Get("Upgrade") != "":
				io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				br.ReadByte()
				return
			}
		}
	})
	r, next := logged(t, cfg, instanceOf(a, "m1"))
	_, br := r.send(t, "GET /own/slow HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp, _ := read(t, br, "GET"); resp.StatusCode != 504 {
		t.Errorf("status %d", resp.StatusCode)
	}
	if l := next(); l.End != "instance_timeout" || l.Route != "own" {
		t.Errorf("a slow answer: %+v", l)
	}
	_, br = r.send(t, "GET /silent/stall HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(resp.Body); string(b) != "half" || err != io.ErrUnexpectedEOF {
		t.Errorf("an answer that stalls: %q %v", b, err)
	}
	if l := next(); l.End != "instance_timeout" || l.Status != 200 {
		t.Errorf("an answer that stalls: %+v", l)
	}
	// The same where an event loop carries it.
	nc, br := r.send(t, "GET /silent/ok HTTP/1.1\r\nHost: x\r\n\r\n")
	for range 3 {
		read(t, br, "GET")
		next()
		io.WriteString(nc, "GET /silent/ok HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	read(t, br, "GET")
	next()
	io.WriteString(nc, "GET /silent/stall HTTP/1.1\r\nHost: x\r\n\r\n")
	if b, err := io.ReadAll(br); !strings.HasSuffix(string(b), "half") || err != nil {
		t.Errorf("an answer that stalls, in a loop: %q %v", b, err)
	}
	if l := next(); l.End != "instance_timeout" || l.Status != 200 {
		t.Errorf("an answer that stalls, in a loop: %+v", l)
	}
	_, br = r.send(t, "GET /silent/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 101 {
		t.Fatal(err)
	}
	br.ReadByte()
	if l := next(); l.End != "idle" || l.Status != 101 {
		t.Errorf("a silent tunnel: %+v", l)
	}
	if n := r.Totals().InFlight; n != 0 {
		t.Errorf("%d in flight", n)
	}
}

func TestConfig_connectIsTheLongestOfAServicesRoutes(t *testing.T) {
	t.Parallel()
	cfg := routesOf(func(_ *Config, own *Route) { own.Timeouts.Connect = 5 * time.Second })
	other := DefaultRoute("other")
	other.Timeouts.Connect = 100 * time.Millisecond
	cfg.Routes = append(cfg.Routes, other)
	for service, want := range map[string]time.Duration{"shop": 5 * time.Second, "other": 100 * time.Millisecond, "none": time.Second} {
		if got := cfg.connectWithin(service); got != want {
			t.Errorf("%s: %s, want %s", service, got, want)
		}
	}
}

func TestLimits_requestBody(t *testing.T) {
	t.Parallel()
	cfg := routesOf(func(cfg *Config, own *Route) {
		cfg.Limits.RequestBody = 10
		own.MaxBody = 20
	})
	a := startApp(t, "a1", echo("a1"))
	r := startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(a, "m1")}})
	for _, c := range []struct {
		path string
		size int
		want int
	}{{"/", 10, 200}, {"/", 11, 413}, {"/own", 20, 200}, {"/own", 21, 413}} {
		body := strings.Repeat("x", c.size)
		for what, text := range map[string]string{
			"length": fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", c.path, c.size, body),
			"chunks": fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", c.path, c.size, body),
		} {
			_, br := r.send(t, text)
			resp, _ := read(t, br, "POST")
			if resp.StatusCode != c.want {
				t.Errorf("%d bytes to %s with %s: %d, close %v", c.size, c.path, what, resp.StatusCode, resp.Close)
			}
		}
	}
	// In pieces that come one by one, and with an expectation.
	nc, br := r.send(t, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	eventually(t, "the request at the instance", func() bool { return r.Totals().InFlight == 1 })
	io.WriteString(nc, "6\r\nworld!\r\n")
	if resp, _ := read(t, br, "POST"); resp.StatusCode != 413 {
		t.Errorf("in pieces: %d", resp.StatusCode)
	}
	_, br = r.send(t, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n")
	if resp, _ := read(t, br, "POST"); resp.StatusCode != 413 {
		t.Errorf("with an expectation: %d", resp.StatusCode)
	}
	if f := r.Totals().Failures; f != 0 {
		t.Errorf("%d failures of the instance", f)
	}
}

func TestPace_countsOverAPeriod(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bytes int
		every time.Duration
		want  bool
	}{{100, time.Second, false}, {99, time.Second, true}, {1, 9 * time.Second, true}, {3000, 30 * time.Second, false}, {0, time.Minute, true}} {
		var p pace
		slow := false
		for range 20 {
			slow = slow || p.tooSlow(c.bytes, c.every, 100, 10*time.Second)
		}
		if slow != c.want {
			t.Errorf("%d bytes each %s: slow %v", c.bytes, c.every, slow)
		}
		if p.tooSlow(0, time.Hour, 0, time.Second) {
			t.Error("slow without a rate")
		}
	}
}

// A client is held to what it sends, not to what its instance takes.
func TestPace_aSlowInstanceIsNotTheClients(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		client, instance time.Duration // for each 100 bytes
		want             outcome
	}{
		"slow instance": {0, 10 * time.Second, answered},
		"slow client":   {1500 * time.Millisecond, 0, refused},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, in := net.Pipe()
			up, far := net.Pipe()
			const size = 2000
			var ends sync.WaitGroup
			every := func(d time.Duration, f func() error) {
				ends.Go(func() {
					for range size / 100 {
						if time.Sleep(d); f() != nil {
							return
						}
					}
				})
			}
			var piece, taken [100]byte
			every(c.client, func() error { _, err := client.Write(piece[:]); return err })
			every(c.instance, func() error { _, err := io.ReadFull(far, taken[:]); return err })
			x := &exchange{
				c: &conn{in: http1.NewConn(in, 1000)}, p: &Proxy{}, snap: &snapshot{}, rt: &route{},
				try: try{up: http1.NewConn(up, 1000), inst: &instance{backend: &backend{}}}, lost: true,
			}
			x.snap.cfg.Timeouts.Body, x.snap.cfg.Limits.MinRate, x.rt.Timeouts.Send = 2*time.Second, 100, time.Hour
			x.p.buffers.New = func() any { b := make([]byte, bigBuffer); return &b }
			x.body.Begin(http1.Sized, size, false, nil)
			s := &side{}
			s.pump(x, x.c.in, x.up)
			if got := s.verdict(); got != c.want || (got == answered) != (s.finished.Load() != 0) {
				t.Errorf("%s: %v, the whole body passed on: %v", name, got, s.finished.Load() != 0)
			}
			for _, nc := range []net.Conn{client, in, up, far} {
				nc.Close()
			}
			ends.Wait()
		})
	}
}

func TestLimits_aTrickleOfABodyEnds(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Timeouts.Body = 2 * time.Second // in which the answer has to leave, too
	cfg.Limits.MinRate = 1000
	cfg.Routes = []Route{DefaultRoute("shop")}
	a := startApp(t, "a1", echo("a1"))
	r, next := logged(t, cfg, instanceOf(a, "m1"))
	nc, br := r.send(t, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond) // each piece is in time
		defer tick.Stop()
		for range tick.C {
			if _, err := nc.Write([]byte("x")); err != nil {
				return
			}
		}
	}()
	if resp, _ := read(t, br, "POST"); resp.StatusCode != 408 {
		t.Errorf("status %d", resp.StatusCode)
	}
	if l := next(); l.End != "client_timeout" || l.Status != 408 || l.In > 1000 {
		t.Errorf("%+v", l)
	}
	nc.Close()
	<-done
	eventually(t, "the instance free again", func() bool { return r.Totals().InFlight == 0 })
}

// A client that never reads does not hold the instance.
func TestTimeouts_aClientThatNeverReads(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Timeouts.Body = 2 * time.Second // in which it has to take the head
	cfg.Routes = []Route{DefaultRoute("shop")}
	ended := make(chan struct{})
	a := startApp(t, "a1", func(nc net.Conn) {
		defer close(ended)
		if _, err := http.ReadRequest(bufio.NewReader(nc)); err != nil {
			return
		}
		io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
		piece := make([]byte, 1<<20)
		for {
			if _, err := nc.Write(piece); err != nil {
				return
			}
		}
	})
	r, next := logged(t, cfg, instanceOf(a, "m1"))
	r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if l := next(); l.End != "client_timeout" || l.Status != 200 || l.Out == 0 {
		t.Errorf("%+v", l)
	}
	<-ended
	if got := r.Totals(); got.InFlight != 0 || got.Failures != 0 {
		t.Errorf("%+v", got)
	}
}
