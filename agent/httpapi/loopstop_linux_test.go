package httpapi

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/session"
)

func TestLoop_stopsWithWhatHasBegun(t *testing.T) {
	t.Parallel()
	a, b, id := alike(t)
	h := &held{engine: a}
	c := newLoopCarriers(t, h, b)
	idle, asking, forgotten := c.dial(t), c.dial(t), c.dial(t)
	request := []byte("GET /v1/sessions/" + string(id) + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
	asking.Write(request)
	waitFor(t, "an operation", func() bool { n, _ := h.count(); return n == 1 })
	h.mu.Lock()
	answer := h.started[0]
	h.started = nil
	h.mu.Unlock()
	forgotten.Write(request)
	waitFor(t, "an operation", func() bool { n, _ := h.count(); return n == 1 })
	waitFor(t, "all connections", func() bool { return c.inLoops() == 3 })

	stopped := make(chan error, 1)
	bounded, cancel := context.WithCancel(context.Background())
	go func() { stopped <- c.door.stop(bounded, []net.Listener{c.loop}, func() {}) }()
	if _, err := idle.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("an idle connection: %v, want its end", err)
	}
	answer()
	if got := readAnswer(t, asking); !strings.Contains(got, "\r\nConnection: close\r\n") {
		t.Errorf("the answer to a request that had begun is %q, want one that ends the connection", got)
	}
	cancel() // what has not ended by now is ended
	if _, err := forgotten.Read(make([]byte, 1)); err == nil {
		t.Error("a request was answered though its operation was not")
	}
	<-stopped
	h.release() // too late: nobody waits
	if n := c.inLoops(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

// slowStart is an engine that never answers, and takes its time to begin.
type slowStart struct {
	*engine
	entered, release chan struct{}
}

func (s *slowStart) Start(*session.Request, Waiter) {
	close(s.entered)
	<-s.release
}

// An operation that begins while the door ends what waits is waited for by
// nobody either.
func TestLoop_stopsWithWhatOnlyBegins(t *testing.T) {
	t.Parallel()
	a, b, id := alike(t)
	s := &slowStart{a, make(chan struct{}), make(chan struct{})}
	c := newLoopCarriers(t, s, b)
	conn := c.dial(t)
	io.WriteString(conn, "GET /v1/sessions/"+string(id)+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-s.entered
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- c.door.stop(ended, []net.Listener{c.loop}, func() {}) }()
	waitFor(t, "the door to end what waits", c.door.loops.aborted.Load)
	close(s.release)
	<-stopped
	if n := c.inLoops(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

func TestLoop_readersThatDoNotReadDoNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	a, b, id := alike(t)
	value := []byte(`"` + strings.Repeat("x", 900_000) + `"`)
	a.Do(t.Context(), &session.Request{Kind: session.Put, ID: id, Attrs: []session.Attr{{Name: "v", Value: value}}})
	c := newLoopCarriers(t, a, b)
	conn := c.dial(t)
	request := "GET /v1/sessions/" + string(id) + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
	if _, err := conn.Write([]byte(strings.Repeat(request, 20))); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the connection to wait with an answer", func() bool {
		c.door.mu.Lock()
		defer c.door.mu.Unlock()
		return len(c.door.open) == 1
	})
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- c.door.stop(ended, []net.Listener{c.loop}, func() {}) }()
	select {
	case <-stopped:
	case <-time.After(40 * time.Second): // the write alone could take a minute
		t.Fatal("the door waits for a client that does not read")
	}
}
