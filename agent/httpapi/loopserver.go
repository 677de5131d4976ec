package httpapi

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rondel-project/rondel/agent/internal/netloop"
)

// maxLoops bounds how many loops share the connections. One carries more than
// the session engine behind it does.
const maxLoops = 4

// loopServer carries connections in event loops while all that they ask for are
// plain operations on one session (loopask.go). One that asks for anything else
// goes to the door, which gives it a goroutine, and comes back from there.
type loopServer struct {
	s    *Server
	door *door
	ctx  context.Context // of the loops
	run  *errgroup.Group // the loops
	next atomic.Uint32   // whose turn it is to get a connection

	loops []*loop
}

// loop is one event loop and its connections.
type loop struct {
	ls    *loopServer
	begun sync.Once
	net   *netloop.Loop // nil where the system has none
	dates dates

	second atomic.Int64 // Unix time of the last sweep

	mu    sync.Mutex // guards conns
	conns map[*loopConn]struct{}
}

func newLoopServer(ctx context.Context, s *Server, d *door) *loopServer {
	ls := &loopServer{s: s, door: d, ctx: ctx, run: new(errgroup.Group)}
	for range max(1, min(maxLoops, runtime.GOMAXPROCS(0)/2)) {
		ls.loops = append(ls.loops, &loop{ls: ls, conns: make(map[*loopConn]struct{})})
	}
	return ls
}

// take carries a connection from now on, if it can be carried in a loop. A loop
// begins with its first connection.
func (ls *loopServer) take(nc net.Conn) bool {
	if _, ok := nc.(*net.TCPConn); !ok {
		return false
	}
	l := ls.loops[int(ls.next.Add(1))%len(ls.loops)]
	l.begun.Do(l.begin)
	if l.net == nil {
		return false
	}
	fd, ok := netloop.Take(nc)
	if !ok {
		return false
	}
	c := &loopConn{l: l, fd: fd}
	c.used.Store(time.Now().Unix())
	c.state.Store(connBusy) // until it knows its place
	d := ls.door
	d.mu.Lock()
	stopping := d.stopping.Load()
	if !stopping {
		d.ends.Add(1)
		l.mu.Lock()
		l.conns[c] = struct{}{}
		l.mu.Unlock()
	}
	d.mu.Unlock()
	if stopping {
		netloop.Close(fd)
		return true
	}
	at, err := l.net.Add(fd, c)
	if c.at = at; err != nil {
		c.end()
		return true
	}
	c.dry = true
	if !c.rest() { // something has arrived
		c.proceed()
		ls.s.o.Sessions.Flush()
	}
	return true
}

func (l *loop) begin() {
	n, err := netloop.New(netloop.Options{Round: l.ls.s.o.Sessions.Flush, Sweep: l.sweep})
	if err != nil {
		l.ls.s.log.Debug("connections are carried without an event loop", "error", err)
		return
	}
	l.net = n
	l.second.Store(time.Now().Unix())
	l.ls.run.Go(func() error { return n.Run(l.ls.ctx) })
}

// stop ends the connections that are idle. The others end with the answer to
// the request that they are at.
func (ls *loopServer) stop() {
	for _, l := range ls.loops {
		for _, c := range l.all() {
			if c.state.CompareAndSwap(connIdle, connBusy) {
				c.end()
			}
		}
	}
}

// abort ends those too that wait for an answer.
func (ls *loopServer) abort() {
	for _, l := range ls.loops {
		for _, c := range l.all() {
			c.drop()
		}
	}
}

func (l *loop) all() []*loopConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*loopConn, 0, len(l.conns))
	for c := range l.conns {
		out = append(out, c)
	}
	return out
}

// sweep ends connections that nobody uses, and gives those to a goroutine that
// have sent a part of a request and then nothing: it has the deadlines for that.
func (l *loop) sweep(now time.Time) {
	l.second.Store(now.Unix())
	for _, c := range l.all() {
		quiet := now.Sub(time.Unix(c.used.Load(), 0))
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
