package proxy

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondel-project/rondel/agent/internal/netloop"
)

// maxWorkers bounds how many event loops carry requests as a rule.
const maxWorkers = 16

// loops are the event loops that carry plain requests and tunnels. A connection is in one of
// them while it waits for a request, and as long as its requests are such that
// nothing has to be waited for but the instance's answer; what is unusual gets a
// goroutine (loophand.go).
type loops struct {
	p    *Proxy
	pool *netloop.Pool
	n    int         // how many there are; 0: none
	cut  atomic.Bool // Close was called

	mu      sync.Mutex // guards workers
	workers map[*netloop.Loop]*worker
}

// newLoops makes n loops, or as many as fit the machine; a negative n is none.
func newLoops(p *Proxy, n int) *loops {
	switch {
	case n == 0:
		n = max(1, min(maxWorkers, runtime.GOMAXPROCS(0)-1))
	case n < 0:
		n = 0
	}
	ls := &loops{p: p, n: n, workers: map[*netloop.Loop]*worker{}}
	ls.pool = netloop.NewPool(netloop.Options{Loops: n, Failed: func(err error) {
		p.log.Error("an event loop ended", "error", err)
	}})
	return ls
}

// listen returns what accepts connections for loops beside ln; nil where those of
// ln begin with something that a goroutine has to see to.
func (ls *loops) listen(ln net.Listener) *netloop.Listener {
	tcp, ok := ln.(*net.TCPListener)
	if !ok || ls.n == 0 {
		return nil
	}
	l, err := netloop.Listen(tcp)
	if err != nil {
		return nil // accepting from ln says more, if it is that which has failed
	}
	return l
}

// take carries a connection from now on, if it can be carried in a loop.
func (ls *loops) take(nc net.Conn, peer *peer) bool {
	if _, ok := nc.(*net.TCPConn); !ok || ls.n == 0 {
		return false
	}
	loop, err := ls.pool.Next()
	if err != nil {
		return false
	}
	fd, ok := netloop.Take(nc)
	if ok {
		ls.carry(fd, peer, loop)
	}
	return ok
}

// takeBare is take for a descriptor.
func (ls *loops) takeBare(fd int, peer *peer) bool {
	loop, err := ls.pool.Next()
	if err != nil {
		return false
	}
	ls.carry(fd, peer, loop)
	return true
}

func (ls *loops) carry(fd int, peer *peer, loop *netloop.Loop) {
	l := &loopClient{w: ls.worker(loop), peer: peer}
	l.fd = fd
	ls.p.wg.Add(1)
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.since = time.Now()
	l.join()
}

// adopt carries a connection from now on that began with a goroutine, if it can
// be carried in a loop.
func (ls *loops) adopt(c *conn) bool {
	if _, ok := c.in.Conn.(*net.TCPConn); !ok || ls.n == 0 {
		return false
	}
	loop, err := ls.pool.Next()
	if err != nil {
		return false
	}
	c.home = &loopClient{w: ls.worker(loop), peer: c.peer}
	c.memo = &c.home.memo
	return c.goHome()
}

func (ls *loops) worker(loop *netloop.Loop) *worker {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	w := ls.workers[loop]
	if w == nil {
		w = &worker{p: ls.p, loop: loop, index: len(ls.workers)}
		ls.workers[loop] = w
	}
	return w
}

func (ls *loops) each(f func(*worker)) {
	ls.mu.Lock()
	list := make([]*worker, 0, len(ls.workers))
	for _, w := range ls.workers {
		list = append(list, w)
	}
	ls.mu.Unlock()
	for _, w := range list {
		w.mu.Lock()
		f(w)
		w.mu.Unlock()
	}
}

// sweep ends what nobody uses and what takes too long.
func (ls *loops) sweep(now time.Time, list []*backend) {
	cfg := ls.p.config()
	ls.each(func(w *worker) { w.sweep(now, cfg, list) })
}

// drain ends the connections that wait for a request. The others end with the
// answer to theirs.
func (ls *loops) drain() { ls.each((*worker).endIdle) }

// abort ends all connections.
func (ls *loops) abort() {
	ls.cut.Store(true)
	ls.each((*worker).abort)
}

// forget closes the resting connections to a backend that is gone.
func (ls *loops) forget(b *backend) {
	b.gone.Store(true)
	ls.each(func(w *worker) { w.dropResting(b) })
}

// close ends the loops, which have no connections of clients any more.
func (ls *loops) close(list []*backend) {
	for _, b := range list {
		ls.forget(b)
	}
	ls.each((*worker).stop)
	if err := ls.pool.Close(); err != nil {
		ls.p.log.Warn("an event loop had ended before", "error", err)
	}
}
