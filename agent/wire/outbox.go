package wire

import (
	"errors"
	"runtime"
	"sync"
	"time"
)

// errRetired means that the outbox has ended for lack of use; a new one takes
// its place.
var errRetired = errors.New("outbox retired")

// outbox collects frames while its writer is busy, so that whatever came in
// meanwhile leaves with one write. Two buffers take turns; nothing is allocated
// once they have grown.
type outbox struct {
	limit int           // bytes that may wait, unless one frame alone is larger
	wake  chan struct{} // capacity 1; filled when a waiting writer has work

	mu      sync.Mutex // guards all below; held for a copy at most
	buf     []byte     // frames to be taken
	spare   []byte     // empty, the buffer that take hands over next
	taken   []byte     // the buffer handed out and not yet given back
	pushes  uint64     // frames accepted so far
	waiting bool       // the writer, or the sender that dials, waits for wake
	offline bool       // no connection: note the age of what waits
	direct  *writer    // lets flush write by itself; nil if it must not
	held    bool       // flush is writing what it took
	rest    []byte     // what flush could not write, ahead of buf
	since   time.Time  // when the oldest frame in buf came, while offline
	err     error      // what push answers; nil while it accepts
	ping    pingState  // of the last ping pushed
	pinged  time.Time  // when it had been written; zero before
}

// pingState says where a ping is. Only once it has left does its answer take
// time that tells of the peer; what waits before it only tells of the load.
type pingState uint8

const (
	pingNone pingState = iota
	pingQueued
	pingTaken
)

func newOutbox(limit int) *outbox {
	return &outbox{limit: limit, wake: make(chan struct{}, 1)}
}

// push copies one frame in. With flush false the writer is left asleep, for a
// caller that has more to say and will call flush.
func (o *outbox) push(kind byte, head, body []byte, flush bool) error {
	n := frameHead + len(head) + len(body)
	o.mu.Lock()
	if o.err != nil {
		err := o.err
		o.mu.Unlock()
		return err
	}
	// Pings are few, and must tell a slow peer from a dead one just then.
	if queued := len(o.buf) + len(o.taken); queued > 0 && queued+n > o.limit && kind != kindPing {
		o.mu.Unlock()
		return ErrFull
	}
	if o.offline && len(o.buf) == 0 {
		o.since = time.Now()
	}
	if kind == kindPing {
		o.ping, o.pinged = pingQueued, time.Time{}
	}
	o.buf = appendFrame(o.buf, kind, head, body)
	o.pushes++
	wake := flush && o.waiting
	if wake {
		o.waiting = false
	}
	o.mu.Unlock()
	if wake {
		o.signal()
	}
	return nil
}

// pushTogether is for many goroutines that push one frame each and wait for what
// comes of it. All that are ready to run get to push theirs before the first of
// them flushes for all: a third of the cost of a write for each.
func (o *outbox) pushTogether(kind byte, head, body []byte) error {
	if err := o.push(kind, head, body, false); err != nil {
		return err
	}
	runtime.Gosched()
	o.flush()
	return nil
}

// flush sends what waits. If the writer sleeps, the caller writes in its place
// what the kernel takes without waiting: that saves two changes of goroutine,
// more than half the cost of a message that travels alone.
func (o *outbox) flush() {
	o.mu.Lock()
	if !o.waiting || len(o.buf) == 0 {
		o.mu.Unlock()
		return
	}
	o.waiting = false
	w := o.direct
	if w == nil {
		o.mu.Unlock()
		o.signal()
		return
	}
	b := o.swapLocked()
	o.held = true
	o.mu.Unlock()

	n := w.try(b)

	o.mu.Lock()
	o.held = false
	if n < len(b) && o.direct == w {
		o.rest = b[n:]
	} else {
		o.giveBackLocked()
	}
	more := len(o.rest) > 0 || len(o.buf) > 0
	o.waiting = !more
	o.mu.Unlock()
	if more {
		o.signal()
	}
}

// swapLocked takes everything that waits.
func (o *outbox) swapLocked() []byte {
	b := o.buf
	o.buf, o.spare = o.spare, nil
	o.taken = b
	if o.ping == pingQueued {
		o.ping = pingTaken
	}
	return b
}

// giveBackLocked returns the buffer that swapLocked handed out.
func (o *outbox) giveBackLocked() {
	b := o.taken
	// What one burst needed is not kept for ever.
	if cap(b) > largeBuffer && len(b) < cap(b)/4 {
		b = nil
	}
	o.spare, o.taken = b[:0], nil
	if o.ping == pingTaken {
		o.ping, o.pinged = pingNone, time.Now()
	}
}

// attach lets flush write by w, until detach.
func (o *outbox) attach(w *writer) {
	o.mu.Lock()
	o.direct = w
	o.mu.Unlock()
}

// detach forgets a connection that has ended, and the half message it may have
// left.
func (o *outbox) detach() {
	o.mu.Lock()
	o.direct = nil
	if o.rest != nil {
		o.giveBackLocked()
		o.rest = nil
	}
	o.mu.Unlock()
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default: // the writer is told already
	}
}

// take returns everything that waits, or nil: then wake is signalled when there
// is more. Each non-nil result must be given back by done before the next take.
func (o *outbox) take() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	// It may have been told to wait before there was a connection; from here
	// on flush must write nothing beside it.
	o.waiting = false
	switch {
	case o.held:
		return nil // flush signals if it leaves anything
	case o.rest != nil:
		b := o.rest
		o.rest = nil
		return b
	case len(o.buf) == 0:
		o.waiting = true
		return nil
	}
	return o.swapLocked()
}

func (o *outbox) done() {
	o.mu.Lock()
	o.giveBackLocked()
	o.mu.Unlock()
}

// arm makes the next push signal wake, whether or not frames wait already.
func (o *outbox) arm() {
	o.mu.Lock()
	o.waiting = true
	o.mu.Unlock()
	select {
	case <-o.wake:
	default:
	}
}

// setOffline says whether a connection exists.
func (o *outbox) setOffline(offline bool) {
	o.mu.Lock()
	o.offline = offline
	o.since = time.Now()
	o.mu.Unlock()
}

// expire drops everything that waits, if the oldest has waited since before t,
// and returns how many bytes wait now.
func (o *outbox) expire(t time.Time) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.buf) > 0 && o.since.Before(t) {
		o.buf = o.buf[:0]
	}
	return len(o.buf)
}

// refuse drops what waits and lets push answer err until err is nil.
func (o *outbox) refuse(err error) {
	o.mu.Lock()
	o.err = err
	if err != nil {
		o.buf = o.buf[:0]
	}
	o.mu.Unlock()
}

// retire ends the outbox if nothing waits and nothing came since pushes was
// count.
func (o *outbox) retire(count uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.buf) > 0 || o.taken != nil || o.pushes != count {
		return false
	}
	o.err = errRetired
	return true
}

// pingSent returns when the last ping had been written; zero before that.
func (o *outbox) pingSent() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pinged
}

func (o *outbox) count() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pushes
}
