package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// app is an instance: a listener with a handler per connection.
type app struct {
	name string
	ln   net.Listener
	mu   sync.Mutex
	open map[net.Conn]bool
	seen int // connections accepted
	dead bool
	wg   sync.WaitGroup
}

func startApp(t testing.TB, name string, handle func(net.Conn)) *app {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startAppOn(t, name, ln, handle)
}

func startAppOn(t testing.TB, name string, ln net.Listener, handle func(net.Conn)) *app {
	t.Helper()
	hold(t, ln)
	a := &app{name: name, ln: ln, open: map[net.Conn]bool{}}
	a.wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			a.mu.Lock()
			dead := a.dead
			if !dead {
				a.open[nc] = true
				a.seen++
			}
			a.mu.Unlock()
			if dead { // it came just before the listener was closed
				nc.Close()
				return
			}
			a.wg.Go(func() {
				defer func() {
					nc.Close()
					a.mu.Lock()
					delete(a.open, nc)
					a.mu.Unlock()
				}()
				handle(nc)
			})
		}
	})
	t.Cleanup(a.kill)
	return a
}

// hold keeps the port of a listener from everybody else until the test ends,
// also when the listener is closed: by a connection to itself. A system gives a
// port that is free to whoever asks for one, and what should refuse connections
// would be another test's.
func hold(t testing.TB, ln net.Listener) {
	t.Helper()
	out, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	for {
		in, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if in.RemoteAddr().String() == out.LocalAddr().String() {
			t.Cleanup(func() { in.Close() })
			return
		}
		in.Close() // a stranger
	}
}

func (a *app) kill() {
	a.ln.Close()
	a.mu.Lock()
	a.dead = true
	for c := range a.open {
		c.Close()
	}
	a.mu.Unlock()
	a.wg.Wait()
}

func (a *app) conns() (open, seen int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.open), a.seen
}

func (a *app) addr() string { return a.ln.Addr().String() }

// echo answers every request with its own name, and the request's session id
// and body length.
func echo(name string) func(net.Conn) {
	return func(nc net.Conn) {
		r := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			b, err := io.ReadAll(q.Body)
			if err != nil {
				return
			}
			body := fmt.Sprintf("%s %s %s %d", name, q.URL.RequestURI(), q.Header.Get("Rondel-Session"), len(b))
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
	}
}

// script answers the n-th request head on all connections with the n-th
// reply, the last one over and over, and tells what it received. Bodies are
// not read apart: a request's bytes are what came before the reply.
func raw(got chan<- string, reply string) func(net.Conn) {
	return func(nc net.Conn) {
		buf := make([]byte, 1<<20)
		for {
			n := 0
			for !strings.Contains(string(buf[:n]), "\r\n\r\n") {
				m, err := nc.Read(buf[n:])
				if err != nil {
					return
				}
				n += m
			}
			if got != nil {
				got <- string(buf[:n])
			}
			if _, err := io.WriteString(nc, reply); err != nil {
				return
			}
		}
	}
}

type rig struct {
	*Proxy
	addr string
	sess *fakeSessions
	stop func() error
}

type setup struct {
	cfg      Config
	sess     *fakeSessions
	position int
	loops    int
	apps     []Instance
	bindings Bindings
}

func instanceOf(a *app, m member.ID) Instance {
	return Instance{Service: "shop", ID: a.name, Member: m, Addr: a.addr(), Weight: 100, Health: Passing}
}

// unhurried gives instances more time to accept, and requests to be tried again,
// where that is as by default: a busy machine may need it, and no test is about it.
func unhurried(cfg Config) Config {
	if d := &cfg.Timeouts.Connect; *d == DefaultConfig().Timeouts.Connect {
		*d = time.Minute
	}
	cfg.Routes = slices.Clone(cfg.Routes)
	for n := range cfg.Routes {
		if d := &cfg.Routes[n].Retry.Within; *d == DefaultRoute("").Retry.Within {
			*d = time.Minute
		}
	}
	return cfg
}

func startRig(t testing.TB, s setup) *rig {
	t.Helper()
	if s.cfg.Routes == nil {
		cfg := DefaultConfig()
		cfg.Routes = []Route{DefaultRoute("shop")}
		if s.cfg.Timeouts != (Timeouts{}) {
			cfg.Timeouts = s.cfg.Timeouts
		}
		s.cfg = cfg
	}
	if s.sess == nil {
		s.sess = newSessions()
	}
	p, err := New(Options{Config: unhurried(s.cfg), Sessions: s.sess, Bindings: s.bindings, TagKey: []byte("secret"), Position: s.position, Loops: s.loops})
	if err != nil {
		t.Fatal(err)
	}
	p.SetInstances(s.apps)
	r := serveRig(t, p)
	r.sess = s.sess
	return r
}

// serveRig runs a proxy, whose address nobody else has when it has stopped.
func serveRig(t testing.TB, p *Proxy) *rig {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hold(t, ln)
	return serveRigOn(t, p, ln)
}

func serveRigOn(t testing.TB, p *Proxy, ln net.Listener) *rig {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, ln) }()
	r := &rig{Proxy: p, addr: ln.Addr().String()}
	r.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		p.Close()
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// send writes raw bytes on a new connection and returns a reader of the answers.
func (r *rig) send(t testing.TB, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	nc, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(nc, text); err != nil {
		t.Fatal(err)
	}
	return nc, bufio.NewReader(nc)
}

func read(t testing.TB, r *bufio.Reader, method string) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("read response: %v", err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read body: %v", err)
	}
	return resp, string(b)
}

// get asks once, with a cookie if there is one, and returns the answering
// app's name, the cookie to use next, and whether it was set.
func (r *rig) get(t testing.TB, cookie string) (name, next string, set bool) {
	t.Helper()
	resp, body := r.request(t, "/", cookie)
	if resp.StatusCode != 200 {
		t.Fatalf("status %d: %s", resp.StatusCode, body)
	}
	next = cookie
	if c := resp.Header.Values("Set-Cookie"); len(c) == 1 {
		v, _, _ := strings.Cut(c[0], ";")
		next, set = v, true
	} else if len(c) > 1 {
		t.Fatalf("several cookies: %q", c)
	}
	name, _, _ = strings.Cut(body, " ")
	return name, next, set
}

func (r *rig) request(t testing.TB, path, cookie string) (*http.Response, string) {
	t.Helper()
	if cookie != "" {
		cookie = "Cookie: " + cookie + "\r\n"
	}
	nc, br := r.send(t, "GET "+path+" HTTP/1.1\r\nHost: x\r\n"+cookie+"\r\n")
	defer nc.Close()
	return read(t, br, "GET")
}

// patience is how long tests wait for what is bound to come. It is less than the
// proxy's own timeouts are by default, so that none of them is mistaken for it.
const patience = 40 * time.Second

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
		<-tick.C
	}
}

// soon receives what is bound to come, for which nothing has to time out.
func soon[T any](t testing.TB, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatalf("not in time: %s", what)
	}
	return v
}

func flip(s string, i int) string {
	b := []byte(s)
	b[i] ^= 1
	return string(b)
}
