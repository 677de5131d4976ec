package store

import (
	"context"
	"errors"
	"time"
)

// A disk that hangs returns no error, and whoever has called it does not come
// back to tell. So the writer's calls are watched from beside it: what waits is
// given up after Options.Stall, or when it is more than Options.MaxPending, just
// as if the disk had failed. The writer cleans up when its call has returned,
// whatever that returned, and then begins anew.

var (
	errHung = errors.New("the disk does not answer")
	errSlow = errors.New("the disk does not keep up with the changes")
)

// looks is how often the watch looks within Options.Stall. It counts them rather
// than trust the clock: a process that was stopped for a while has no bad disk.
const looks = 5

// watch notices what the writer cannot tell of, until ctx ends.
func (s *Store) watch(ctx context.Context, k Keeper) {
	tick := time.NewTicker(s.o.Stall / looks)
	defer tick.Stop()
	turn, seen := uint64(0), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.gaveUp:
		case <-tick.C:
			s.mu.Lock()
			if seen++; !s.busy && s.pending == 0 || turn != s.turns {
				turn, seen = s.turns, 0
			}
			if seen >= looks {
				s.giveUp(errHung)
			}
			s.mu.Unlock()
		}
		s.tellFailure(k)
	}
}

// giveUp ends the log that is being written: nothing more is taken, and nothing
// of it counts. s.mu is held; the writer does the rest as soon as it can.
func (s *Store) giveUp(cause error) {
	if s.failed != nil {
		return
	}
	s.failed = cause
	s.open, s.chunks, s.pending = false, nil, 0
	since := s.state.Since
	if s.state.Whole {
		since = time.Now()
	}
	s.state = State{Reason: cause.Error(), Since: since}
	poke(s.gaveUp)
	poke(s.wake)
}

// failure returns why the log was given up, nil if it was not.
func (s *Store) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// tellFailure tells of a log that was given up, once. Its id can still be found
// on the disk.
func (s *Store) tellFailure(k Keeper) {
	s.telling.Lock()
	defer s.telling.Unlock()
	cause := s.failure()
	if cause == nil || s.doubted {
		return
	}
	s.doubted = true
	if !s.told {
		s.told = true
		s.log.Error("sessions are kept in memory only", "error", cause, "retry", s.o.Retry)
	}
	k.SetStore(ID{}, true)
}

// turn makes a call to the disk that changes wait for. One that comes back after
// the log was given up has failed, whatever it says.
func (s *Store) turn(call func() error) error {
	s.mu.Lock()
	s.busy = true
	s.mu.Unlock()
	err := call()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	s.turns++
	if err == nil {
		err = s.failed
	}
	return err
}

func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
