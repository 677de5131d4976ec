package agenttest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// latency is how long a byte travels where nothing is slow.
const latency = 200 * time.Microsecond

// network connects hosts by streams.
type network struct {
	mu    sync.Mutex // guards all, and what hosts hold
	hosts map[netip.Addr]*host
	cut   map[[2]netip.Addr]bool
	slow  map[netip.Addr]time.Duration
	conns map[*conn]struct{}

	carried atomic.Int64 // bytes between agents
}

func newNetwork() *network {
	return &network{
		hosts: map[netip.Addr]*host{}, cut: map[[2]netip.Addr]bool{},
		slow: map[netip.Addr]time.Duration{}, conns: map[*conn]struct{}{},
	}
}

// host is one machine, for the life of one process on it.
type host struct {
	net       *network
	addr      netip.Addr
	listeners map[uint16]*listener
	port      uint16
	dead      bool
}

// host returns a fresh machine at an address; a former process there is dead.
func (n *network) host(addr netip.Addr) *host {
	h := &host{net: n, addr: addr, listeners: map[uint16]*listener{}, port: 40000}
	n.mu.Lock()
	n.hosts[addr] = h
	n.mu.Unlock()
	return h
}

// kill ends all that the host's process had open. Others see their connections
// to it break at once, and new ones refused.
func (h *host) kill() {
	n := h.net
	n.mu.Lock()
	h.dead = true
	var conns []*conn
	for c := range n.conns {
		if c.local.Addr() == h.addr && n.hosts[h.addr] == h {
			conns = append(conns, c)
		}
	}
	listeners := h.listeners
	h.listeners = map[uint16]*listener{}
	n.mu.Unlock()
	for _, l := range listeners {
		l.end()
	}
	for _, c := range conns {
		c.die()
	}
}

// listen opens a port of the host.
func (h *host) listen(addr netip.AddrPort) (net.Listener, error) {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if h.dead || h.listeners[addr.Port()] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: net.TCPAddrFromAddrPort(addr), Err: syscall.EADDRINUSE}
	}
	l := &listener{host: h, addr: netip.AddrPortFrom(h.addr, addr.Port()), backlog: make(chan *conn, 256), done: make(chan struct{})}
	h.listeners[addr.Port()] = l
	return l, nil
}

// dial connects from the host to an address. Where the way is cut it takes as
// long as ctx allows.
func (h *host) dial(ctx context.Context, addr string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	n := h.net
	n.mu.Lock()
	blocked := n.cut[[2]netip.Addr{h.addr, to.Addr()}] || n.cut[[2]netip.Addr{to.Addr(), h.addr}]
	delay := 2*latency + n.slow[h.addr] + n.slow[to.Addr()]
	n.mu.Unlock()
	var arrive <-chan time.Time
	if !blocked {
		t := time.NewTimer(delay)
		defer t.Stop()
		arrive = t.C
	}
	select {
	case <-arrive:
	case <-ctx.Done():
		return fail(ctx.Err())
	}
	near, ok := h.connect(to)
	if !ok {
		return fail(syscall.ECONNREFUSED)
	}
	return near, nil
}

func (h *host) connect(to netip.AddrPort) (net.Conn, bool) {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	there := n.hosts[to.Addr()]
	if h.dead || there == nil || there.listeners[to.Port()] == nil {
		return nil, false
	}
	h.port++
	local := netip.AddrPortFrom(h.addr, h.port)
	forth := newPipe(h.addr, to.Addr(), latency+n.slow[h.addr], n.cut[[2]netip.Addr{h.addr, to.Addr()}])
	back := newPipe(to.Addr(), h.addr, latency+n.slow[to.Addr()], n.cut[[2]netip.Addr{to.Addr(), h.addr}])
	if to.Port() == rpcPort {
		forth.count, back.count = &n.carried, &n.carried
	}
	near := &conn{in: back, out: forth, local: local, remote: to}
	far := &conn{in: forth, out: back, local: to, remote: local}
	near.other, far.other = far, near
	for _, c := range []*conn{near, far} {
		n.conns[c] = struct{}{}
		c.forget = sync.OnceFunc(func() {
			n.mu.Lock()
			delete(n.conns, c)
			n.mu.Unlock()
		})
	}
	select {
	case there.listeners[to.Port()].backlog <- far:
		return near, true
	default:
		delete(n.conns, near)
		delete(n.conns, far)
		return nil, false
	}
}

// update brings cuts and delays to the connections there are.
func (n *network) update(change func()) {
	type state struct {
		p     *pipe
		held  bool
		delay time.Duration
	}
	n.mu.Lock()
	change()
	var all []state
	for c := range n.conns {
		p := c.out
		all = append(all, state{p, n.cut[[2]netip.Addr{p.from, p.to}], latency + n.slow[p.from]})
	}
	n.mu.Unlock()
	for _, s := range all {
		s.p.set(func() { s.p.held, s.p.delay = s.held, s.delay })
	}
}

type listener struct {
	host    *host
	addr    netip.AddrPort
	backlog chan *conn
	once    sync.Once
	done    chan struct{}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	n := l.host.net
	n.mu.Lock()
	if l.host.listeners[l.addr.Port()] == l {
		delete(l.host.listeners, l.addr.Port())
	}
	n.mu.Unlock()
	l.end()
	return nil
}

func (l *listener) end() {
	l.once.Do(func() { close(l.done) })
	for {
		select {
		case c := <-l.backlog:
			c.die()
		default:
			return
		}
	}
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.addr) }
