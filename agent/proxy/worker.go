package proxy

import (
	"sync"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
	"github.com/rondel-project/rondel/agent/internal/netloop"
)

const (
	loopUpBuffer = 128 << 10 // for what an instance answers; a loop has few
	loopFewBytes = 32 << 10  // for a client that does not take so much at a time
	spareWorks   = 256
	spareBuffers = 8
)

// worker is what the connections of one event loop share. Whoever holds mu may
// go on with any of them: the loop as a rule, and who keeps the time.
type worker struct {
	p     *Proxy
	loop  *netloop.Loop
	index int // of its resting connections at each backend

	mu      sync.Mutex // guards all below, and all of the loop's connections
	clients []*loopClient
	tunnels []*tunnel
	works   []*conn  // for the next requests
	buffers [][]byte // for the next answers
	few     [][]byte // and of clients that are full
	out     []byte   // what is being put together
	waiting waiters
	timer   *time.Timer // for waiting; nil until there was anybody
	armed   bool
}

// work returns what a request of l is worked at with.
func (w *worker) work(l *loopClient) *conn {
	var c *conn
	if n := len(w.works); n > 0 {
		c, w.works = w.works[n-1], w.works[:n-1]
	} else {
		c = &conn{p: w.p, in: http1.NewConn(nil, clientBuffer)}
	}
	c.home, c.peer, c.memo = l, l.peer, &l.memo
	c.in.Conn = l
	return c
}

// spare takes back what work gave.
func (w *worker) spare(c *conn) {
	if len(w.works) == spareWorks {
		return
	}
	c.home, c.peer, c.memo, c.in.Conn = nil, nil, nil, nil
	w.works = append(w.works, c)
}

// buffer returns space for what an instance says. Of what a client does not take
// all of it has to be kept, so that one that is full gets less at a time.
func (w *worker) buffer(full bool) []byte {
	from, size := &w.buffers, loopUpBuffer
	if full {
		from, size = &w.few, loopFewBytes
	}
	n := len(*from)
	if n == 0 {
		return make([]byte, size)
	}
	b := (*from)[n-1]
	*from = (*from)[:n-1]
	return b
}

func (w *worker) spareBuffer(b []byte) {
	switch {
	case len(b) == loopUpBuffer && len(w.buffers) < spareBuffers:
		w.buffers = append(w.buffers, b)
	case len(b) == loopFewBytes && len(w.few) < spareBuffers:
		w.few = append(w.few, b)
	}
}

// waiters are the clients whose instance is silent, those that wait longest first.
type waiters struct{ first, last *loopClient }

// await notes that l waits since now.
func (w *worker) await(l *loopClient, now time.Time) {
	l.since, l.awaited = now, true
	l.before, l.after = w.waiting.last, nil
	if l.before != nil {
		l.before.after = l
	} else {
		w.waiting.first = l
	}
	w.waiting.last = l
	if w.armed {
		return
	}
	w.armed = true
	if w.timer == nil {
		w.timer = time.AfterFunc(watchAfter, w.overdue)
	} else {
		w.timer.Reset(watchAfter)
	}
}

func (w *worker) unwait(l *loopClient) {
	if !l.awaited {
		return
	}
	l.awaited = false
	if l.before != nil {
		l.before.after = l.after
	} else {
		w.waiting.first = l.after
	}
	if l.after != nil {
		l.after.before = l.before
	} else {
		w.waiting.last = l.before
	}
	l.before, l.after = nil, nil
}

// overdue looks after clients that wait for long.
func (w *worker) overdue() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.armed = false
	for l := w.waiting.first; l != nil; l = w.waiting.first {
		if left := watchAfter - now.Sub(l.since); left > 0 {
			w.armed = true
			w.timer.Reset(left)
			return
		}
		w.unwait(l)
		l.overdue(now)
	}
}

// sweep ends connections that nobody uses and clients that are too slow.
func (w *worker) sweep(now time.Time, cfg *Config, backends []*backend) {
	for i := len(w.clients) - 1; i >= 0; i-- { // the last one takes the place of one that goes
		w.clients[i].sweep(now, &cfg.Timeouts)
	}
	tunnelsNow := time.Now() // what has moved since now was read is not idle since then
	for i := len(w.tunnels) - 1; i >= 0; i-- {
		w.tunnels[i].sweep(tunnelsNow)
	}
	for _, b := range backends {
		r := b.resting[w.index]
		old := 0
		for old < len(r) && now.Sub(r[old].since) > cfg.Timeouts.Upstream {
			r[old].Close()
			old++
		}
		if old > 0 {
			n := copy(r, r[old:])
			clear(r[n:])
			b.resting[w.index] = r[:n]
		}
	}
}

func (w *worker) endIdle() {
	for i := len(w.clients) - 1; i >= 0; i-- {
		switch l := w.clients[i]; {
		case l.state != reading:
		case l.rests:
			l.hasty() // it has asked, and its body comes
		default:
			l.end()
		}
	}
}

func (w *worker) abort() {
	for i := len(w.clients) - 1; i >= 0; i-- {
		w.clients[i].abort()
	}
	for i := len(w.tunnels) - 1; i >= 0; i-- {
		w.tunnels[i].abort()
	}
}

func (w *worker) dropResting(b *backend) {
	for _, u := range b.resting[w.index] {
		u.Close()
	}
	b.resting[w.index] = nil
}

func (w *worker) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.works, w.buffers, w.few, w.out = nil, nil, nil, nil
}
