package agenttest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

var (
	here  = netip.MustParseAddr("10.0.0.1")
	there = netip.MustParseAddr("10.0.0.2")
	port  = netip.AddrPortFrom(there, 80)
)

// pair connects two hosts.
func pair(t *testing.T) (n *network, a, b *host, near, far net.Conn) {
	t.Helper()
	n = newNetwork()
	a, b = n.host(here), n.host(there)
	l, err := b.listen(port)
	if err != nil {
		t.Fatal(err)
	}
	if near, err = a.dial(t.Context(), port.String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return n, a, b, near, far
}

func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

func TestNetwork_carriesBytesInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, _, _, near, far := pair(t)
		go func() {
			for range 1000 {
				near.Write([]byte("0123456789"))
			}
			near.Close()
		}()
		b, err := io.ReadAll(far)
		if err != nil || len(b) != 10000 {
			t.Errorf("read %d bytes, %v", len(b), err)
		}
		for i, c := range b {
			if c != byte('0'+i%10) {
				t.Fatalf("byte %d is %c", i, c)
			}
		}
		if _, err := far.Write([]byte("x")); err == nil {
			t.Error("a write to who has closed succeeds")
		}
	})
}

func TestNetwork_cutHoldsAndHealDelivers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, a, _, near, far := pair(t)
		n.update(func() { n.cut[[2]netip.Addr{here, there}] = true })
		if _, err := near.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		far.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read across a cut: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.dial(ctx, port.String()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial across a cut: %v", err)
		}
		far.SetReadDeadline(time.Time{})
		n.update(func() { clear(n.cut) })
		if _, err := far.Read(make([]byte, 1)); err != nil {
			t.Errorf("read after the heal: %v", err)
		}
	})
}

func TestNetwork_deathResetsAndRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b, near, far := pair(t)
		b.kill()
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read from the dead: %v", err)
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write to the dead: %v", err)
		}
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the dead read: %v", err)
		}
		if _, err := a.dial(t.Context(), port.String()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial of the dead: %v", err)
		}
		if _, err := b.dial(t.Context(), "10.0.0.1:80"); err == nil {
			t.Error("the dead dial")
		}
		if _, err := b.listen(port); err == nil {
			t.Error("the dead listen")
		}
	})
}

func TestNetwork_slowAndFull(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, _, _, near, far := pair(t)
		n.update(func() { n.slow[here] = time.Second })
		began := time.Now()
		near.Write([]byte("x"))
		if _, err := far.Read(make([]byte, 1)); err != nil || time.Since(began) < time.Second {
			t.Errorf("read after %v, %v", time.Since(began), err)
		}
		near.SetWriteDeadline(time.Now().Add(time.Second))
		var err error
		for range 3 {
			if _, err = near.Write(make([]byte, window/2)); err != nil {
				break
			}
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("writes to who does not read end with %v", err)
		}
	})
}

func TestNetwork_portsAreTakenOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newNetwork().host(there)
		l, err := h.listen(port)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.listen(port); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("a second listener: %v", err)
		}
		l.Close()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept after close: %v", err)
		}
		if _, err := h.listen(port); err != nil {
			t.Errorf("after the first has closed: %v", err)
		}
	})
}
