package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/accesslog"
)

func bufioOf(nc net.Conn) *bufio.Reader { return bufio.NewReader(nc) }

// echoWith answers each request with 200 and the fields that it is given.
func echoWith(nc net.Conn, fields func(*http.Request) string) {
	br := bufio.NewReader(nc)
	for {
		q, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\n%sContent-Length: 0\r\n\r\n", fields(q)); err != nil {
			return
		}
	}
}

// D-17: an agent that stops accepts nobody, closes what is idle at once, says
// goodbye with the answers that are still due, lets a download finish, and waits
// for a WebSocket.
func TestCase_D17_stop(t *testing.T) {
	t.Parallel()
	eachWay(t, caseStop)
}

func caseStop(t *testing.T, loops int) {
	began, goOn := make(chan struct{}), make(chan struct{})
	const size = 4 << 20
	a := startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			switch {
			case q.Header.Get("Upgrade") != "":
				io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				br.ReadByte()
				return
			case q.URL.Path == "/download":
				fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size)
				body := make([]byte, size)
				nc.Write(body[:1000]) // nobody takes it yet
				began <- struct{}{}
				<-goOn
				nc.Write(body[1000:])
			case q.URL.Path == "/slow":
				began <- struct{}{}
				<-goOn
				io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			default:
				io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
		}
	})
	cfg := DefaultConfig()
	cfg.Timeouts.Drain = time.Hour
	r, next := loggedIn(t, loops, accesslog.Config{}, cfg, instanceOf(a, "m1"))
	nc, ws := r.send(t, fmt.Sprintf(handshake, "Upgrade", "websocket"))
	if resp, err := http.ReadResponse(ws, nil); err != nil || resp.StatusCode != 101 {
		t.Fatal(err)
	}
	var idle []*bufio.Reader
	for range 50 {
		_, br := r.send(t, plainGet)
		read(t, br, "GET")
		idle = append(idle, br)
	}
	_, download := r.send(t, "GET /download HTTP/1.1\r\nHost: x\r\n\r\n")
	<-began
	_, slow := r.send(t, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
	<-began

	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	for n, br := range idle {
		if _, err := br.ReadByte(); err != io.EOF {
			t.Fatalf("idle connection %d: %v", n, err)
		}
	}
	if _, err := net.Dial("tcp", r.addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection: %v", err)
	}
	close(goOn)
	if resp, body := read(t, slow, "GET"); body != "ok" || !resp.Close {
		t.Errorf("a slow answer: %q, close %v", body, resp.Close)
	}
	resp, err := http.ReadResponse(download, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
		t.Errorf("%d bytes of the download: %v", n, err)
	}
	select {
	case err := <-stopped:
		t.Errorf("it did not wait for the WebSocket: %v", err)
	default:
	}
	nc.Close()
	if err := soon(t, "it stops", stopped); err != nil {
		t.Error(err)
	}
	ends := map[string]int{}
	for range 53 {
		l := next()
		ends[fmt.Sprintf("%s %d %s", strings.Trim(l.Target, "/"), l.Status, l.End)]++
	}
	for _, want := range []string{"download 200 done", "slow 200 done", "ws 101 client"} {
		if ends[want] != 1 {
			t.Errorf("the access log has %v", ends)
		}
	}
	if got := r.Totals().InFlight; got != 0 {
		t.Errorf("%d in flight", got)
	}
	if c := r.Connections(); c.Open != 0 || c.Accepted != 53 {
		t.Errorf("%+v", c)
	}
}

// D-17: a WebSocket that would never end is cut at last.
func TestCase_D17_stopCutsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	eachWay(t, caseStopCuts)
}

func caseStopCuts(t *testing.T, loops int) {
	cfg := DefaultConfig()
	cfg.Timeouts.Drain = 100 * time.Millisecond
	r, next := loggedIn(t, loops, accesslog.Config{}, cfg, instanceOf(startApp(t, "a1", sockets("a1")), "m1"))
	_, ws := r.send(t, fmt.Sprintf(handshake, "Upgrade", "websocket"))
	if head := rawHead(t, ws); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		t.Fatalf("head %q", head)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if _, err := ws.ReadByte(); err == nil {
		t.Error("the WebSocket said something")
	}
	if l := next(); l.Status != 101 || l.End != "stopped" {
		t.Errorf("the access log has %+v", l)
	}
	if c := r.Connections(); c.Open != 0 {
		t.Errorf("%+v", c)
	}
}
