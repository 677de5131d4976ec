package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// D-17: a drained instance keeps its clients and gets no new one, whatever the
// balance, and this can be undone.
func TestCase_D17_drain(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	list = list[:3]
	for _, how := range []Balance{RoundRobin, WeightedRoundRobin, Random, LeastLoad, Hash} {
		r := startRig(t, setup{cfg: routed(func(r *Route) { r.Balance, r.HashOn = how, HashHeader; r.HashName = "X-User" }), apps: list})
		k := r.keep(t)
		jars := map[string]string{}
		for n := range 30 {
			resp, body := k.ask("/", fmt.Sprintf("X-User: u%d\r\n", n))
			cookie, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
			jars[cookie], _, _ = strings.Cut(body, " ")
		}
		drained := append([]Instance(nil), list...)
		drained[1].Draining = true
		r.SetInstances(drained)
		before := r.counters("a2").NewSessions
		for round := range 3 {
			for cookie, name := range jars {
				if got := k.who("/", "Cookie: "+cookie+"\r\n"); got != name {
					t.Fatalf("%d: a client of %s got %s", how, name, got)
				}
			}
			for n := range 30 {
				if got := k.who("/", fmt.Sprintf("X-User: v%d-%d\r\n", round, n)); got == "a2" {
					t.Fatalf("%d: a new client came to the drained one", how)
				}
			}
		}
		if now := r.counters("a2").NewSessions; now != before {
			t.Errorf("%d: %d new clients of the drained one", how, now-before)
		}
		// Its time is over: its clients move, each once.
		drained[1].Maintenance = true
		r.SetInstances(drained)
		for cookie, name := range jars {
			if name != "a2" {
				continue
			}
			resp, body := k.ask("/", "Cookie: "+cookie+"\r\n")
			if resp.StatusCode != 200 || strings.HasPrefix(body, "a2 ") || len(resp.Header["Set-Cookie"]) != 1 {
				t.Fatalf("%d: %s %s %v", how, resp.Status, body, resp.Header)
			}
		}
		r.SetInstances(list)
		eventually(t, "it gets new clients again", func() bool {
			return k.who("/", fmt.Sprintf("X-User: %d\r\n", time.Now().UnixNano())) == "a2"
		})
	}
}

// sockets is an app that answers with 101 and holds the connection open.
func sockets(name string) func(net.Conn) {
	return func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for line := ""; line != "\r\n"; {
			var err error
			if line, err = br.ReadString('\n'); err != nil {
				return
			}
		}
		fmt.Fprintf(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-App: %s\r\n\r\n", name)
		io.Copy(io.Discard, br)
	}
}

// D-17: tunnels count as load for as long as they last. 30 of them over three
// apps are 10 each; those of one that starts again go where there are none; in
// the end all counters are zero.
func TestCase_D17_leastLoadCountsTunnels(t *testing.T) {
	t.Parallel()
	eachWay(t, caseLeastLoadCountsTunnels)
}

func caseLeastLoadCountsTunnels(t *testing.T, loops int) {
	var apps []*app
	var list []Instance
	for n := range 3 {
		a := startApp(t, fmt.Sprint("a", n), sockets(fmt.Sprint("a", n)))
		apps, list = append(apps, a), append(list, instanceOf(a, "m1"))
	}
	r := startRig(t, setup{cfg: routed(func(r *Route) { r.Balance = LeastLoad }), loops: loops, apps: list})
	open := map[string][]net.Conn{}
	dial := func() {
		nc, br := r.send(t, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		head := rawHead(t, br)
		_, name, _ := strings.Cut(head, "X-App: ")
		if !strings.HasPrefix(head, "HTTP/1.1 101") || len(name) < 2 {
			t.Fatal(head)
		}
		open[name[:2]] = append(open[name[:2]], nc)
	}
	for range 30 {
		dial()
	}
	for _, c := range r.Counters() {
		if c.InFlight != 10 {
			t.Errorf("%+v", c)
		}
	}
	apps[1].kill()
	for _, nc := range open["a1"] {
		if n, err := nc.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("the end of its app was told as %v", err)
		}
		nc.Close()
	}
	eventually(t, "its tunnels have ended", func() bool { return r.counters("a1").InFlight == 0 })
	again := startApp(t, "a1", sockets("a1"))
	list[1].Addr = again.addr()
	r.SetInstances(list)
	for range 10 {
		dial()
	}
	for _, c := range r.Counters() {
		if c.InFlight != 10 {
			t.Errorf("%+v", c)
		}
	}
	for _, list := range open {
		for _, nc := range list {
			nc.Close()
		}
	}
	eventually(t, "all counters are zero", func() bool {
		for _, c := range r.Counters() {
			if c.InFlight != 0 {
				return false
			}
		}
		return true
	})
}

// D-17: an event stream counts until it ends, however it ends.
func TestCase_D17_leastLoadCountsStreams(t *testing.T) {
	t.Parallel()
	var list []Instance
	for n := range 3 {
		a := startApp(t, fmt.Sprint("a", n), func(nc net.Conn) {
			buf := make([]byte, 4<<10)
			if _, err := nc.Read(buf); err != nil {
				return
			}
			io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
			nc.Read(buf)
		})
		list = append(list, instanceOf(a, "m1"))
	}
	r := startRig(t, setup{cfg: routed(func(r *Route) { r.Balance = LeastLoad }), apps: list})
	var open []net.Conn
	for range 12 {
		nc, br := r.send(t, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
		if head := rawHead(t, br); !strings.HasPrefix(head, "HTTP/1.1 200") {
			t.Fatal(head)
		}
		open = append(open, nc)
	}
	for _, c := range r.Counters() {
		if c.InFlight != 4 {
			t.Errorf("%+v", c)
		}
	}
	for _, nc := range open {
		nc.Close()
	}
	eventually(t, "all counters are zero", func() bool { return r.Totals().InFlight == 0 })
}

// An instance in maintenance gets nothing; with all in it that is said.
func TestCase_D17_maintenance(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	list = list[:2]
	r := startRig(t, setup{apps: list})
	k := r.keep(t)
	list[0].Maintenance = true
	r.SetInstances(list)
	if count := k.spread(20); count["a1"] != 0 {
		t.Errorf("%v", count)
	}
	list[1].Maintenance = true
	r.SetInstances(list)
	if resp, body := k.ask("/", ""); resp.StatusCode != 503 || !strings.Contains(body, "maintenance") {
		t.Errorf("%s %s", resp.Status, body)
	}
	list[0].Maintenance = false
	r.SetInstances(list)
	if count := k.spread(5); count["a1"] != 5 {
		t.Errorf("%v", count)
	}
}
