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

// D-10: upgrades in all spellings, and ends of one side.
func TestTunnel_webSocket(t *testing.T) {
	t.Parallel()
	r, _ := one(t, switching)
	for _, spelling := range [][2]string{
		{"Upgrade", "websocket"}, {"upgrade", "WebSocket"}, {"keep-alive, Upgrade", "websocket"}, {"Upgrade,keep-alive", "WEBSOCKET"}, {"keep-alive,\tUPGRADE", "websocket"},
	} {
		// D-14: the cookie comes with a 101 too.
		nc, br := r.send(t, fmt.Sprintf(handshake, spelling[0], spelling[1]))
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != 101 {
			t.Fatalf("%q: %v %v", spelling, resp, err)
		}
		if len(resp.Header.Values("Set-Cookie")) != 1 || resp.Header.Get("Sec-Websocket-Accept") != "x" {
			t.Errorf("%q: %v", spelling, resp.Header)
		}
		io.WriteString(nc, "ping")
		nc.(*net.TCPConn).CloseWrite()
		if b, err := io.ReadAll(br); string(b) != "hellopingbye" || err != nil {
			t.Errorf("%q: got %q %v", spelling, b, err)
		}
	}
	if f := r.idle(t).Failures; f != 0 {
		t.Errorf("%d failures", f)
	}
}

func TestTunnel_otherProtocolsStayPlain(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	r, _ := one(t, raw(got, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n",
		"GET / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\nx",
	} {
		_, br := r.send(t, text)
		if resp, _ := read(t, br, "GET"); resp.StatusCode != 200 {
			t.Errorf("%q: %d", text, resp.StatusCode)
		}
		if head := <-got; strings.Contains(head, "pgrade") || strings.Contains(head, "HTTP2") {
			t.Errorf("app got %q", head)
		}
	}
}

func TestTunnel_answersThatAreNot101(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reply  string
		status int
	}{
		"refused":       {"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", 403},
		"ignored":       {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200},
		"another":       {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 502},
		"no Connection": {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", 502},
		"no protocol":   {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n", 502},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, a := one(t, raw(nil, tc.reply))
			for range 20 {
				nc, br := r.send(t, fmt.Sprintf(handshake, "Upgrade", "websocket"))
				if resp, _ := read(t, br, "GET"); resp.StatusCode != tc.status {
					t.Fatalf("status %d", resp.StatusCode)
				}
				nc.Close()
			}
			r.idle(t)
			if open, _ := a.conns(); tc.status != 502 && open > 4 {
				t.Errorf("%d connections open", open)
			}
		})
	}
	t.Run("unasked", func(t *testing.T) {
		t.Parallel()
		r, _ := one(t, raw(nil, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
		if resp, _ := r.request(t, "/", ""); resp.StatusCode != 502 {
			t.Errorf("status %d", resp.StatusCode)
		}
	})
}

func TestTunnel_idleOnesEnd(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Routes = []Route{DefaultRoute("shop")}
	cfg.Timeouts.Tunnel = 200 * time.Millisecond
	a := startApp(t, "a1", switching)
	r := startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(a, "m1")}})
	_, br := r.send(t, fmt.Sprintf(handshake, "Upgrade", "websocket"))
	if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 101 {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(br); !strings.HasPrefix(string(b), "hello") {
		t.Errorf("got %q", b)
	}
	r.idle(t)
	eventually(t, "the app's end closed", func() bool { open, _ := a.conns(); return open == 0 })
}

// D-17: tunnels count as load.
func TestTunnel_countsAsLoad(t *testing.T) {
	t.Parallel()
	var list []Instance
	for n := range 3 {
		list = append(list, instanceOf(startApp(t, fmt.Sprint("a", n), switching), "m1"))
	}
	cfg := DefaultConfig()
	cfg.Routes = []Route{DefaultRoute("shop")}
	cfg.Routes[0].Balance = LeastLoad
	r := startRig(t, setup{cfg: cfg, apps: list})
	for range 30 {
		_, br := r.send(t, fmt.Sprintf(handshake, "Upgrade", "websocket"))
		if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 101 {
			t.Fatal(err)
		}
	}
	for _, c := range r.Counters() {
		if c.InFlight != 10 {
			t.Errorf("%s has %d", c.ID, c.InFlight)
		}
	}
}
