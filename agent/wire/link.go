package wire

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

var (
	errIdle     = errors.New("connection idle")
	errNoAnswer = errors.New("no answer to a ping")
)

// link is an established connection seen from the end that dialled it.
type link struct {
	conn     net.Conn
	out      *outbox
	max      int           // largest frame accepted
	ping     time.Duration // between an answer and the next ping
	patience time.Duration // for the answer to a ping
	write    time.Duration // for a write to make progress
	idle     time.Duration // without use, before the link ends itself
	busy     func() bool   // in use although nothing is sent; may be nil
	frame    func(kind byte, payload []byte) error
}

// run serves the link until it breaks, ctx ends, or it was idle; then the
// outbox is retired. It closes the connection and returns why, after its
// goroutines have ended.
func (l *link) run(ctx context.Context) error {
	var (
		stop  atomic.Bool
		heard atomic.Bool // something came since the last ping was queued
		ended = make(chan error, 2)
	)
	w := newWriter(l.conn, l.write)
	go func() { ended <- w.run(l.out, &stop) }()
	go func() { ended <- l.read(&heard) }()

	running, err := l.supervise(ctx, &heard, ended)
	l.conn.Close()
	stop.Store(true)
	l.out.signal()
	for ; running > 0; running-- {
		<-ended
	}
	l.out.detach()
	return err
}

// supervise returns when the link must end, with how many of its goroutines
// still run.
func (l *link) supervise(ctx context.Context, heard *atomic.Bool, ended <-chan error) (running int, err error) {
	tick := time.NewTicker(l.ping)
	defer tick.Stop()
	waiting := false // for the answer to a ping
	pushes, quiet := l.out.count(), time.Duration(0)
	looked := time.Now()
	for {
		select {
		case <-ctx.Done():
			return 2, ctx.Err()
		case err := <-ended:
			return 1, err
		case <-tick.C:
		}
		before, now := looked, time.Now()
		looked = now
		if waiting && !heard.Load() {
			if l.gone(l.out.pingSent(), before, now) {
				return 2, errNoAnswer
			}
			continue
		}
		n := l.out.count()
		if n != pushes || l.busy != nil && l.busy() {
			quiet = 0
		} else if quiet += l.ping; quiet >= l.idle && l.out.retire(n) {
			return 2, errIdle
		}
		heard.Store(false)
		waiting = l.out.push(kindPing, nil, nil, true) == nil
		if waiting {
			n++
		}
		pushes = n
	}
}

// gone tells from a ping without an answer that the peer is gone. Who looks later
// than it meant to was held up itself, and may not have read the answer yet.
func (l *link) gone(sent, looked, now time.Time) bool {
	return !sent.IsZero() && now.Sub(sent) >= l.patience && now.Sub(looked) < 2*l.ping
}

func (l *link) read(heard *atomic.Bool) error {
	r := newFrameReader(reader(l.conn), l.max)
	for {
		for {
			kind, payload, ok, err := r.next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			heard.Store(true) // any frame proves that the other side lives
			if kind == kindPing {
				continue
			}
			if err := l.frame(kind, payload); err != nil {
				return err
			}
		}
		if err := r.fill(); err != nil {
			return err
		}
	}
}
