package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

const handshake = "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: %s\r\nUpgrade: %s\r\nSec-WebSocket-Key: AA==\r\nSec-WebSocket-Version: 13\r\n\r\n"

// switching answers an upgrade with 101, says hello, and echoes until the
// client's side ends; then it says bye.
func switching(nc net.Conn) {
	br := bufio.NewReader(nc)
	q, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	if !strings.EqualFold(q.Header.Get("Upgrade"), "websocket") {
		fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nplain")
		return
	}
	io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Accept: x\r\n\r\nhello")
	io.Copy(nc, br)
	io.WriteString(nc, "bye")
}

// Upgrades in all spellings, with bytes behind the handshake on either side; and
// an end of one side, which leaves the other open.
func TestCase_D10_spellings(t *testing.T) {
	t.Parallel()
	eachWay(t, caseSpellings)
}

func caseSpellings(t *testing.T, loops int) {
	r, a := oneIn(t, loops, switching)
	for n, spelling := range [][2]string{
		{"Upgrade", "websocket"}, {"upgrade", "WebSocket"}, {"keep-alive, Upgrade", "websocket"}, {"Upgrade,keep-alive", "WEBSOCKET"}, {"keep-alive,\tUPGRADE", "websocket"},
		{"Upgrade", "h2c, websocket"}, {"Upgrade\r\nConnection: keep-alive", "websocket"}, {"keep-alive\r\nConnection: Upgrade", "h2c\r\nUpgrade: websocket"}, {"Upgrade, HTTP2-Settings", "websocket, h2c"},
	} {
		early := ""
		if n%2 == 0 {
			early = "early "
		}
		nc, br := r.send(t, fmt.Sprintf(handshake, spelling[0], spelling[1])+early)
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != 101 {
			t.Fatalf("%q: %v %v", spelling, resp, err)
		}
		h := resp.Header
		if len(h.Values("Set-Cookie")) != 1 || h.Get("Sec-Websocket-Accept") != "x" || h.Get("Connection") != "Upgrade" || !strings.EqualFold(h.Get("Upgrade"), "websocket") {
			t.Errorf("%q: %v", spelling, h)
		}
		io.WriteString(nc, "ping")
		nc.(*net.TCPConn).CloseWrite()
		if b, err := io.ReadAll(br); string(b) != "hello"+early+"pingbye" || err != nil {
			t.Errorf("%q: got %q %v", spelling, b, err)
		}
	}
	if f := r.idle(t).Failures; f != 0 {
		t.Errorf("%d failures", f)
	}
	eventually(t, "the app's connections end", func() bool { open, _ := a.conns(); return open == 0 })
}

// Other protocols, and what is no upgrade, go on as plain HTTP: what follows on
// the connection is a request like any other.
func TestCase_D10_otherProtocolsStayPlain(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"h2c":               "GET /p HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
		"TLS":               "GET /p HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: TLS/1.0\r\n\r\n",
		"not in Connection": "GET /p HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n",
		"part of a word":    "GET /p HTTP/1.1\r\nHost: x\r\nConnection: Upgraded\r\nUpgrade: websocket\r\n\r\n",
		"of another name":   "GET /p HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket2\r\n\r\n",
		"with a version":    "GET /p HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket/13\r\n\r\n",
		"no protocol":       "GET /p HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n\r\n",
		"empty":             "GET /p HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: ,\r\n\r\n",
		"HTTP/1.0":          "GET /p HTTP/1.0\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"a body in the way": "POST /p HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\nx",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := &recorder{}
			r, _ := one(t, rec.handle)
			nc, br := r.send(t, text+canary)
			for range 2 {
				if resp, body := read(t, br, "GET"); resp.StatusCode != 200 || body != "ok" {
					t.Fatalf("%d %q", resp.StatusCode, body)
				}
			}
			nc.Close()
			if seen := rec.all(); len(seen) != 2 || seen[1] != "GET /canary " {
				t.Errorf("the app saw %q", seen)
			}
			if head := rec.heads[0]; strings.Contains(head, "pgrade") || strings.Contains(head, "HTTP2-Settings") {
				t.Errorf("the app saw %q", head)
			}
		})
	}
}

// An answer that is not 101 is an ordinary one, and 101 counts only for what was
// asked for; nothing is left open after many tries.
func TestCase_D10_answersThatAreNot101(t *testing.T) {
	t.Parallel()
	const switched = "HTTP/1.1 101 Switching Protocols\r\n"
	for name, tc := range map[string]struct {
		reply  string
		status int
	}{
		"refused":          {"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", 403},
		"ignored":          {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200},
		"wants another":    {"HTTP/1.1 426 Upgrade Required\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n", 426},
		"another protocol": {switched + "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 502},
		"two protocols":    {switched + "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n\r\n", 502},
		"no Connection":    {switched + "Upgrade: websocket\r\n\r\n", 502},
		"no protocol":      {switched + "Connection: Upgrade\r\n\r\n", 502},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startApp(t, "a1", raw(nil, tc.reply))
			r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}, cfg: routed(func(rt *Route) { rt.Outlier.Failures = 0 })})
			nc, br := r.send(t, "")
			nc.SetDeadline(time.Now().Add(time.Minute))
			for range 150 { // over all of these, more than a thousand
				io.WriteString(nc, fmt.Sprintf(handshake, "Upgrade", "websocket"))
				resp, _ := read(t, br, "GET")
				if resp.StatusCode != tc.status || resp.Header.Get("Upgrade") != "" {
					t.Fatalf("status %d, %v", resp.StatusCode, resp.Header)
				}
				if resp.Close {
					t.Fatal("the client's connection pays for it")
				}
			}
			nc.Close()
			r.idle(t)
			eventually(t, "no more connections than one that rests", func() bool { open, _ := a.conns(); return open <= 1 })
			if _, seen := a.conns(); tc.status != 502 && seen > 2 {
				t.Errorf("%d connections for one client", seen)
			}
		})
	}
	t.Run("unasked", func(t *testing.T) {
		t.Parallel()
		r, a := one(t, raw(nil, switched+"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
		if resp, _ := r.request(t, "/", ""); resp.StatusCode != 502 {
			t.Errorf("status %d", resp.StatusCode)
		}
		eventually(t, "its connection ends", func() bool { open, _ := a.conns(); return open == 0 })
	})
}

// A client that has said all waits for the rest: it comes, also much later.
func TestCase_D10_oneSidedEnds(t *testing.T) {
	t.Parallel()
	eachWay(t, caseOneSidedEnds)
}

func caseOneSidedEnds(t *testing.T, loops int) {
	for _, side := range []string{"client", "app"} {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			heard := make(chan string, 1)
			r, a := oneIn(t, loops, func(nc net.Conn) {
				br := bufio.NewReader(nc)
				if _, err := http.ReadRequest(br); err != nil {
					return
				}
				io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				if side == "app" {
					io.WriteString(nc, "all I have")
					nc.(*net.TCPConn).CloseWrite()
				}
				b, _ := io.ReadAll(br)
				heard <- string(b)
				if side == "client" { // a second later, and still in pieces
					for range 3 {
						timer := time.NewTimer(300 * time.Millisecond)
						<-timer.C
						io.WriteString(nc, "late ")
					}
				}
			})
			nc, br := r.send(t, fmt.Sprintf(handshake, "Upgrade", "websocket"))
			if head := rawHead(t, br); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
				t.Fatalf("head %q", head)
			}
			want := "late late late "
			if side == "app" {
				want = "all I have"
				if b, err := io.ReadAll(br); string(b) != want || err != nil {
					t.Errorf("got %q %v", b, err)
				}
			}
			io.WriteString(nc, strings.Repeat("x", 100000))
			nc.(*net.TCPConn).CloseWrite()
			if got := <-heard; len(got) != 100000 {
				t.Errorf("the app heard %d bytes", len(got))
			}
			if side == "client" {
				if b, err := io.ReadAll(br); string(b) != want || err != nil {
					t.Errorf("got %q %v", b, err)
				}
			}
			r.idle(t)
			eventually(t, "both ends are closed", func() bool { open, _ := a.conns(); return open == 0 })
		})
	}
}

// A tunnel through which nothing passes ends; one in which one side talks does not.
func TestCase_D10_idleTunnelsEnd(t *testing.T) {
	t.Parallel()
	eachWay(t, caseIdleTunnelsEnd)
}

func caseIdleTunnelsEnd(t *testing.T, loops int) {
	cfg := routed(func(*Route) {})
	cfg.Timeouts.Tunnel = 3 * time.Second
	a := startApp(t, "a1", switching)
	r := startRig(t, setup{cfg: cfg, loops: loops, apps: []Instance{instanceOf(a, "m1")}})
	nc, br := r.send(t, fmt.Sprintf(handshake, "Upgrade", "websocket"))
	if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 101 {
		t.Fatal(err)
	}
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	want := "hello"
	for range 25 { // more than twice as long as it may rest
		<-tick.C
		io.WriteString(nc, "x")
		want += "x"
	}
	b := make([]byte, len(want))
	if _, err := io.ReadFull(br, b); err != nil || string(b) != want {
		t.Errorf("got %q %v", b, err)
	}
	if rest, _ := io.ReadAll(br); string(rest) != "" && string(rest) != "bye" {
		t.Errorf("then %q", rest)
	}
	r.idle(t)
	eventually(t, "the app's end closed", func() bool { open, _ := a.conns(); return open == 0 })
}
