package wire

import (
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// writeChunk bounds one write, so that its deadline asks for progress and not
// for a whole queue within two seconds.
const writeChunk = 128 << 10

// writer writes to one connection. Only who holds the frames taken from the
// outbox may use it, so it needs no lock.
type writer struct {
	conn     net.Conn
	timeout  time.Duration
	deadline time.Time

	raw   syscall.RawConn // nil where a write cannot be tried without waiting
	once  func(fd uintptr) bool
	frame []byte // what once writes
	n     int    // what it has written
}

func newWriter(conn net.Conn, timeout time.Duration) *writer {
	w := &writer{conn: conn, timeout: timeout}
	if tcp, ok := conn.(*net.TCPConn); ok && canTry {
		if raw, err := tcp.SyscallConn(); err == nil {
			w.raw = raw
			w.once = func(fd uintptr) bool {
				w.n = tryWrite(fd, w.frame)
				return true // never wait for the descriptor to be ready
			}
		}
	}
	return w
}

// run writes what the outbox collects until a write fails, or stop is set and
// the outbox signalled.
func (w *writer) run(out *outbox, stop *atomic.Bool) error {
	if w.raw != nil {
		out.attach(w)
	}
	for {
		if stop.Load() {
			return nil
		}
		b := out.take()
		if b == nil {
			<-out.wake
			runtime.Gosched() // who is about to push gets to do so
			continue
		}
		err := w.write(b)
		out.done()
		if err != nil {
			return err
		}
	}
}

func (w *writer) write(b []byte) error {
	for len(b) > 0 {
		if err := w.renew(); err != nil {
			return err
		}
		n, err := w.conn.Write(b[:min(len(b), writeChunk)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// try writes what goes without waiting, and returns how much that was. Errors
// are left for write to meet.
func (w *writer) try(b []byte) int {
	if w.renew() != nil {
		return 0
	}
	w.frame, w.n = b, 0
	err := w.raw.Write(w.once)
	w.frame = nil
	if err != nil {
		return 0
	}
	return w.n
}

// renew moves the deadline. That costs as much as the rest of a small send, so
// it is done only when a quarter of it is used up.
func (w *writer) renew() error {
	now := time.Now()
	if w.deadline.Sub(now) >= w.timeout*3/4 {
		return nil
	}
	w.deadline = now.Add(w.timeout)
	return w.conn.SetWriteDeadline(w.deadline)
}
