package wire

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"
)

// sender brings the messages of one lane to one peer.
type sender struct {
	t    *Transport
	peer Peer
	lane Lane
	out  *outbox
}

// run dials when there is something to send, serves the connection, and starts
// over, until ctx ends or the sender was idle long enough.
func (s *sender) run(ctx context.Context) {
	o := &s.t.opts
	s.out.setOffline(true)
	backoff := o.BackoffMin
	for look := false; look || s.awaitWork(ctx); {
		conn, hello, err := s.t.dial(ctx, s.peer.Addr, s.lane, want{s.peer.ID, s.peer.Boot})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			look = false
			if !s.failed(ctx, err, backoff) {
				return
			}
			backoff = min(2*backoff, o.BackoffMax)
			continue
		}
		up := time.Now()
		s.out.expire(time.Now().Add(-o.QueueAge))
		s.out.setOffline(false)
		s.t.connected(hello, s.peer, s.lane)
		l := s.t.link(conn, s.out, s.lane)
		l.frame = func(byte, []byte) error { return errBadFrame } // only pings are answered
		err = l.run(ctx)
		if ctx.Err() != nil || errors.Is(err, errIdle) {
			return
		}
		s.out.setOffline(true)
		look = s.lost(err)
		if time.Since(up) >= o.BackoffMax {
			backoff = o.BackoffMin
			continue
		}
		// One that greets and closes must not be dialled without end.
		if !pause(ctx, backoff, nil) {
			return
		}
		backoff = min(2*backoff, o.BackoffMax)
	}
}

// lost handles the end of a connection, and reports whether to dial at once. A
// peer that closed may have died this moment: then its machine refuses the next
// connection, which is proof worth having before anyone asks.
func (s *sender) lost(err error) bool {
	log := s.t.log.With("member", s.peer.ID, "addr", s.peer.Addr, "lane", s.lane.String())
	if closedByPeer(err) {
		log.Debug("connection closed by member")
		return true
	}
	log.Warn("connection to member lost", "error", err)
	s.t.unreachable(Unreachable{Peer: s.peer, Lane: s.lane, Reason: NoAnswer})
	return false
}

func closedByPeer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// failed reports a failed attempt and waits until the next one is due.
func (s *sender) failed(ctx context.Context, err error, backoff time.Duration) bool {
	reason := reasonOf(err)
	s.t.log.Debug("cannot reach member", "member", s.peer.ID, "addr", s.peer.Addr,
		"lane", s.lane.String(), "reason", reason.String(), "error", err)
	s.t.unreachable(Unreachable{Peer: s.peer, Lane: s.lane, Reason: reason})
	if reason != NoAnswer && reason != Refused {
		// Somebody else lives there. Nothing queued is for him.
		s.out.refuse(&RefusedError{Reason: reason})
		ok := pause(ctx, s.t.opts.BackoffMax, nil)
		s.out.refuse(nil)
		return ok
	}
	s.out.expire(time.Now().Add(-s.t.opts.QueueAge))
	if reason != Refused {
		return pause(ctx, backoff, nil)
	}
	// A killed process is back soon: the next message tries at once, though
	// not more often than the shortest pause.
	s.out.arm()
	if !pause(ctx, s.t.opts.RefusedPause, nil) {
		return false
	}
	return pause(ctx, backoff, s.out.wake)
}

// awaitWork waits until frames are queued. It returns false when ctx ended or
// the sender retired.
func (s *sender) awaitWork(ctx context.Context) bool {
	for {
		s.out.arm()
		if s.out.expire(time.Now().Add(-s.t.opts.QueueAge)) > 0 {
			return true
		}
		n := s.out.count()
		timer := time.NewTimer(s.t.opts.IdleTimeout)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-s.out.wake:
			timer.Stop()
		case <-timer.C:
			if s.out.retire(n) {
				return false
			}
		}
	}
}

// pause waits for d, or less if early is signalled; false means that ctx ended.
func pause(ctx context.Context, d time.Duration, early <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-early:
	case <-timer.C:
	}
	return true
}

func reasonOf(err error) Reason {
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		return refused.Reason
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	}
	return NoAnswer
}
