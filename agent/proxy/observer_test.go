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
	"time"
)

// notes is an Observers that writes everything down.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *notes) all() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.lines, ", ")
}

func (n *notes) clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = nil
}

func (n *notes) Route(name string) Observer { n.add("+%s", name); return &note{n, name} }
func (n *notes) Forget(name string)         { n.add("-%s", name) }

type note struct {
	n    *notes
	name string
}

func (o *note) Done(status int, d time.Duration) {
	if d < 0 || d > time.Minute {
		o.n.add("%s took %s", o.name, d)
	}
	o.n.add("%s %d", o.name, status)
}
func (o *note) Passed(in, out int64)   {}
func (o *note) Queued(d time.Duration) {}
func (o *note) Retried()               { o.n.add("%s again", o.name) }

func TestObserver_hearsOfRoutesAndRequests(t *testing.T) {
	t.Parallel()
	dead := startApp(t, "a0", func(net.Conn) {})
	dead.kill()
	a := startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			switch {
			case err != nil:
				return
			case q.URL.Path == "/break":
				return
			case q.URL.Path == "/hang":
				br.ReadByte()
				return
			case q.URL.Path == "/cut":
				io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
				return
			case q.URL.Path == "/ws":
				io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				br.ReadByte()
				return
			}
			io.WriteString(nc, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		}
	})
	n := &notes{}
	cfg := DefaultConfig()
	cfg.Routes = []Route{DefaultRoute("shop")}
	p, err := New(Options{Config: unhurried(cfg), Sessions: newSessions(), TagKey: []byte("k"), Observe: n})
	if err != nil {
		t.Fatal(err)
	}
	r := serveRig(t, p)
	expect := func(what, want string) {
		t.Helper()
		eventually(t, what, func() bool { return n.all() == want })
	}
	expect("a route, and what has none", "+, +shop")
	r.request(t, "/", "")
	expect("nobody there", "+, +shop, shop 503")
	p.SetInstances([]Instance{instanceOf(a, "m1")})
	n.clear()
	r.request(t, "/", "")
	expect("the instance's answer", "shop 404")
	for path, want := range map[string]string{"/break": "shop 502", "/cut": "shop 200"} {
		n.clear()
		nc, br := r.send(t, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		io.Copy(io.Discard, br)
		nc.Close()
		// A first try over a kept connection may find it closed.
		eventually(t, path, func() bool { return strings.ReplaceAll(n.all(), "shop again, ", "") == want })
	}
	n.clear()
	nc, _ := r.send(t, "GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
	eventually(t, "it waits", func() bool { return r.Totals().InFlight == 1 })
	nc.Close()
	eventually(t, "a client that left", func() bool { return strings.HasSuffix(n.all(), "shop 0") })
	n.clear()
	nc, br := r.send(t, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	http.ReadResponse(br, nil)
	eventually(t, "the upgrade, while it lasts", func() bool { return strings.HasSuffix(n.all(), "shop 101") })
	nc.Close()
	eventually(t, "the end of the tunnel", func() bool { return r.Totals().InFlight == 0 })
	list := []Instance{instanceOf(a, "m1"), {Service: "shop", ID: "a0", Member: "m0", Addr: dead.addr(), Weight: 1, Health: Passing}}
	p.SetInstances(list)
	again := 0
	for range 2 { // one for each of them
		n.clear()
		r.request(t, "/", "")
		eventually(t, "an answer", func() bool { return strings.HasSuffix(n.all(), "shop 404") })
		switch got := n.all(); got {
		case "shop 404":
		case "shop again, shop 404":
			again++
		default:
			t.Errorf("heard of %q", got)
		}
	}
	if again == 0 {
		t.Error("one more try was not heard of")
	}
	n.clear()
	two := cfg
	two.Routes = []Route{DefaultRoute("cart")}
	if err := p.Reload(two); err != nil {
		t.Fatal(err)
	}
	expect("routes that come and go", "+cart, -shop")
}
