package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/proxyproto"
)

// told answers each request with what the header of its connection said, and
// hands out the raw bytes of each header.
func told(t *testing.T, raw chan<- string) func(net.Conn) {
	return func(nc net.Conn) {
		var b strings.Builder
		h, err := proxyproto.Read(io.TeeReader(nc, &b))
		if err != nil {
			t.Errorf("no header: %v", err)
			return
		}
		if raw != nil {
			raw <- b.String()
		}
		br := bufio.NewReader(nc)
		for n := 1; ; n++ {
			if _, err := http.ReadRequest(br); err != nil {
				return
			}
			body := fmt.Sprintf("%s %d", h.Source, n)
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
	}
}

func wants(a *app, version string) Instance {
	in := instanceOf(a, "m1")
	in.SendProxy = version
	return in
}

// What an instance reads first, byte for byte.
func TestPrivate_rawBytes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ version, in, want string }{
		"v1 TCP4": {"v1", "PROXY TCP4 192.0.2.9 198.51.100.2 4711 443\r\n", "PROXY TCP4 192.0.2.9 198.51.100.2 4711 443\r\n"},
		"v1 TCP6": {"v1", "PROXY TCP6 2001:db8::9 2001:db8::1 4711 443\r\n", "PROXY TCP6 2001:db8::9 2001:db8::1 4711 443\r\n"},
		"v2 TCP4": {"v2", "PROXY TCP4 192.0.2.9 198.51.100.2 4711 443\r\n", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x09\xc6\x33\x64\x02\x12\x67\x01\xbb"},
		"v2 TCP6": {"v2", "PROXY TCP6 2001:db8::9 2001:db8::1 4711 443\r\n", "\r\n\r\n\x00\r\nQUIT\n\x21\x21\x00\x24" +
			"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x12\x67\x01\xbb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan string, 1)
			a := startApp(t, "a1", told(t, got))
			r := startRig(t, setup{apps: []Instance{wants(a, tc.version)}, cfg: configWith(func(c *Config) {
				c.PeerHeader, c.PeerHeaderFrom = PeerHeaderRequired, everybody
			})})
			_, br := r.send(t, tc.in+getRequest)
			read(t, br, "GET")
			if b := <-got; b != tc.want {
				t.Errorf("%q, want %q", b, tc.want)
			}
		})
	}
}

// A connection to such an instance carries the requests of one client
// connection, one after another, and ends with it.
func TestCase_D09_oneClientPerConnection(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1", "v2"} {
		a := startApp(t, "a1", told(t, nil))
		cfg := configWith(func(c *Config) { c.Timeouts.Header = time.Minute }) // the last ones have to wait for their first turn
		r := startRig(t, setup{cfg: cfg, apps: []Instance{wants(a, version)}})
		var clients []net.Conn
		var readers []*bufio.Reader
		for range 5 {
			nc, br := r.send(t, "")
			clients, readers = append(clients, nc), append(readers, br)
		}
		for n := 1; n <= 3; n++ {
			for i, nc := range clients {
				io.WriteString(nc, getRequest)
				_, body := read(t, readers[i], "GET")
				if want := fmt.Sprintf("%s %d", nc.LocalAddr(), n); body != want {
					t.Errorf("%s: request %d of client %d was seen as %q, want %q", version, n, i, body, want)
				}
			}
		}
		if open, seen := a.conns(); open != 5 || seen != 5 {
			t.Errorf("%s: %d of %d connections are open, want 5 of 5", version, open, seen)
		}
		for _, nc := range clients {
			nc.Close()
		}
		eventually(t, "the connections have ended too", func() bool { open, _ := a.conns(); return open == 0 })
	}
}

// A connection that the instance closed while it rested is replaced by one
// that names the same client.
func TestPrivate_staleConnection(t *testing.T) {
	t.Parallel()
	once := func(nc net.Conn) {
		h, err := proxyproto.Read(nc)
		if err != nil {
			t.Errorf("no header: %v", err)
			return
		}
		if _, err := http.ReadRequest(bufio.NewReader(nc)); err == nil {
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(h.Source.String()), h.Source)
		}
	}
	a := startApp(t, "a1", once)
	r := startRig(t, setup{apps: []Instance{wants(a, "v2")}})
	nc, br := r.send(t, "")
	for n := range 5 {
		io.WriteString(nc, getRequest)
		if _, body := read(t, br, "GET"); body != nc.LocalAddr().String() {
			t.Errorf("request %d was seen as from %s", n, body)
		}
	}
}

// An instance that comes to want headers gets no request over a connection
// that began without one, nor the other way round.
func TestPrivate_wantsChange(t *testing.T) {
	t.Parallel()
	began := make(chan string, 10)
	a := startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		b, err := br.Peek(5)
		if err != nil {
			return
		}
		if began <- string(b); string(b) == "PROXY" {
			br.ReadString('\n')
		}
		for {
			if _, err := http.ReadRequest(br); err != nil {
				return
			}
			io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na1")
		}
	})
	r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}})
	nc, br := r.send(t, "")
	for _, want := range []struct{ version, first string }{{"", "GET /"}, {"v1", "PROXY"}, {"", "GET /"}} {
		r.SetInstances([]Instance{wants(a, want.version)})
		io.WriteString(nc, getRequest)
		read(t, br, "GET")
		if got := <-began; got != want.first {
			t.Errorf("with %q the connection begins with %q", want.version, got)
		}
	}
}

func TestBackend_reachWithoutAClient(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	a := startApp(t, "a1", told(t, got))
	b := newBackend(key{addr: a.addr(), sendProxy: "v2"}, nil, nil, 0, nil)
	nc, err := b.reach(nil, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if h := <-got; h != v2Header(proxyproto.Header{Local: true}) {
		t.Errorf("%q", h)
	}
	unknown := peerAt(netip.AddrPort{}, netip.AddrPort{})
	if nc, err = b.reach(unknown, time.Minute); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if h := <-got; h != v2Header(proxyproto.Header{}) {
		t.Errorf("%q", h)
	}
}
