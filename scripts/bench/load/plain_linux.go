package load

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// state is what a connection waits for.
type state uint8

const (
	connecting state = iota
	answering        // for the head and the first piece of the body
	streaming        // for the rest of the body
	ending           // for the other side to close
)

// plainConn is one connection.
type plainConn struct {
	fd    int
	n     int // which one of the plan
	state state
	want  string
	got   int // bytes of a head that is not whole yet
	left  int // bytes of the body that have not come yet
	began time.Time
	buf   []byte
}

// plain is one thread of the load: its connections, and the epoll that tells which
// have something. Nothing waits but epoll.
type plain struct {
	plan  *Plan
	to    unix.Sockaddr
	epoll int
	conns []*plainConn
	requests
	out   []byte
	tally Tally
}

func runPlain(p *Plan, thread int) (*Tally, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	addr, err := netip.ParseAddrPort(p.Addr)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	t := &plain{plan: p, to: &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}, requests: *newRequests(p, thread)}
	if t.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	defer unix.Close(t.epoll)
	from, to := p.share(thread)
	began := time.Now()
	for n := from; n < to; n++ {
		c := &plainConn{n: n, fd: -1, buf: make([]byte, 16<<10)}
		t.conns = append(t.conns, c)
		defer func() {
			if c.fd >= 0 {
				unix.Close(c.fd)
			}
		}()
		if err := t.connect(c, len(t.conns)-1); err != nil {
			return nil, err
		}
	}
	events := make([]unix.EpollEvent, 256)
	for end, heard := began.Add(p.For), began; ; {
		n, err := unix.EpollWait(t.epoll, events, 100)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("load: %w", err)
		}
		now := time.Now()
		if n > 0 {
			heard = now
		}
		silent := now.Sub(heard) > silence
		if silent {
			t.tally.fail(errSilence.Error(), len(t.conns))
		}
		// However short the time, something comes of it.
		if failed := t.tally.Failed(); silent || failed > tooMany || now.After(end) && t.tally.Requests+failed > 0 {
			t.tally.Took = now.Sub(began)
			return &t.tally, nil
		}
		for _, e := range events[:max(n, 0)] {
			if err := t.ready(t.conns[e.Fd], int(e.Fd)); err != nil {
				return nil, err
			}
		}
	}
}

// connect begins a new connection in place of c's.
func (t *plain) connect(c *plainConn, at int) error {
	if c.fd >= 0 {
		unix.Close(c.fd)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	c.fd, c.state, c.got, c.left, c.began = fd, connecting, 0, 0, time.Now()
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	if err := unix.Connect(fd, t.to); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return fmt.Errorf("load: connect to %s: %w", t.plan.Addr, err)
	}
	// Once, for both directions: edges tell of a connection and of all that comes.
	return unix.EpollCtl(t.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET&0xffffffff, Fd: int32(at)})
}

// fail counts an error and begins the connection anew.
func (t *plain) fail(c *plainConn, at int, err error) error {
	t.tally.fail(err.Error(), 1)
	return t.connect(c, at)
}

func (t *plain) ready(c *plainConn, at int) error {
	if c.state == connecting {
		if code, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil || code != 0 {
			return t.fail(c, at, errConnect)
		}
		return t.send(c, at, c.began)
	}
	for {
		n, err := t.receive(c)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case n == 0 && c.state == ending:
			return t.connect(c, at)
		case err != nil || n == 0:
			return t.fail(c, at, errBroken)
		case c.state == ending:
			return t.fail(c, at, errMore)
		}
		whole, more, err := c.took(n)
		if err != nil {
			return t.fail(c, at, err)
		}
		if !whole {
			if more {
				continue
			}
			return nil
		}
		now := time.Now()
		t.tally.Requests++
		t.tally.Latencies.Record(now.Sub(c.began))
		if !t.plan.Close {
			return t.send(c, at, now)
		}
		c.state = ending
	}
}

// receive reads what is there: into the buffer, or, of a long body's rest, nowhere.
func (t *plain) receive(c *plainConn) (int, error) {
	if c.state == streaming {
		return drop(c.fd, c.buf[:0:len(c.buf)], c.left)
	}
	return take(c.fd, c.buf[c.got:])
}

// took accounts for n more bytes: whether the answer is whole, and otherwise whether
// more of it may be there already.
func (c *plainConn) took(n int) (whole, more bool, err error) {
	if c.state == streaming {
		if c.left -= n; c.left < 0 {
			return false, false, errMore
		}
		return c.left == 0, false, nil
	}
	c.got += n
	h, err := parseHead(c.buf[:c.got])
	if errors.Is(err, errNotYet) || err == nil && c.got-h.size < min(h.length, len(c.want)) {
		if c.got == len(c.buf) {
			return false, false, errLarge
		}
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	if !begins(c.buf[h.size:c.got], c.want) {
		return false, false, errInstance
	}
	full := c.got == len(c.buf)
	if c.left = h.size + h.length - c.got; c.left < 0 {
		return false, false, errMore
	}
	c.got = 0
	if c.left == 0 {
		return true, false, nil
	}
	c.state = streaming
	return false, full, nil
}

func (t *plain) send(c *plainConn, at int, now time.Time) error {
	t.out, c.want = t.appendTo(t.out[:0], c.n)
	c.state, c.began = answering, now
	n, err := put(c.fd, t.out)
	if err != nil || n != len(t.out) {
		return t.fail(c, at, errWrite)
	}
	return nil
}
