package wire

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/rondel-project/rondel/agent/internal/netloop"
)

// laneTurn is how many reads of one lane are handled in a row before others get
// their turn.
const laneTurn = 8

// loopedLane is a foreground lane that is read in an event loop: what comes from all peers
// at one time is handled in one go, and what that makes this agent send leaves
// together.
type loopedLane struct {
	t     *Transport
	loop  *netloop.Loop
	ended chan error // one

	mu sync.Mutex // guards all below
	fd int        // -1: ended
	at int32      // its place in the loop
	r  *frameReader
	b  batch

	short bool // the last read returned less than it could have
}

// loopLane takes a connection over, if it can be read in a loop, and nil
// otherwise.
func (t *Transport) loopLane(conn net.Conn, from Hello) *loopedLane {
	if t.opts.Loops == nil {
		return nil
	}
	if _, ok := conn.(*net.TCPConn); !ok {
		return nil
	}
	loop, err := t.opts.Loops.Next()
	if err != nil {
		return nil
	}
	fd, ok := netloop.Take(conn)
	if !ok {
		return nil
	}
	l := &loopedLane{t: t, loop: loop, ended: make(chan error, 1), fd: fd, at: -1, b: batch{t: t, from: from}}
	l.r = newFrameReader(l, t.opts.MaxFrame)
	return l
}

// run handles messages until the connection ends.
func (l *loopedLane) run(ctx context.Context) error {
	l.mu.Lock()
	if l.fd >= 0 {
		at, err := l.loop.Add(l.fd, l)
		if l.at = at; err != nil {
			l.end(err)
		}
	}
	l.mu.Unlock()
	select {
	case err := <-l.ended:
		return err
	case <-ctx.Done():
		l.Close()
		return ctx.Err()
	}
}

// Close ends the connection. No message is handled after it has returned.
func (l *loopedLane) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(net.ErrClosed)
	return nil
}

func (l *loopedLane) end(err error) {
	if l.fd < 0 {
		return
	}
	l.loop.Remove(l.at)
	netloop.Close(l.fd)
	l.fd = -1
	l.ended <- err
}

// Ready implements netloop.Handler.
func (l *loopedLane) Ready(hup bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range laneTurn {
		if l.fd < 0 {
			return
		}
		if err := l.step(); err != nil {
			l.end(err)
			return
		}
		if l.short && !hup {
			return
		}
	}
	l.loop.Again(l.at)
}

// step reads once and handles what came.
func (l *loopedLane) step() error {
	switch err := l.r.fill(); {
	case errors.Is(err, netloop.ErrAgain):
		l.short = true
		return nil
	case err != nil:
		return err
	}
	pings, err := l.b.take(l.r)
	if err != nil {
		return err
	}
	if pings > 0 {
		// A peer that does not read a few bytes now and then is not served.
		_, err = netloop.Write(l.fd, appendFrame(nil, kindPing, nil, nil))
	}
	return err
}

// Read implements io.Reader for the frames.
func (l *loopedLane) Read(p []byte) (int, error) {
	n, err := netloop.Read(l.fd, p)
	l.short = n < len(p)
	return n, err
}
