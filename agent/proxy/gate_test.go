package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// limitRig runs a proxy with limits before one instance.
func limitRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Routes = []Route{DefaultRoute("shop")}
	change(&cfg)
	return startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(limitApp(t), "m1")}})
}

func limitApp(t *testing.T) *app {
	t.Helper()
	return startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			if err != nil || q.URL.Path == "/hang" && func() bool { br.ReadByte(); return true }() {
				return
			}
			io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
}

const plainGet = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

func TestLimits_connectionsMakeRoomOrWait(t *testing.T) {
	t.Parallel()
	r := limitRig(t, func(cfg *Config) { cfg.Limits.Connections = 3 })
	closed := make(chan error, 3)
	for range 3 {
		_, br := r.send(t, plainGet)
		read(t, br, "GET")
		go func() {
			_, err := br.ReadByte()
			closed <- err
		}()
	}
	// The fourth takes the place of one that has been idle for long.
	_, br := r.send(t, plainGet)
	if resp, _ := read(t, br, "GET"); resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
	if err := <-closed; err != io.EOF {
		t.Errorf("an idle connection: %v", err)
	}
	r.idle(t) // the answer is there a moment before its request is over
	// Three that are at work give up nothing: the next one waits for its turn.
	var busy []net.Conn
	for n := range 3 {
		nc, _ := r.send(t, "GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
		busy = append(busy, nc)
		eventually(t, "at work", func() bool { return r.Totals().InFlight == int64(n+1) })
	}
	nc, late := r.send(t, plainGet)
	nc.SetReadDeadline(time.Now().Add(150 * time.Millisecond))
	if _, err := late.Peek(1); !os.IsTimeout(err) {
		t.Errorf("one too many got %v", err)
	}
	if c := r.Connections(); c.Open != 3 || c.Accepted != 7 {
		t.Errorf("%+v", c)
	}
	busy[0].Close()
	nc.SetReadDeadline(time.Now().Add(patience))
	if resp, _ := read(t, bufio.NewReader(nc), "GET"); resp.StatusCode != 200 {
		t.Errorf("in its turn: %d", resp.StatusCode)
	}
	for _, nc := range busy {
		nc.Close()
	}
	nc.Close()
	eventually(t, "all seats free", func() bool { return r.Connections().Open == 0 })
}

// Connections that speak HTTP/2 make room as well, once they have no request.
func TestLimits_connectionsOverHTTP2MakeRoom(t *testing.T) {
	t.Parallel()
	r := limitRig(t, func(cfg *Config) { cfg.H2C, cfg.Limits.Connections = true, 1 })
	busy := h2Raw(t, r.addr)
	busy.headers(1, true, ":method", "GET", ":scheme", "http", ":authority", "x", ":path", "/hang")
	eventually(t, "at work", func() bool { return r.Totals().InFlight == 1 })
	nc, late := r.send(t, plainGet)
	nc.SetReadDeadline(time.Now().Add(150 * time.Millisecond))
	if _, err := late.Peek(1); !os.IsTimeout(err) {
		t.Errorf("one too many got %v", err)
	}
	busy.fr.WriteRSTStream(1, http2.ErrCodeCancel)
	nc.SetReadDeadline(time.Now().Add(patience))
	if resp, _ := read(t, bufio.NewReader(nc), "GET"); resp.StatusCode != 200 {
		t.Errorf("in its place: %d", resp.StatusCode)
	}
	for told := false; !told; { // or frame ends the test
		_, told = busy.frame(0).(*http2.GoAwayFrame)
	}
}

func TestLimits_connectionsOfOneClient(t *testing.T) {
	t.Parallel()
	for name, trusted := range map[string]bool{"a client": false, "a trusted proxy": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := limitRig(t, func(cfg *Config) {
				cfg.Limits.PerClient = 2
				if trusted {
					cfg.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
				}
			})
			var open []net.Conn
			for range 2 {
				nc, br := r.send(t, plainGet)
				read(t, br, "GET")
				open = append(open, nc)
			}
			served := func() bool {
				nc, err := net.Dial("tcp", r.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				nc.SetDeadline(time.Now().Add(patience))
				io.WriteString(nc, plainGet)
				_, err = http.ReadResponse(bufio.NewReader(nc), nil)
				return err == nil
			}
			if got := served(); got != trusted {
				t.Errorf("a third one was served: %v", got)
			}
			if refused := r.Connections().Refused; refused > 0 == trusted {
				t.Errorf("%d refused", refused)
			}
			open[0].Close()
			eventually(t, "a free seat", served)
		})
	}
}

// A balancer's connections are counted for the clients that it names.
func TestLimits_connectionsOfNamedClients(t *testing.T) {
	t.Parallel()
	r := limitRig(t, func(cfg *Config) {
		cfg.Limits.PerClient = 1
		cfg.PeerHeader, cfg.PeerHeaderFrom = PeerHeaderListed, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	})
	ask := func(client string) (net.Conn, error) {
		nc, br := r.send(t, "PROXY TCP4 "+client+" 192.0.2.1 1000 80\r\n"+plainGet)
		_, err := http.ReadResponse(br, nil)
		return nc, err
	}
	one, err := ask("203.0.113.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask("203.0.113.2"); err != nil {
		t.Errorf("another client: %v", err)
	}
	if _, err := ask("203.0.113.1"); err == nil {
		t.Error("a second connection of the first client was served")
	}
	one.Close()
	eventually(t, "its seat free", func() bool { _, err := ask("203.0.113.1"); return err == nil })
}

func TestListen_changesWithoutADrop(t *testing.T) {
	t.Parallel()
	listen := func() net.Listener {
		ln := listen(t)
		hold(t, ln) // nobody else may answer there when it is closed
		return ln
	}
	first, second, kept := listen(), listen(), listen()
	p, err := New(Options{Config: routed(func(*Route) {})})
	if err != nil {
		t.Fatal(err)
	}
	p.SetInstances([]Instance{instanceOf(limitApp(t), "m1")})
	r := serveRigOn(t, p, listen())
	own := r.addr
	r.get(t, "") // it runs
	r.Listen(first, kept)
	eventually(t, "the first one closed", func() bool {
		nc, err := net.Dial("tcp", own)
		if err == nil {
			nc.Close()
		}
		return err != nil
	})
	ask := func(nc net.Conn, br *bufio.Reader) error {
		if _, err := io.WriteString(nc, plainGet); err != nil {
			return err
		}
		resp, err := http.ReadResponse(br, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
		}
		return err
	}
	r.addr = first.Addr().String()
	old, oldReader := r.send(t, plainGet)
	read(t, oldReader, "GET")
	// Clients come all the while, some just when their listener goes.
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var mu sync.Mutex
	var failed []error
	refused := map[string]bool{}
	for _, ln := range []net.Listener{first, second, kept} {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				nc, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					mu.Lock()
					refused[ln.Addr().String()] = true
					mu.Unlock()
					return
				}
				nc.SetDeadline(time.Now().Add(patience))
				if err := ask(nc, bufio.NewReader(nc)); err != nil {
					mu.Lock()
					failed = append(failed, fmt.Errorf("%s: %w", ln.Addr(), err))
					mu.Unlock()
				}
				nc.Close()
			}
		})
	}
	r.Listen(second, kept)
	eventually(t, "the old one closed", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return refused[first.Addr().String()]
	})
	close(stop)
	wg.Wait()
	if len(failed) > 1 || len(refused) != 1 {
		// One connection may have been made between the last accept and the close.
		t.Errorf("failed %v, refused %v", failed, refused)
	}
	old.SetDeadline(time.Now().Add(patience))
	if err := ask(old, oldReader); err != nil {
		t.Errorf("a connection of the closed listener: %v", err)
	}
}

func TestReload_aHundredTimesUnderLoad(t *testing.T) {
	t.Parallel()
	eachWay(t, reloadAHundredTimes)
}

func reloadAHundredTimes(t *testing.T, loops int) {
	cfg := DefaultConfig()
	other := DefaultRoute("shop")
	other.Name, other.Path = "ws", "/ws"
	cfg.Routes = []Route{DefaultRoute("shop"), other}
	a, ws := startApp(t, "a1", echo("a1")), startApp(t, "a2", switching)
	list := []Instance{instanceOf(a, "m1"), instanceOf(ws, "m1")}
	list[1].Service = "ws"
	cfg.Routes[1].Service = "ws"
	r := startRig(t, setup{cfg: cfg, loops: loops, apps: list})
	tunnels := make([]*bufio.Reader, 5)
	conns := make([]net.Conn, 5)
	for i := range tunnels {
		nc, br := r.send(t, strings.Replace(fmt.Sprintf(handshake, "Upgrade", "websocket"), "GET / ", "GET /ws ", 1))
		if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 101 {
			t.Fatal(resp, err)
		}
		io.ReadFull(br, make([]byte, 5))
		conns[i], tunnels[i] = nc, br
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			nc, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer nc.Close()
			br := bufio.NewReader(nc)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				nc.SetDeadline(time.Now().Add(patience))
				fmt.Fprintf(nc, "POST /%d/%d HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi", n, i)
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					t.Error(err)
					return
				}
				b, err := io.ReadAll(resp.Body)
				if err != nil || resp.StatusCode != 200 || !bytes.HasPrefix(b, fmt.Appendf(nil, "a1 /%d/%d ", n, i)) {
					t.Errorf("%d %q %v", resp.StatusCode, b, err)
					return
				}
			}
		})
	}
	for i := range 100 {
		next := cfg
		next.Routes = append([]Route(nil), cfg.Routes...)
		next.Routes[1].Sticky.MaxAge = time.Duration(i%3) * time.Hour // the tunnels' route changes too
		next.Limits.RequestHead = 32<<10 + i
		next.Timeouts.Tunnel = time.Duration(i+1) * time.Minute
		if i%10 == 9 {
			next.Routes = next.Routes[:1] // and is gone, for a while
		}
		if err := r.Reload(unhurried(next)); err != nil {
			t.Fatal(err)
		}
		r.SetInstances(list)
	}
	close(stop)
	wg.Wait()
	for i, nc := range conns {
		nc.SetDeadline(time.Now().Add(patience))
		io.WriteString(nc, "ping")
		b := make([]byte, 4)
		if _, err := io.ReadFull(tunnels[i], b); err != nil || string(b) != "ping" {
			t.Errorf("tunnel %d: %q %v", i, b, err)
		}
	}
}
