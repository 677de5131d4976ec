package netloop

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// pair returns a socket taken out of the net package, and the other side.
func pair(t *testing.T) (fd int, other *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	nc, err := l.Accept()
	for err == nil && nc.RemoteAddr().String() != c.LocalAddr().String() { // a stranger
		nc.Close()
		nc, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	// The system's own buffers grow, and nobody knows how far.
	if err := errors.Join(c.(*net.TCPConn).SetReadBuffer(fewBytes), nc.(*net.TCPConn).SetWriteBuffer(fewBytes)); err != nil {
		t.Fatal(err)
	}
	fd, ok := Take(nc)
	if !ok {
		t.Fatal("a TCP connection was not taken")
	}
	return fd, c.(*net.TCPConn)
}

// fewBytes is about what a connection of pair takes that nobody reads from.
const fewBytes = 128 << 10

func run(t *testing.T, o Options) *Loop {
	t.Helper()
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l
}

type handler func(hup bool)

func (h handler) Ready(hup bool) { h(hup) }

func get[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		t.Fatal(what + " did not come")
		panic("not reached")
	}
}

func TestLoop_tellsWhatArrives(t *testing.T) {
	t.Parallel()
	var rounds atomic.Int32
	l := run(t, Options{Round: func() { rounds.Add(1) }})
	fd, other := pair(t)
	defer Close(fd)
	got := make(chan string, 10)
	buf := make([]byte, 100)
	other.Write([]byte("before"))
	at, err := l.Add(fd, handler(func(hup bool) {
		n, err := Read(fd, buf)
		switch {
		case errors.Is(err, io.EOF):
			got <- "end"
		case err != nil && !errors.Is(err, ErrAgain):
			got <- err.Error()
		case n > 0:
			got <- string(buf[:n])
		}
		if hup && n > 0 { // it must read to the end
			if _, err := Read(fd, buf); errors.Is(err, io.EOF) {
				got <- "end"
			}
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before", "and", "after"} {
		if want != "before" {
			other.Write([]byte(want))
		}
		if s := get(t, got, want); s != want {
			t.Fatalf("%q arrived, want %q", s, want)
		}
	}
	if _, err := Write(fd, []byte("answer")); err != nil {
		t.Fatal(err)
	}
	if n, err := io.ReadFull(other, buf[:6]); err != nil || string(buf[:n]) != "answer" {
		t.Fatalf("the other side got %q, %v", buf[:n], err)
	}
	other.CloseWrite()
	if s := get(t, got, "the end"); s != "end" {
		t.Fatalf("%q arrived, want the end", s)
	}
	if rounds.Load() == 0 {
		t.Error("no round was called")
	}
	l.Remove(at)
}

func TestLoop_removedHandlersAreNotCalled(t *testing.T) {
	t.Parallel()
	l := run(t, Options{})
	fd, other := pair(t)
	defer Close(fd)
	at, err := l.Add(fd, handler(func(bool) { t.Error("the handler of a removed connection was called") }))
	if err != nil {
		t.Fatal(err)
	}
	l.Remove(at)
	second, otherSecond := pair(t)
	defer Close(second)
	called := make(chan bool, 10)
	if again, err := l.Add(second, handler(func(bool) { called <- true })); err != nil || again != at {
		t.Fatalf("the second connection is at %d, %v; want the place of the first, %d", again, err, at)
	}
	other.Write([]byte("x"))
	otherSecond.Write([]byte("x"))
	get(t, called, "the second connection's call")
}

func TestLoop_callsAgainForWhatWasLeft(t *testing.T) {
	t.Parallel()
	l := run(t, Options{})
	fd, other := pair(t)
	defer Close(fd)
	got := make(chan byte, 10)
	place := make(chan int32, 1)
	at, err := l.Add(fd, handler(func(bool) {
		var one [1]byte
		if n, _ := Read(fd, one[:]); n == 1 {
			at := <-place
			got <- one[0]
			place <- at
			l.Again(at)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	place <- at
	other.Write([]byte("abc"))
	for _, want := range []byte("abc") {
		if b := get(t, got, "a byte"); b != want {
			t.Fatalf("%q came, want %q", b, want)
		}
	}
	l.Remove(at)
	l.Again(at) // too late, and no harm
}

func TestPool_beginsWithTheFirstConnection(t *testing.T) {
	t.Parallel()
	var rounds atomic.Int32
	p := NewPool(Options{Round: func() { rounds.Add(1) }})
	if p.loops != nil {
		t.Error("a pool that nobody uses has loops")
	}
	l, err := p.Next()
	if err != nil {
		t.Fatal(err)
	}
	fd, other := pair(t)
	defer Close(fd)
	called := make(chan bool, 10)
	if _, err := l.Add(fd, handler(func(bool) { called <- true })); err != nil {
		t.Fatal(err)
	}
	other.Write([]byte("x"))
	get(t, called, "the call")
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if rounds.Load() == 0 {
		t.Error("no round was called")
	}
	if _, err := p.Next(); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed pool returns %v", err)
	}
	if err := NewPool(Options{}).Close(); err != nil {
		t.Error(err)
	}
}

func TestLoop_refusesWhenItHasEnded(t *testing.T) {
	t.Parallel()
	l, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	l.Close()
	fd, _ := pair(t)
	defer Close(fd)
	if at, err := l.Add(fd, handler(func(bool) {})); !errors.Is(err, ErrClosed) || at != -1 {
		t.Errorf("Add on a closed loop returns %d, %v", at, err)
	}
	l.Remove(-1)
}

func TestWrite_saysHowMuchWent(t *testing.T) {
	t.Parallel()
	fd, other := pair(t)
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	n, err := Write(fd, large)
	if !errors.Is(err, ErrAgain) || n == 0 || n == len(large) {
		t.Fatalf("writing %d bytes to nobody: %d, %v", len(large), n, err)
	}
	c, err := Give(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() {
		c.Write(large[n:]) // the reader below says how it went
		c.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(other)
	if err != nil || !bytes.Equal(got, large) {
		t.Errorf("%d bytes arrived, %v; want %d", len(got), err, len(large))
	}
}

func TestRead_tellsTheEndAndErrors(t *testing.T) {
	t.Parallel()
	fd, other := pair(t)
	buf := make([]byte, 10)
	if _, err := Read(fd, buf); !errors.Is(err, ErrAgain) {
		t.Errorf("reading nothing: %v", err)
	}
	other.Close()
	c, err := Give(fd) // whose Read waits
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(buf); err != io.EOF {
		t.Errorf("reading the end: %v", err)
	}
	c.Close()
	var syscallErr *os.SyscallError
	if _, err := Read(-1, buf); !errors.As(err, &syscallErr) {
		t.Errorf("reading a descriptor that is none: %v", err)
	}
	if _, err := Write(-1, buf); !errors.As(err, &syscallErr) {
		t.Errorf("writing to a descriptor that is none: %v", err)
	}
}

func TestTake_leavesOtherConnections(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, ok := Take(a); ok {
		t.Error("a pipe was taken for a socket")
	}
}
