package wire

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/member"
)

// memNet is a network of pipes that lives inside a synctest bubble.
type memNet struct {
	mu        sync.Mutex
	listeners map[string]*memListener
	holes     map[string]bool // dialling these hangs
	dials     map[string]int
}

func newMemNet() *memNet {
	return &memNet{listeners: map[string]*memListener{}, holes: map[string]bool{}, dials: map[string]int{}}
}

func (n *memNet) listen(addr string) *memListener {
	l := &memListener{net: n, addr: memAddr(addr), conns: make(chan net.Conn, 16), done: make(chan struct{})}
	n.mu.Lock()
	n.listeners[addr] = l
	n.mu.Unlock()
	return l
}

func (n *memNet) hole(addr string, on bool) {
	n.mu.Lock()
	n.holes[addr] = on
	n.mu.Unlock()
}

func (n *memNet) dialled(addr string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials[addr]
}

func (n *memNet) dial(ctx context.Context, addr string) (net.Conn, error) {
	n.mu.Lock()
	l, hole := n.listeners[addr], n.holes[addr]
	n.dials[addr]++
	n.mu.Unlock()
	if hole {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if l == nil {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.done:
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
}

type memAddr string

func (a memAddr) Network() string { return "mem" }
func (a memAddr) String() string  { return string(a) }

type memListener struct {
	net   *memNet
	addr  memAddr
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() {
		l.net.mu.Lock()
		if l.net.listeners[string(l.addr)] == l {
			delete(l.net.listeners, string(l.addr))
		}
		l.net.mu.Unlock()
		close(l.done)
		for {
			select {
			case c := <-l.conns:
				c.Close()
			default:
				return
			}
		}
	})
	return nil
}

func (l *memListener) Addr() net.Addr { return l.addr }

// node is a transport under test that records what it is told.
type node struct {
	*Transport
	peer Peer
	stop func()

	mu   sync.Mutex
	got  []string
	lost []Unreachable
	new  chan struct{} // capacity 1: something was recorded
}

const (
	kindText  = 1
	kindOther = 2
)

var cluster = [16]byte{1}

var quiet = hclog.NewNullLogger()

func (n *node) record(f func()) {
	n.mu.Lock()
	f()
	n.mu.Unlock()
	select {
	case n.new <- struct{}{}:
	default:
	}
}

func (n *node) messages() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.got...)
}

func (n *node) reasons() []Reason {
	n.mu.Lock()
	defer n.mu.Unlock()
	var rs []Reason
	for _, u := range n.lost {
		rs = append(rs, u.Reason)
	}
	return rs
}

// until waits for cond, looking again whenever the node recorded something.
func (n *node) until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !cond() {
		select {
		case <-n.new:
		case <-deadline.C:
			t.Fatalf("waited in vain for %s; messages %d, lost %v", what, len(n.messages()), n.reasons())
		}
	}
}

func prepare(t *testing.T, o Options, self Hello) *node {
	t.Helper()
	if o.Self == nil {
		o.Self = func() Hello { return self }
	}
	n := &node{Transport: New(o, quiet), new: make(chan struct{}, 1)}
	n.peer = Peer{ID: self.ID, Boot: self.Boot, Addr: o.Listener.Addr().String()}
	n.Handle(kindText, func(_ Hello, ps [][]byte) {
		n.record(func() {
			for _, p := range ps {
				n.got = append(n.got, string(p))
			}
		})
	})
	n.OnUnreachable(func(u Unreachable) { n.record(func() { n.lost = append(n.lost, u) }) })
	return n
}

func (n *node) start(t *testing.T) *node {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() { n.stop() })
	return n
}

func hello(name string) Hello {
	return Hello{Cluster: cluster, ID: member.NewID(), Boot: member.NewBoot(), Name: name}
}

// mem starts a node on a memory network.
func mem(t *testing.T, net *memNet, self Hello) *node {
	t.Helper()
	return prepare(t, Options{Listener: net.listen(self.Name), Dial: net.dial}, self).start(t)
}

// patience is how long tests in real time wait for what must come.
const patience = time.Minute

// patient makes nothing of a peer that is slow: in real time it may be the
// machine that is, busy with something else.
func patient(o Options) Options {
	o.DialTimeout, o.HandshakeTimeout, o.WriteTimeout = 5*patience, 5*patience, 5*patience
	o.PingTimeout, o.QueueAge = 5*patience, 5*patience
	return o
}

func listenLoopback(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func text(i int) []byte { return fmt.Appendf(nil, "%06d", i) }

// eventually looks again and again for what announces itself to nobody.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-tick.C
	}
}
