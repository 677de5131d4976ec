package proxy

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
)

// Queue bounds the requests that wait while all their instances have as much
// as they take. With no Length nobody waits.
type Queue struct {
	Length  int           // requests of the route that wait at a time
	Timeout time.Duration // how long one waits
}

// waiter is a request in line. It is with its group until it is told something
// or leaves, whichever happens first under the group's lock.
type waiter struct {
	rt    *route
	only  *instance // the one that its client is bound to, or nil for any
	spare bool      // a spare one will do: none of the active could be used
	tried []*instance
	place uint64         // in line: the lower comes first
	ready chan *instance // holds one; nil: choose again
}

// fits returns the instance that the waiter could use of one that has room.
func (w *waiter) fits(b *backend) *instance {
	if w.only != nil {
		if w.only.backend == b {
			return w.only
		}
		return nil
	}
	i := w.rt.limited[b]
	if i == nil && w.spare {
		i = w.rt.reserve[b]
	}
	if i == nil || slices.ContainsFunc(w.tried, func(t *instance) bool { return t.backend == b }) {
		return nil
	}
	return i
}

// join puts w in line, at its old place if it had one. It reports false where
// the route's part of the line is as long as it may be.
func (g *group) join(w *waiter) bool {
	g.mu.Lock()
	if w.place == 0 {
		if w.rt.turn.waiting.Load() >= int32(w.rt.Queue.Length) {
			g.mu.Unlock()
			return false
		}
		g.came++
		w.place = g.came
	}
	at := len(g.line)
	for at > 0 && g.line[at-1].place > w.place {
		at--
	}
	g.line = slices.Insert(g.line, at, w)
	g.waiting.Add(1)
	w.count(1)
	g.mu.Unlock()
	g.serve() // room may have come just before
	return true
}

// count keeps the numbers by which others see that somebody waits.
func (w *waiter) count(n int32) {
	if w.only != nil {
		w.only.queued.Add(n)
	} else {
		w.rt.turn.queued.Add(n)
	}
	w.rt.turn.waiting.Add(n)
}

func (g *group) dropLocked(w *waiter) {
	g.waiting.Add(-1)
	w.count(-1)
}

// quit takes w out of line. It reports false when w was told something before.
func (g *group) quit(w *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := slices.Index(g.line, w)
	if at < 0 {
		return false
	}
	g.line = slices.Delete(g.line, at, at+1)
	g.dropLocked(w)
	return true
}

// serve gives what room there is to those who wait, the first first.
func (g *group) serve() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for n := 0; n < len(g.line); {
		w := g.line[n]
		got := g.roomLocked(w, now)
		if got == nil {
			n++
			continue
		}
		g.line = slices.Delete(g.line, n, n+1)
		g.dropLocked(w)
		w.ready <- got
	}
}

// roomLocked finds and takes a place for w.
func (g *group) roomLocked(w *waiter, now time.Time) *instance {
	for _, m := range g.members {
		if m.inFlight.Load() >= int64(m.MaxConnections) && m.MaxConnections > 0 {
			continue
		}
		if i := w.fits(m.backend); i != nil && (w.only != nil || !i.suspected(now)) && i.admit() {
			return i
		}
	}
	return nil
}

// parked is how waiting for room ended.
type parked uint8

const (
	notParked parked = iota
	tooMany          // the line is as long as it may be
	tooLong          // nothing became free in time
	leftLine         // the client is gone
)

// park waits in line until there is room at an instance, and counts the request
// there. It BLOCKS for as long as the route's queue allows. Nil means that the
// request is not to be passed on; x.parked says why.
func (x *exchange) park() *instance {
	w := &waiter{rt: x.rt, spare: x.choose.spare, ready: make(chan *instance, 1)}
	if x.choose.wait != nil {
		w.only = x.choose.wait
	} else {
		w.tried = slices.Clone(x.choose.tried)
	}
	if !x.rt.group.join(w) {
		x.parked = tooMany
		return nil
	}
	limit := time.NewTimer(x.rt.Queue.Timeout)
	defer limit.Stop()
	began := time.Now()
	defer func() { x.note.queued += time.Since(began) }()
	watch := watchClient(x.c.in)
	defer watch.end()
	for {
		g := x.rt.group
		var got *instance
		var told bool
		select {
		case got = <-w.ready:
			told = true
		case <-limit.C:
			x.parked = tooLong
		case <-watch.left:
			x.parked = leftLine
		}
		if !told && !g.quit(w) {
			got, told = <-w.ready, true
		}
		switch {
		case got != nil && x.parked == leftLine:
			got.leave()
			return nil
		case got != nil:
			x.parked = notParked
			x.choose.now = time.Now()
			if x.choose.why = whyQueue; w.only != nil {
				x.choose.why = whyBound
			}
			x.choose.tried = append(x.choose.tried, got)
			return got
		case x.parked != notParked:
			return nil
		}
		// There are other instances now.
		x.refresh()
		x.choose.now = time.Now()
		if got = x.pick(); got != nil || !x.choose.full {
			return got
		}
		w.rt, w.only, w.spare = x.rt, x.choose.wait, x.choose.spare
		x.rt.group.join(w) // it has a place
	}
}

// refresh goes over to the present snapshot, unless the request is another
// route's there.
func (x *exchange) refresh() {
	snap := x.p.snap.Load()
	rt := snap.match(x.q.Host, x.q.Path)
	if rt == nil || rt.turn != x.rt.turn || rt.group != x.rt.group || rt.Sticky != x.rt.Sticky {
		return
	}
	x.snap, x.rt = snap, rt
	x.choose.snap, x.choose.rt = snap, rt
}

// watcher notices that a client leaves while its request waits in line. While
// it runs it alone reads from the client.
type watcher struct {
	in   *http1.Conn
	stop atomic.Bool
	left chan struct{}
	done chan struct{}
}

func watchClient(in *http1.Conn) *watcher {
	w := &watcher{in: in, left: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		in.ReadWithin(time.Now(), 0)
		for !w.stop.Load() {
			if err := in.Fill(); err != nil {
				if departed(err) && !w.stop.Load() {
					close(w.left)
				}
				return
			}
		}
	}()
	return w
}

// end stops it and waits for it.
func (w *watcher) end() {
	w.stop.Store(true)
	w.in.Interrupt()
	<-w.done
	w.in.Resume()
}
