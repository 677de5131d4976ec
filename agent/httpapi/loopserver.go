package httpapi

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondel-project/rondel/agent/internal/netloop"
)

// loopServer carries connections in event loops while all that they ask for are
// plain operations on one session (loopask.go). One that asks for anything else
// goes to the door, which gives it a goroutine, and comes back from there.
type loopServer struct {
	s     *Server
	door  *door
	pool  *netloop.Pool
	dates dates

	second  atomic.Int64 // Unix time of the last sweep
	aborted atomic.Bool  // no answer is waited for any more

	mu    sync.Mutex // guards conns
	conns map[*loopConn]struct{}
}

func newLoopServer(pool *netloop.Pool, s *Server, d *door) *loopServer {
	ls := &loopServer{s: s, door: d, pool: pool, conns: make(map[*loopConn]struct{})}
	ls.second.Store(time.Now().Unix())
	return ls
}

// sweepEvery is how often idle connections are looked at.
const sweepEvery = time.Second

// run keeps the connections' time until ctx ends.
func (ls *loopServer) run(ctx context.Context) error {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-t.C:
			ls.sweep(now)
		}
	}
}

// take carries a connection from now on, if it can be carried in a loop.
func (ls *loopServer) take(nc net.Conn) bool {
	if _, ok := nc.(*net.TCPConn); !ok {
		return false
	}
	l, err := ls.pool.Next()
	if err != nil {
		return false
	}
	fd, ok := netloop.Take(nc)
	if !ok {
		return false
	}
	c := &loopConn{ls: ls, loop: l, fd: fd}
	c.since.Store(time.Now().Unix())
	c.state.Store(connBusy) // until it knows its place
	d := ls.door
	d.mu.Lock()
	stopping := d.stopping.Load()
	if !stopping {
		d.ends.Add(1)
		ls.mu.Lock()
		ls.conns[c] = struct{}{}
		ls.mu.Unlock()
	}
	d.mu.Unlock()
	if stopping {
		netloop.Close(fd)
		return true
	}
	at, err := l.Add(fd, c)
	if c.at = at; err != nil {
		c.leave()
		return true
	}
	c.dry = true
	if !c.rest() { // something has arrived
		c.proceed()
		ls.s.o.Sessions.Flush()
	}
	return true
}

// stop ends the connections that are idle. The others end with the answer to
// the request that they are at.
func (ls *loopServer) stop() {
	for _, c := range ls.all() {
		if c.state.CompareAndSwap(connIdle, connBusy) {
			c.end()
		}
	}
}

// abort ends those too that wait for an answer.
func (ls *loopServer) abort() {
	ls.aborted.Store(true)
	for _, c := range ls.all() {
		c.drop()
	}
}

func (ls *loopServer) all() []*loopConn {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	out := make([]*loopConn, 0, len(ls.conns))
	for c := range ls.conns {
		out = append(out, c)
	}
	return out
}

// sweep ends connections that nobody uses, and gives those to a goroutine that
// have sent a part of a request and then nothing: it has the deadlines for that.
func (ls *loopServer) sweep(now time.Time) {
	ls.second.Store(now.Unix())
	for _, c := range ls.all() {
		quiet := now.Sub(time.Unix(c.since.Load(), 0))
		if quiet < headTime || !c.state.CompareAndSwap(connIdle, connBusy) {
			continue
		}
		switch {
		case c.w > c.r:
			c.leave()
		case quiet >= idleTime:
			c.end()
		case !c.rest():
			c.proceed()
			ls.s.o.Sessions.Flush()
		}
	}
}

// dates keeps the text of the second that is now.
type dates struct{ last atomic.Pointer[stamp] }

type stamp struct {
	second int64
	text   []byte
}

func (d *dates) append(b []byte, now time.Time) []byte {
	s := d.last.Load()
	if s == nil || s.second != now.Unix() {
		s = &stamp{now.Unix(), now.UTC().AppendFormat(nil, http.TimeFormat)}
		d.last.Store(s)
	}
	return append(b, s.text...)
}
