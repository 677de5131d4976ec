package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// where says how many client connections are in loops, and how many of those are
// at a request; and how many have a goroutine.
func (r *rig) where() (inLoops, busy, goroutines int) {
	r.loops.each(func(w *worker) {
		inLoops += len(w.clients)
		for _, l := range w.clients {
			if l.c != nil {
				busy++
			}
		}
	})
	r.connMu.Lock()
	defer r.connMu.Unlock()
	return inLoops, busy, len(r.conns)
}

// resting says how many connections to instances rest in loops.
func (r *rig) resting() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loops.each(func(w *worker) {
		for _, b := range r.backends {
			n += len(b.resting[w.index])
		}
	})
	return n
}

// settle waits until all n client connections wait in loops for a request, with
// nothing to read one with.
func (r *rig) settle(t *testing.T, n int) {
	t.Helper()
	eventually(t, "connections wait in loops", func() bool {
		in, busy, goroutines := r.where()
		return in == n && busy == 0 && goroutines == 0
	})
	if f := r.Totals().InFlight; f != 0 {
		t.Errorf("%d requests are under way", f)
	}
}

func talk(t *testing.T, nc net.Conn, br *bufio.Reader, request string) string {
	t.Helper()
	if _, err := io.WriteString(nc, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	_, body := read(t, br, method)
	return body
}

func TestLoops_connectionsWaitInLoops(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", echo("a1"))
	cfg := configWith(func(c *Config) { c.Timeouts.Header = time.Minute }) // the last ones have to wait for their first turn
	r := startRig(t, setup{cfg: cfg, loops: 2, apps: []Instance{instanceOf(a, "m1")}})
	const clients = 40
	ncs, brs := make([]net.Conn, clients), make([]*bufio.Reader, clients)
	for i := range ncs {
		ncs[i], brs[i] = r.send(t, "")
	}
	for n := range 5 {
		for i, nc := range ncs {
			path := fmt.Sprintf("/%d/%d", n, i)
			if body := talk(t, nc, brs[i], "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(body, "a1 "+path+" ") {
				t.Fatalf("%s was answered %q", path, body)
			}
			// The answer is there a moment before its connection can carry another request.
			eventually(t, "nothing is under way", func() bool { return r.Totals().InFlight == 0 })
		}
	}
	r.settle(t, clients)
	// One in each loop, as a rule; after an answer that took long it rests elsewhere.
	if _, seen := a.conns(); seen > clients/4 {
		t.Errorf("one request after another took %d connections to the instance in two loops", seen)
	}
	for _, nc := range ncs {
		nc.Close()
	}
	r.settle(t, 0)
}

// What is unusual leaves the loop in each state that there is, and the
// connection is back there for the next request.
func TestLoops_leaveAndReturn(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for n := 0; ; n++ {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if q.Header.Get("Expect") != "" {
				io.WriteString(nc, "HTTP/1.1 100 Continue\r\n\r\n")
			}
			b, err := io.ReadAll(q.Body)
			if err != nil {
				return
			}
			answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(q.URL.Path)+len(b), q.URL.Path+string(b))
			pause := time.NewTimer(150 * time.Millisecond)
			switch q.URL.Path {
			case "/slow":
				<-pause.C
			case "/slow-head":
				io.WriteString(nc, answer[:20])
				<-pause.C
				answer = answer[20:]
			case "/slow-body":
				io.WriteString(nc, answer[:len(answer)-3])
				<-pause.C
				answer = answer[len(answer)-3:]
			case "/hint":
				answer = "HTTP/1.1 103 Early Hints\r\n\r\n" + answer
			case "/close":
				io.WriteString(nc, "HTTP/1.1 200 OK\r\n\r\n/close")
				return
			case "/break":
				if n > 0 { // only over one that was used before
					return
				}
			}
			pause.Stop()
			if _, err := io.WriteString(nc, answer); err != nil {
				return
			}
		}
	})
	for name, c := range map[string]struct{ ask, want string }{
		"a slow answer":           {"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n", "/slow"},
		"an answer's slow head":   {"GET /slow-head HTTP/1.1\r\nHost: x\r\n\r\n", "/slow-head"},
		"an answer's slow body":   {"GET /slow-body HTTP/1.1\r\nHost: x\r\n\r\n", "/slow-body"},
		"an answer until the end": {"GET /close HTTP/1.1\r\nHost: x\r\n\r\n", "/close"},
		"a stale connection":      {"GET /break HTTP/1.1\r\nHost: x\r\n\r\n", "/break"},
		"an expectation":          {"POST /p HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", "/pabc"},
		"a body":                  {"POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "/pabc"},
		"a body in chunks":        {"POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "/pabc"},
		"a large body":            {"POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100000), "/p" + strings.Repeat("x", 100000)},
		"an old version":          {"GET /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "/old"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRig(t, setup{loops: 1, apps: []Instance{instanceOf(a, "m1")}})
			nc, br := r.send(t, "")
			for range 3 {
				talk(t, nc, br, getRequest)
				r.settle(t, 1)
				io.WriteString(nc, c.ask)
				method, _, _ := strings.Cut(c.ask, " ")
				resp, body := read(t, br, method)
				for resp.StatusCode < 200 {
					resp, body = read(t, br, method)
				}
				if body != c.want {
					t.Fatalf("answered %.100q, want %.100q", body, c.want)
				}
			}
			talk(t, nc, br, getRequest)
			r.settle(t, 1)
		})
	}
	t.Run("an interim answer", func(t *testing.T) {
		t.Parallel()
		r := startRig(t, setup{loops: 1, apps: []Instance{instanceOf(a, "m1")}})
		nc, br := r.send(t, "")
		talk(t, nc, br, getRequest)
		io.WriteString(nc, "GET /hint HTTP/1.1\r\nHost: x\r\n\r\n")
		if resp, _ := read(t, br, "GET"); resp.StatusCode != 103 {
			t.Errorf("status %d, want 103", resp.StatusCode)
		}
		if _, body := read(t, br, "GET"); body != "/hint" {
			t.Errorf("answered %q", body)
		}
		r.settle(t, 1)
	})
	t.Run("an upgrade", func(t *testing.T) {
		t.Parallel()
		ws := startApp(t, "a1", switching)
		r := startRig(t, setup{loops: 1, apps: []Instance{instanceOf(ws, "m1")}})
		nc, br := r.send(t, fmt.Sprintf(handshake, "Upgrade", "websocket"))
		if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 101 {
			t.Fatal(resp, err)
		}
		r.tunnelled(t, 1)
		nc.Close()
		r.tunnelled(t, 0)
		r.settle(t, 0)
	})
}

// A small body that comes behind its head is waited for in the loop, and in a
// goroutine when it takes long. What came of it goes on then.
func TestLoops_bodyBehindItsHead(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	a := startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			one := make([]byte, 1)
			if n, _ := q.Body.Read(one); n == 1 {
				got <- string(one)
			}
			if _, err := io.Copy(io.Discard, q.Body); err != nil {
				return
			}
			io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	r := startRig(t, setup{loops: 1, apps: []Instance{instanceOf(a, "m1")}})
	nc, br := r.send(t, "")
	talk(t, nc, br, getRequest)
	r.settle(t, 1)
	const head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
	rests := func() (n int) {
		r.loops.each(func(w *worker) {
			for _, l := range w.clients {
				if l.rests {
					n++
				}
			}
		})
		return n
	}
	// On a busy machine it may be a goroutine already that waits for the body.
	waited := func() bool { _, _, goroutines := r.where(); return rests()+goroutines == 1 }
	io.WriteString(nc, head)
	eventually(t, "the body is waited for", waited)
	io.WriteString(nc, "h")
	if body := talk(t, nc, br, "ello"); body != "ok" || <-got != "h" {
		t.Errorf("answered %q", body)
	}
	r.settle(t, 1)
	io.WriteString(nc, head+"h")
	if b := <-got; b != "h" { // after 100 ms
		t.Errorf("%q came", b)
	}
	if body := talk(t, nc, br, "ello"); body != "ok" {
		t.Errorf("answered %q", body)
	}
	r.settle(t, 1)
	// A stop lets it finish too.
	io.WriteString(nc, head)
	eventually(t, "the body is waited for", waited)
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	eventually(t, "it is looked after", func() bool { return rests() == 0 })
	if body := talk(t, nc, br, "hello"); body != "ok" || <-got != "h" {
		t.Errorf("answered %q", body)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// Requests that were sent ahead are answered in order, and hold up nobody.
func TestLoops_pipelined(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", echo("a1"))
	r := startRig(t, setup{loops: 1, apps: []Instance{instanceOf(a, "m1")}})
	const many = 500
	var all strings.Builder
	for n := range many {
		fmt.Fprintf(&all, "GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", n)
	}
	nc, br := r.send(t, "")
	nc.SetDeadline(time.Now().Add(2 * time.Minute)) // they are many for a busy machine
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(nc, all.String())
		written <- err
	}()
	other, otherReader := r.send(t, "")
	talk(t, other, otherReader, getRequest)
	for n := range many {
		if _, body := read(t, br, "GET"); !strings.HasPrefix(body, fmt.Sprintf("a1 /%d ", n)) {
			t.Fatalf("answer %d is %q", n, body)
		}
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	r.settle(t, 2)
}

// A client that does not read keeps a little of its answer waiting, and
// nobody else.
func TestLoops_slowReaders(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<19) // 8 MiB
	a := startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if q.URL.Path != "/large" {
				io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				continue
			}
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(large))
			if _, err := nc.Write(large); err != nil {
				return
			}
		}
	})
	r := startRig(t, setup{loops: 1, apps: []Instance{instanceOf(a, "m1")}})
	const ask8 = "GET /large HTTP/1.1\r\nHost: x\r\n\r\n"
	nc, br := r.send(t, "")
	nc.SetDeadline(time.Now().Add(time.Minute)) // it is much to read for a busy machine
	talk(t, nc, br, getRequest)
	r.settle(t, 1)
	blocked := func(r *rig) bool {
		n := 0
		r.loops.each(func(w *worker) {
			for _, l := range w.clients {
				if len(l.unsent) > 0 {
					n++
				}
			}
		})
		return n == 1
	}
	io.WriteString(nc, ask8)
	eventually(t, "it takes no more", func() bool {
		_, _, goroutines := r.where() // where an answer is carried that was slow to begin
		return blocked(r) || goroutines == 1
	})
	other, otherReader := r.send(t, "")
	other.SetDeadline(time.Now().Add(time.Minute))
	talk(t, other, otherReader, getRequest)
	if resp, body := read(t, br, "GET"); resp.StatusCode != 200 || body != string(large) {
		t.Fatalf("%d bytes came, status %d", len(body), resp.StatusCode)
	}
	if body := talk(t, nc, br, getRequest); body != "ok" {
		t.Errorf("then %q", body)
	}
	r.settle(t, 2)
	// One that never reads ends.
	cfg := configWith(func(*Config) {})
	r = startRig(t, setup{cfg: cfg, loops: 1, apps: []Instance{instanceOf(a, "m1")}})
	nc, br = r.send(t, "")
	talk(t, nc, br, getRequest)
	other, otherReader = r.send(t, "")
	talk(t, other, otherReader, getRequest)
	short := cfg
	short.Timeouts.Body = 200 * time.Millisecond
	if err := r.Reload(short); err != nil {
		t.Fatal(err)
	}
	io.WriteString(nc, ask8)
	r.settle(t, 1)
	if err := r.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	talk(t, other, otherReader, getRequest)
}

// An instance that closes what rests is noticed without a request.
func TestLoops_instanceClosesResting(t *testing.T) {
	t.Parallel()
	hangUp := make(chan struct{}, 10)
	a := startApp(t, "a1", func(nc net.Conn) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			echo("a1")(nc)
		}()
		select {
		case <-hangUp:
		case <-ended:
		}
	})
	r := startRig(t, setup{loops: 1, apps: []Instance{instanceOf(a, "m1")}})
	nc, br := r.send(t, "")
	rest := func() { // not before an answer was so quick that the loop has carried it
		t.Helper()
		eventually(t, "one rests", func() bool {
			talk(t, nc, br, getRequest)
			eventually(t, "nothing is under way", func() bool { return r.Totals().InFlight == 0 })
			return r.resting() == 1
		})
	}
	for n := range 5 {
		rest()
		hangUp <- struct{}{}
		eventually(t, "it is gone", func() bool { return r.resting() == 0 })
		if body := talk(t, nc, br, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok"); body != "a1 / "+strings.Fields(body)[2]+" 2" {
			t.Fatalf("round %d: %q", n, body)
		}
		eventually(t, "nothing is under way", func() bool { return r.Totals().InFlight == 0 })
	}
	if f := r.Totals().Failures; f != 0 {
		t.Errorf("%d failures were counted", f)
	}
	rest()
	r.SetInstances(nil)
	eventually(t, "those of an instance that is gone are closed", func() bool { open, _ := a.conns(); return r.resting() == 0 && open == 0 })
}

// A client that leaves ends its request at the instance, whatever that is at.
func TestLoops_clientsLeave(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			switch q.URL.Path {
			case "/":
				io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			case "/events":
				io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
			}
		}
	})
	for _, path := range []string{"/never", "/events"} {
		for _, how := range []string{"at once", "later"} {
			t.Run(path[1:]+" "+how, func(t *testing.T) {
				t.Parallel()
				r := startRig(t, setup{loops: 1, apps: []Instance{instanceOf(a, "m1")}})
				nc, br := r.send(t, "")
				talk(t, nc, br, getRequest)
				r.settle(t, 1)
				io.WriteString(nc, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
				if path == "/events" {
					if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 200 {
						t.Fatal(resp, err)
					}
				}
				if how == "later" {
					eventually(t, "nobody hurries", func() bool {
						quiet := false
						r.loops.each(func(w *worker) { quiet = len(w.clients) == 0 || w.clients[0].quiet })
						return quiet
					})
				}
				nc.Close()
				r.settle(t, 0)
				if f := r.Totals().Failures; f != 0 {
					t.Errorf("%d failures were counted", f)
				}
			})
		}
	}
}

// A stop lets the requests of loops finish, and Close does not.
func TestLoops_stop(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"gracefully", "at once"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			asked, go_ := make(chan struct{}, 1), make(chan struct{})
			a := startApp(t, "a1", func(nc net.Conn) {
				br := bufio.NewReader(nc)
				for {
					q, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					if q.URL.Path == "/wait" {
						io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
						asked <- struct{}{}
						<-go_
						io.WriteString(nc, "k")
						continue
					}
					io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			})
			r := startRig(t, setup{loops: 1, apps: []Instance{instanceOf(a, "m1")}})
			idle, idleReader := r.send(t, "")
			nc, br := r.send(t, "")
			talk(t, nc, br, getRequest)
			talk(t, idle, idleReader, getRequest)
			r.settle(t, 2)
			io.WriteString(nc, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
			<-asked
			stopped := make(chan error, 1)
			go func() { stopped <- r.stop() }()
			if _, err := idleReader.ReadByte(); err != io.EOF {
				t.Errorf("the idle connection: %v", err)
			}
			if how == "gracefully" {
				close(go_)
				if resp, body := read(t, br, "GET"); body != "ok" || resp.StatusCode != 200 {
					t.Errorf("the answer is %q, status %d", body, resp.StatusCode)
				}
			} else {
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				r.Close()
				if _, err := io.ReadAll(resp.Body); err != io.ErrUnexpectedEOF {
					t.Errorf("the rest of the body: %v", err)
				}
				close(go_)
			}
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			if f := r.Totals().InFlight; f != 0 {
				t.Errorf("%d requests are under way", f)
			}
		})
	}
}

// A head that does not come to its end is refused in time, and no client holds
// up a loop with it.
func TestLoops_headInPieces(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", echo("a1"))
	cfg := configWith(func(*Config) {})
	r := startRig(t, setup{cfg: cfg, loops: 1, apps: []Instance{instanceOf(a, "m1")}})
	slow, slowReader := r.send(t, "")
	talk(t, slow, slowReader, getRequest) // one that never said anything would be closed without an answer
	r.settle(t, 1)
	io.WriteString(slow, "GET / HT")
	nc, br := r.send(t, "")
	for _, b := range []byte(getRequest) {
		if _, err := nc.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	read(t, br, "GET")
	cfg.Timeouts.Header = 100 * time.Millisecond
	if err := r.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	resp, _ := read(t, slowReader, "GET")
	if resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("status %d, want 408", resp.StatusCode)
	}
	slow.Close()
	r.settle(t, 1)
}
