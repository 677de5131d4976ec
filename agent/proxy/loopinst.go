package proxy

import (
	"net"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
	"github.com/rondel-project/rondel/agent/internal/netloop"
)

// loopInst is a connection to an instance in an event loop. The worker's lock
// guards it. As a net.Conn it reads and writes without waiting.
type loopInst struct {
	socket
	w     *worker
	b     *backend
	hc    *http1.Conn // over this; has a buffer while there is something in it
	l     *loopClient // whose request it is at; nil: it rests
	since time.Time   // it rests
	hup   bool        // the instance has ended its half
	open  bool
}

// rested returns a resting connection to b that has rested no longer than most,
// or nil. With sure set it is one that the instance is not known to have closed.
func (w *worker) rested(b *backend, now time.Time, most time.Duration, sure bool) *loopInst {
	for {
		r := b.resting[w.index]
		n := len(r)
		if n == 0 {
			return w.borrowed(b, now, most)
		}
		u := r[n-1]
		if now.Sub(u.since) > most {
			return nil
		}
		r[n-1] = nil
		b.resting[w.index] = r[:n-1]
		if !sure || netloop.Quiet(u.fd) {
			return u
		}
		u.Close()
	}
}

// borrowed takes a connection over that rests with those of the goroutines.
func (w *worker) borrowed(b *backend, now time.Time, most time.Duration) *loopInst {
	hc := b.pool.Get(now, most)
	if hc == nil {
		return nil
	}
	fd, ok := netloop.Take(hc.Conn)
	if !ok {
		b.pool.Put(hc, now)
		return nil
	}
	u := &loopInst{socket: socket{fd: fd}, w: w, b: b, open: true}
	u.hc = http1.Without(u, loopUpBuffer)
	var err error
	if u.at, err = w.loop.Add(fd, u); err != nil {
		u.Close()
		return nil
	}
	return u
}

// rest takes back a connection whose last answer ended cleanly.
func (u *loopInst) rest(now time.Time) {
	w, b := u.w, u.b
	most := (b.cfg().Limits.IdlePerHost + len(b.resting) - 1) / len(b.resting)
	if u.hc.Buffered() > 0 || u.hup || !u.dry && !netloop.Quiet(u.fd) || b.gone.Load() || len(b.resting[w.index]) >= most {
		u.Close()
		return
	}
	u.strip()
	u.l, u.since = nil, now
	b.resting[w.index] = append(b.resting[w.index], u)
}

func (u *loopInst) lend() {
	if !u.hc.HasBuffer() {
		u.hc.Lend(u.w.buffer(u.l != nil && u.l.full))
	}
}

func (u *loopInst) strip() {
	if u.hc.HasBuffer() && u.hc.Buffered() == 0 {
		u.w.spareBuffer(u.hc.Strip())
	}
}

// Ready implements netloop.Handler.
func (u *loopInst) Ready(hup bool) {
	u.w.mu.Lock()
	defer u.w.mu.Unlock()
	if !u.open {
		return
	}
	u.hup = u.hup || hup
	u.dry = false
	if u.l != nil {
		u.l.answered()
		return
	}
	if hup || !netloop.Quiet(u.fd) { // it closes, or says what nobody asked for
		r := u.b.resting[u.w.index]
		for i := range r {
			if r[i] == u {
				copy(r[i:], r[i+1:])
				r[len(r)-1] = nil
				u.b.resting[u.w.index] = r[:len(r)-1]
				break
			}
		}
		u.Close()
	}
}

// Close implements net.Conn.
func (u *loopInst) Close() error {
	if u.open {
		u.open, u.l = false, nil
		u.w.loop.Remove(u.at)
		netloop.Close(u.fd)
		if u.hc.HasBuffer() {
			u.w.spareBuffer(u.hc.Strip())
		}
	}
	return nil
}

// leave makes it a connection of the net package.
func (u *loopInst) leave() error {
	u.open, u.l = false, nil
	u.w.loop.Remove(u.at)
	nc, err := netloop.Give(u.fd)
	if !u.hc.HasBuffer() {
		u.hc.Lend(make([]byte, upstreamBuffer))
	}
	if err != nil {
		u.hc.Become(broken{err}, upstreamBuffer)
		return err
	}
	u.hc.Become(nc, upstreamBuffer)
	return nil
}

// socket is a descriptor in an event loop, as a net.Conn that never waits and
// knows no deadlines.
type socket struct {
	fd  int
	at  int32 // its place in the loop
	dry bool  // the last read returned less than it could have
}

// Read implements net.Conn.
func (s *socket) Read(p []byte) (int, error) {
	n, err := netloop.Read(s.fd, p)
	s.dry = n < len(p)
	return n, err
}

// Write implements net.Conn.
func (s *socket) Write(p []byte) (int, error) { return netloop.Write(s.fd, p) }

// LocalAddr implements net.Conn.
func (s *socket) LocalAddr() net.Addr { return nil }

// RemoteAddr implements net.Conn.
func (s *socket) RemoteAddr() net.Addr { return nil }

// SetDeadline implements net.Conn.
func (s *socket) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (s *socket) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }
