package http2

import (
	"os"
	"sync"
	"time"
)

// waiter is one direction of an in-memory connection: who waits there, and
// until when. Its condition's lock guards it.
type waiter struct {
	cond  sync.Cond
	until time.Time   // the deadline; zero: none
	timer *time.Timer // wakes who waits when the deadline has come
	armed time.Time   // when it will; zero: it does not run
}

// late reports whether the deadline has passed.
func (w *waiter) late() bool { return !w.until.IsZero() && !time.Now().Before(w.until) }

// wait gives up the lock until something has happened. It fails once the
// deadline has passed. A timer is set only here, since deadlines are set much
// more often than anybody has to wait.
func (w *waiter) wait() error {
	if !w.until.IsZero() {
		left := time.Until(w.until)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		if w.armed.IsZero() || w.armed.After(w.until) {
			w.armed = w.until
			if w.timer == nil {
				w.timer = time.AfterFunc(left, w.fire)
			} else {
				w.timer.Reset(left)
			}
		}
	}
	w.cond.Wait()
	return nil
}

func (w *waiter) fire() {
	w.cond.L.Lock()
	w.armed = time.Time{}
	w.cond.Broadcast()
	w.cond.L.Unlock()
}

// set sets the deadline, for those too who wait already.
func (w *waiter) set(t time.Time) {
	w.cond.L.Lock()
	w.until = t
	w.cond.Broadcast()
	w.cond.L.Unlock()
}

// stop lets nothing be left behind.
func (w *waiter) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.cond.Broadcast()
}
