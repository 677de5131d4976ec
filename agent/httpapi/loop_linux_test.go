package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/internal/netloop"
	"github.com/rondel-project/rondel/agent/session"
)

// loopCarriers are two servers over sessions of their own that are alike: the
// connections of one are carried in loops, those of the other by net/http.
type loopCarriers struct {
	loop, plain net.Listener
	door        *door
}

func newLoopCarriers(t testing.TB, sessions Sessions, like *engine) *loopCarriers {
	t.Helper()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	c := &loopCarriers{loop: listen(), plain: listen()}
	ctx, cancel := context.WithCancel(context.Background())
	server := New(Options{Logger: hclog.NewNullLogger(), Sessions: sessions, Node: "m1"})
	c.door = newDoor(ctx, hclog.NewNullLogger(), server, server.maxBody)
	pool := netloop.NewPool(netloop.Options{Round: sessions.Flush})
	c.door.loops = newLoopServer(pool, server, c.door)
	handler := New(Options{Logger: hclog.NewNullLogger(), Sessions: like, Node: "m1"})
	plain := &http.Server{
		Handler: answering(handler), DisableGeneralOptionsHandler: true, MaxHeaderBytes: maxHead,
		ConnState: onState, ConnContext: withConn, ErrorLog: c.door.http.ErrorLog,
	}
	ended := make(chan error, 3)
	go func() { ended <- c.door.serveRest() }()
	go func() { ended <- c.door.accept(c.loop) }()
	go func() { plain.Serve(inWords{c.plain}); ended <- nil }()
	t.Cleanup(func() {
		bounded, done := context.WithTimeout(ctx, time.Second)
		defer done()
		if err := c.door.stop(bounded, []net.Listener{c.loop}, cancel); err != nil {
			t.Error(err)
		}
		plain.Close()
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// dial returns a connection that begins in a loop.
func (c *loopCarriers) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", c.loop.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}

// inLoops returns how many connections the loops carry.
func (c *loopCarriers) inLoops() int { return len(c.door.loops.all()) }

// alike returns two engines that hold the same session.
func alike(t testing.TB) (a, b *engine, id session.ID) {
	t.Helper()
	a, b = newEngine(), newEngine()
	id, err := a.Mint()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*engine{a, b} {
		r := e.Do(t.Context(), &session.Request{Kind: session.Create, ID: id, Attrs: []session.Attr{{Name: "a", Value: []byte(`1`)}}})
		if r.Status != session.OK {
			t.Fatal(r.Error)
		}
	}
	return a, b, id
}

var times = regexp.MustCompile(`"(Accessed|Expires)":"[^"]*"`)

// compare sends text to both, and fails where the answers are not the same.
func (c *loopCarriers) compare(t testing.TB, text string) {
	t.Helper()
	got, want := exchange(t, c.loop, []byte(text)), exchange(t, c.plain, []byte(text))
	if len(got) != len(want) {
		t.Fatalf("%q: %d answers, net/http gives %d\n%q\n%q", text, len(got), len(want), got, want)
	}
	for i := range got {
		if got, want := times.ReplaceAllString(got[i], ""), times.ReplaceAllString(want[i], ""); got != want {
			t.Errorf("%q: answer %d is\n%s\nnet/http gives\n%s", text, i+1, got, want)
		}
	}
}

// What a client sees must not depend on who carries its requests. ID stands for
// the id of a session that is there.
func FuzzLoop(f *testing.F) {
	const host = "Host: a:1\r\n"
	put := func(method, fields, body string) string {
		return fmt.Sprintf("%s /v1/sessions/ID HTTP/1.1\r\nHost: 127.0.0.1\r\n%sContent-Length: %d\r\n\r\n%s", method, fields, len(body), body)
	}
	get := func(fields string) string {
		return "GET /v1/sessions/ID HTTP/1.1\r\nHost: localhost:1\r\n" + fields + "\r\n"
	}
	for _, s := range []string{
		get(""),
		get("") + get("User-Agent: x\r\nAccept: */*\r\n") + get("If-None-Match: \"7.1\"\r\n") + get("If-None-Match: *\r\n"),
		get("If-None-Match: nonsense\r\n") + get(""),
		get("Pragma: no-cache\r\n") + get("Connection: close\r\n") + get(""),
		get("Origin: http://evil.example\r\n") + get(""),
		get("Host: a\r\n"),
		"GET /v1/sessions/ID HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"GET /v1/sessions/ID HTTP/1.1\r\n\r\n",
		"GET /v1/sessions/ID HTTP/1.0\r\n\r\n",
		"GET /v1/sessions/ID HTTP/1.1\nHost: a\n\n",
		"\r\n" + get(""),
		"GET /v1/sessions/ID?touch HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"HEAD /v1/sessions/ID HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"GET /v1/sessions/" + strings.Repeat("x", session.IDLen) + " HTTP/1.1\r\nHost: m1\r\n\r\n",
		"GET /v1/sessions/" + strings.Repeat("%78", session.IDLen/3) + " HTTP/1.1\r\nHost: m1\r\n\r\n",
		put("PUT", "", `{"Attributes":{"b":2}}`) + get("") + put("PATCH", "", `{"Attributes":{"b":null,"c":{"Base64":"AA==","ContentType":"x/y"}}}`) + get(""),
		put("PUT", "If-Match: \"7.1\"\r\n", `{"Attributes":{}}`) + put("PUT", "If-Match: \"7.1\"\r\n", `{"Attributes":{}}`),
		put("PUT", "Idempotency-Key: k\r\n", `{"Attributes":{"b":3}}`) + put("PUT", "Idempotency-Key: k\r\n", `{"Attributes":{"b":3}}`) + put("PUT", "Idempotency-Key: k\r\n", `{"Attributes":{"b":4}}`),
		put("PUT", "Idempotency-Key: k\r\nIdempotency-Key: l\r\n", `{"Attributes":{"b":3}}`),
		put("PUT", "", ``) + put("PUT", "", `{`) + put("PUT", "", `{"Attributes":1}`) + put("PUT", "", "{\"Attributes\":{\"\xff\":1}}") + get(""),
		put("PUT", "Expect: 100-continue\r\n", `{"Attributes":{}}`),
		put("PUT", "", `{"Attributes":{"b":"`+strings.Repeat("x", 80_000)+`"}}`) + get(""),
		put("GET", "", `{}`) + get(""),
		"PUT /v1/sessions/ID HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n11\r\n{\"Attributes\":{}}\r\n0\r\n\r\n" + get(""),
		"PUT /v1/sessions/ID HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\n{",
		"POST /v1/sessions/ID/touch HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + get(""),
		"POST /v1/sessions/ID/attributes/n/incr HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + get(""),
		"DELETE /v1/sessions/ID HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + get("") + put("PUT", "", `{"Attributes":{}}`),
		"GET /v1/nowhere HTTP/1.1\r\n" + host + "\r\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "/v1/") && !strings.Contains(text, "/v1/sessions/") && !strings.Contains(text, "/v1/nowhere") || len(text) > 200_000 {
			return // the other parts of the API do not stand behind these servers
		}
		a, b, id := alike(t)
		c := newLoopCarriers(t, a, b)
		c.compare(t, strings.ReplaceAll(text, "ID", string(id)))
	})
}

func TestLoop_keepsWhatItKnows(t *testing.T) {
	t.Parallel()
	a, b, id := alike(t)
	c := newLoopCarriers(t, a, b)
	conn := c.dial(t)
	request := "GET /v1/sessions/" + string(id) + " HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Go-http-client/1.1\r\nAccept-Encoding: gzip\r\n\r\n"
	ask := func(text string) {
		t.Helper()
		for i := range len(text) { // a byte at a time is as good
			if _, err := conn.Write([]byte(text[i : i+1])); err != nil {
				t.Fatal(err)
			}
		}
		if got := readAnswer(t, conn); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") {
			t.Fatal(got)
		}
	}
	ask(request)
	if n := c.inLoops(); n != 1 {
		t.Fatalf("%d connections are in loops, want 1", n)
	}
	// What a loop does not know is answered elsewhere, and the connection comes back.
	ask("POST /v1/sessions/" + string(id) + "/attributes/n/incr HTTP/1.1\r\nHost: localhost\r\n\r\n")
	ask(request)
	waitFor(t, "the connection to be back in a loop", func() bool { return c.inLoops() == 1 })
	ask(request)
	conn.Close()
	waitFor(t, "the loops to be empty", func() bool { return c.inLoops() == 0 })
}

// readAnswer reads one whole answer.
func readAnswer(t *testing.T, conn net.Conn) string {
	t.Helper()
	var head bytes.Buffer
	one := make([]byte, 1)
	for !bytes.HasSuffix(head.Bytes(), []byte("\r\n\r\n")) {
		if _, err := io.ReadFull(conn, one); err != nil {
			t.Fatalf("%v after %q", err, head.String())
		}
		head.Write(one)
	}
	length := 0
	if _, rest, ok := strings.Cut(head.String(), "Content-Length: "); ok {
		fmt.Sscan(rest, &length)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(conn, body); err != nil {
		t.Fatal(err)
	}
	return head.String() + string(body)
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			t.Fatal("waited in vain for " + what)
		}
		<-time.After(time.Millisecond)
	}
}

// held is an engine that answers when it is told to.
type held struct {
	*engine
	mu      sync.Mutex // guards all below
	started []func()
	flushes int
}

func (h *held) Start(req *session.Request, w Waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started = append(h.started, func() { w.Answered(h.Do(context.Background(), req)) })
}

func (h *held) Flush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flushes++
}

func (h *held) count() (started, flushes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.started), h.flushes
}

func (h *held) release() {
	h.mu.Lock()
	all := h.started
	h.started = nil
	h.mu.Unlock()
	for _, f := range all {
		f()
	}
}

func TestLoop_goesOnWhereTheAnswerComes(t *testing.T) {
	t.Parallel()
	a, b, id := alike(t)
	h := &held{engine: a}
	c := newLoopCarriers(t, h, b)
	conn := c.dial(t)
	request := "DELETE /v1/sessions/" + string(id) + " HTTP/1.1\r\nHost: localhost\r\n\r\n" +
		"GET /v1/sessions/" + string(id) + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
	conn.Write([]byte(request))
	for i, want := range []string{"200 OK", "404 Not Found"} {
		waitFor(t, "an operation", func() bool { n, flushes := h.count(); return n == 1 && flushes > i })
		go h.release()
		if got := readAnswer(t, conn); !strings.HasPrefix(got, "HTTP/1.1 "+want) {
			t.Fatal(got)
		}
	}
	// The state that it is in now is that of any connection.
	conn.Write([]byte(request[strings.Index(request, "GET"):]))
	waitFor(t, "an operation", func() bool { n, _ := h.count(); return n == 1 })
	h.release()
	readAnswer(t, conn)
}

func TestLoop_slowReadersGetEverything(t *testing.T) {
	t.Parallel()
	a, b, id := alike(t)
	value := []byte(`"` + strings.Repeat("x", 900_000) + `"`)
	for _, e := range []*engine{a, b} {
		e.Do(t.Context(), &session.Request{Kind: session.Put, ID: id, Attrs: []session.Attr{{Name: "v", Value: value}}})
	}
	c := newLoopCarriers(t, a, b)
	conn := c.dial(t)
	const times = 20 // more than the sockets hold
	request := "GET /v1/sessions/" + string(id) + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
	if _, err := conn.Write([]byte(strings.Repeat(request, times))); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the connection to leave its loop", func() bool { return c.inLoops() == 0 })
	for range times {
		if got := readAnswer(t, conn); !strings.Contains(got, string(value)) {
			t.Fatalf("an answer of %d bytes", len(got))
		}
	}
}

func TestLoop_givesUpWhatWaitsTooLong(t *testing.T) {
	t.Parallel()
	a, b, _ := alike(t)
	c := newLoopCarriers(t, a, b)
	begin := time.Unix(c.door.loops.second.Load(), 0) // all that comes counts from it or from later
	conns := make([]net.Conn, 2)
	for i := range conns {
		conns[i] = c.dial(t)
	}
	conns[1].Write([]byte("GET /v1/sess"))
	// received returns how much there is of a request, and since when.
	received := func() (bytes int, since int64) {
		for _, lc := range c.door.loops.all() {
			if lc.state.CompareAndSwap(connIdle, connBusy) {
				if lc.w > lc.r {
					bytes, since = lc.w-lc.r, lc.since.Load()
				}
				if !lc.rest() {
					lc.proceed()
				}
			}
		}
		return bytes, since
	}
	waitFor(t, "both connections, and what one has sent", func() bool {
		n, _ := received()
		return c.inLoops() == 2 && n > 0
	})
	sweep := func(after time.Duration) { c.door.loops.sweep(begin.Add(after)) }
	sweep(headTime / 2)
	if n := c.inLoops(); n != 2 {
		t.Fatalf("%d connections are left, want both", n)
	}
	// A byte now and then makes no head any younger.
	before, since := received()
	conns[1].Write([]byte("i"))
	waitFor(t, "one byte more", func() bool { n, _ := received(); return n > before })
	if _, second := received(); second != since {
		t.Errorf("a head that began at %d counts from %d", since, second)
	}
	sweep(headTime + time.Second)
	if n := c.inLoops(); n != 1 {
		t.Fatalf("%d connections are left, want that without a part of a request", n)
	}
	sweep(idleTime + time.Hour)
	if _, err := conns[0].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("an idle connection: %v, want its end", err)
	}
}
