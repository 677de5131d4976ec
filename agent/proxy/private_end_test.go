package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/proxyproto"
)

// clientPeer returns the client of the only connection that the proxy serves.
func (r *rig) clientPeer(t *testing.T) *peer {
	t.Helper()
	r.connMu.Lock()
	defer r.connMu.Unlock()
	for c := range r.conns {
		return c.peer
	}
	t.Fatal("no connection")
	return nil
}

// backendOf returns the only instance's.
func (r *rig) backendOf(t *testing.T) *backend {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.backends {
		return b
	}
	t.Fatal("no instance")
	return nil
}

func (p *peer) privately() int {
	p.private.mu.Lock()
	defer p.private.mu.Unlock()
	return len(p.private.wires)
}

// A connection that rests for too long is closed although its client stays, and
// the client's next request gets another one.
func TestPrivate_idleConnection(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", told(t, nil))
	r := startRig(t, setup{apps: []Instance{wants(a, "v1")}, cfg: configWith(func(c *Config) { c.Timeouts.Upstream = time.Millisecond })})
	nc, br := r.send(t, "")
	for n := 1; n <= 2; n++ {
		io.WriteString(nc, getRequest)
		if _, body := read(t, br, "GET"); body != fmt.Sprintf("%s 1", nc.LocalAddr()) {
			t.Errorf("request %d was seen as %q", n, body)
		}
		eventually(t, "the connection has ended", func() bool { open, seen := a.conns(); return open == 0 && seen == n })
	}
}

// One that its instance has closed is not held for as long as the client stays.
func TestPrivate_closedConnection(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", func(nc net.Conn) {
		if _, err := proxyproto.Read(nc); err != nil {
			t.Errorf("no header: %v", err)
			return
		}
		if _, err := http.ReadRequest(bufio.NewReader(nc)); err == nil {
			io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na1")
		}
	})
	cfg := h2cConfig()
	cfg.Timeouts.Upstream = time.Hour // as far as the requests are concerned
	r := startRig(t, setup{apps: []Instance{wants(a, "v2")}, cfg: cfg})
	q, err := http.NewRequest("GET", "http://"+r.addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	h2Do(t, h2Client(t), q) // its connection stays open
	b := r.backendOf(t)
	list := b.privates.all()
	if len(list) != 1 {
		t.Fatalf("connections of %d clients", len(list))
	}
	eventually(t, "the connection rests", func() bool { return list[0].pool.Idle() == 1 })
	b.sweep(time.Now(), time.Hour)
	if n := list[0].pool.Idle(); n != 1 {
		t.Errorf("%d rest after a sweep that was too early", n)
	}
	b.sweep(time.Now().Add(2*time.Hour), time.Hour)
	if n := list[0].pool.Idle(); n != 0 {
		t.Errorf("%d rest still", n)
	}
}

// What an instance leaves behind when it is deregistered ends at once, however
// long the clients stay.
func TestPrivate_deregisteredInstance(t *testing.T) {
	t.Parallel()
	gone, stays := startApp(t, "a1", told(t, nil)), startApp(t, "a2", told(t, nil))
	r := startRig(t, setup{loops: -1, apps: []Instance{wants(gone, "v1")}})
	nc, br := r.send(t, getRequest)
	read(t, br, "GET")
	client, b := r.clientPeer(t), r.backendOf(t)
	if n := client.privately(); n != 1 {
		t.Fatalf("the client has connections to %d instances", n)
	}
	r.SetInstances([]Instance{wants(stays, "v1")})
	eventually(t, "the connection has ended", func() bool { open, _ := gone.conns(); return open == 0 })
	if n := client.privately(); n != 0 {
		t.Errorf("the client has connections to %d instances", n)
	}
	client.wiresTo(b)
	if client.privately() != 0 || len(b.privates.all()) != 0 {
		t.Error("a late request brought the instance back")
	}
	io.WriteString(nc, getRequest)
	if _, body := read(t, br, "GET"); body != fmt.Sprintf("%s 1", nc.LocalAddr()) {
		t.Errorf("the other instance saw %q", body)
	}
}

// Nothing of a client is left with the instance, whose request may come late.
func TestPrivate_clientThatLeft(t *testing.T) {
	t.Parallel()
	headers := make(chan string, 2)
	a := startApp(t, "a1", told(t, headers))
	r := startRig(t, setup{loops: -1, apps: []Instance{wants(a, "v2")}})
	nc, br := r.send(t, getRequest)
	read(t, br, "GET")
	client, b := r.clientPeer(t), r.backendOf(t)
	if n := len(b.privates.all()); n != 1 {
		t.Fatalf("connections of %d clients", n)
	}
	nc.Close()
	eventually(t, "the instance knows nobody", func() bool { return len(b.privates.all()) == 0 })
	w := client.wiresTo(b)
	if client.privately() != 0 || len(b.privates.all()) != 0 {
		t.Error("a late request brought the client back")
	}
	late, err := w.pool.Dial()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the late one's, too: the instance stops with the test
		<-headers
	}
	w.pool.Put(late, time.Now())
	if n := w.pool.Idle(); n != 0 {
		t.Errorf("%d connections of one that left rest", n)
	}
}
