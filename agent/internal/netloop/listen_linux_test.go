package netloop

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// bareListener is a Listener beside one of the net package.
func bareListener(t *testing.T, network, addr string) (*Listener, *net.TCPListener) {
	t.Helper()
	ln, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	l, err := Listen(ln.(*net.TCPListener))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, ln.(*net.TCPListener)
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// accept accepts until it is c's turn, since anybody may connect to a port.
func accept(t *testing.T, l *Listener, c net.Conn) (fd int, local netip.AddrPort) {
	t.Helper()
	if err := l.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for {
		fd, remote, local, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if mine := c.LocalAddr().(*net.TCPAddr).AddrPort(); unmapped(remote) == unmapped(mine) {
			t.Cleanup(func() { Close(fd) })
			return fd, local
		}
		Close(fd)
	}
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// What the net package sets for each connection its listener gives to all.
func TestListener_connectionsAreAsOnesOfTheNetPackage(t *testing.T) {
	t.Parallel()
	l, ln := bareListener(t, "tcp", "127.0.0.1:0")
	bare, _ := accept(t, l, dial(t, ln.Addr().String()))
	// Here the net package's own comes from a listener that is nobody else's.
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	dial(t, other.Addr().String())
	nc, err := other.Accept()
	if err != nil {
		t.Fatal(err)
	}
	own, ok := Take(nc)
	if !ok {
		t.Fatal("not taken")
	}
	t.Cleanup(func() { Close(own) })
	for name, o := range map[string][2]int{
		"no delay": {unix.IPPROTO_TCP, unix.TCP_NODELAY}, "keep-alive": {unix.SOL_SOCKET, unix.SO_KEEPALIVE},
		"idle": {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE}, "interval": {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL}, "count": {unix.IPPROTO_TCP, unix.TCP_KEEPCNT},
	} {
		got, err1 := unix.GetsockoptInt(bare, o[0], o[1])
		want, err2 := unix.GetsockoptInt(own, o[0], o[1])
		if err := errors.Join(err1, err2); err != nil || got != want {
			t.Errorf("%s: %d, the net package has %d (%v)", name, got, want, err)
		}
	}
	for name, get := range map[string]int{"status": unix.F_GETFL, "descriptor": unix.F_GETFD} {
		got, err1 := unix.FcntlInt(uintptr(bare), get, 0)
		want, err2 := unix.FcntlInt(uintptr(own), get, 0)
		if err := errors.Join(err1, err2); err != nil || got != want {
			t.Errorf("flags of the %s: %#x, the net package has %#x (%v)", name, got, want, err)
		}
	}
}

func TestListener_tellsBothAddresses(t *testing.T) {
	t.Parallel()
	type one struct{ network, at, to string }
	cases := map[string]one{
		"v4": {"tcp4", "127.0.0.1:0", "127.0.0.1"}, "v4, any": {"tcp4", "0.0.0.0:0", "127.0.0.1"}, "both, any": {"tcp", ":0", "127.0.0.1"},
	}
	if ln, err := net.Listen("tcp6", "[::1]:0"); err == nil { // not every machine has it
		ln.Close()
		cases["v6"] = one{"tcp6", "[::1]:0", "::1"}
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, ln := bareListener(t, tc.network, tc.at)
			_, port, err := net.SplitHostPort(ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			c := dial(t, net.JoinHostPort(tc.to, port))
			_, local := accept(t, l, c)
			if want := c.RemoteAddr().(*net.TCPAddr).AddrPort(); unmapped(local) != unmapped(want) {
				t.Errorf("its own address is %v, want %v", local, want)
			}
		})
	}
}

func TestListener_ends(t *testing.T) {
	t.Parallel()
	l, ln := bareListener(t, "tcp", "127.0.0.1:0")
	if err := l.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, _, _, err := l.Accept(); !errors.As(err, &timeout) || !timeout.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after its deadline: %v", err)
	}
	if err := l.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		for {
			fd, _, _, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			Close(fd) // a stranger
		}
	}()
	l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	c := dial(t, ln.Addr().String()) // the other listener is still there
	for {
		nc, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
		if nc.RemoteAddr().String() == c.LocalAddr().String() {
			return
		}
	}
}

func TestListen_ofAClosedListener(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if _, err := Listen(ln.(*net.TCPListener)); err == nil {
		t.Error("it was accepted from")
	}
}
