package gossiptest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// latency is the time that a packet takes where nothing is slow.
const latency = 500 * time.Microsecond

// Network connects the transports made by it. Safe for concurrent use.
type Network struct {
	mu      sync.Mutex
	members map[netip.AddrPort]*Transport
	cut     map[[2]netip.AddrPort]bool
	slow    map[netip.AddrPort]time.Duration
	loss    float64
	noUDP   bool
	packets int
	bytes   int
	conns   map[*conn]struct{}
}

// NewNetwork returns an empty network.
func NewNetwork() *Network {
	return &Network{
		members: map[netip.AddrPort]*Transport{},
		cut:     map[[2]netip.AddrPort]bool{},
		slow:    map[netip.AddrPort]time.Duration{},
		conns:   map[*conn]struct{}{},
	}
}

// Transport returns a member of the network at an address. A former one at
// that address is crashed first.
func (n *Network) Transport(addr netip.AddrPort) *Transport {
	n.Crash(addr)
	t := &Transport{
		net: n, addr: addr,
		packets: make(chan *memberlist.Packet, 4096),
		streams: make(chan net.Conn, 256),
	}
	n.mu.Lock()
	n.members[addr] = t
	n.mu.Unlock()
	return t
}

// Cut separates the given members from all others, both ways. Connections
// between the two sides break.
func (n *Network) Cut(group ...netip.AddrPort) {
	in := map[netip.AddrPort]bool{}
	for _, a := range group {
		in[a] = true
	}
	n.mu.Lock()
	for a := range n.members {
		for b := range n.members {
			if in[a] != in[b] {
				n.cut[[2]netip.AddrPort{a, b}] = true
			}
		}
	}
	n.mu.Unlock()
	n.breakConns(func(c *conn) bool { return in[c.local] != in[c.remote] })
}

// CutOneWay loses what from sends to to.
func (n *Network) CutOneWay(from, to netip.AddrPort) {
	n.mu.Lock()
	n.cut[[2]netip.AddrPort{from, to}] = true
	n.mu.Unlock()
	n.breakConns(func(c *conn) bool { return c.local == from && c.remote == to || c.local == to && c.remote == from })
}

// Heal takes back all cuts, slowness and loss.
func (n *Network) Heal() {
	n.mu.Lock()
	clear(n.cut)
	clear(n.slow)
	n.loss, n.noUDP = 0, false
	n.mu.Unlock()
}

// Slow delays all that a member sends.
func (n *Network) Slow(addr netip.AddrPort, d time.Duration) {
	n.mu.Lock()
	n.slow[addr] = d
	n.mu.Unlock()
}

// Lose drops a share of all packets.
func (n *Network) Lose(share float64) {
	n.mu.Lock()
	n.loss = share
	n.mu.Unlock()
}

// BlockPackets loses all packets, while streams go on.
func (n *Network) BlockPackets(on bool) {
	n.mu.Lock()
	n.noUDP = on
	n.mu.Unlock()
}

// Crash takes a member off the network without a word: it neither sends nor
// receives any more.
func (n *Network) Crash(addr netip.AddrPort) {
	n.mu.Lock()
	if t := n.members[addr]; t != nil {
		t.crashed = true
		delete(n.members, addr)
	}
	n.mu.Unlock()
	n.breakConns(func(c *conn) bool { return c.local == addr || c.remote == addr })
}

// Sent returns how many packets and bytes of packets were sent so far.
func (n *Network) Sent() (packets, bytes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.packets, n.bytes
}

func (n *Network) breakConns(match func(*conn) bool) {
	n.mu.Lock()
	var gone []*conn
	for c := range n.conns {
		if match(c) {
			gone = append(gone, c)
			delete(n.conns, c)
		}
	}
	n.mu.Unlock()
	for _, c := range gone {
		c.Conn.Close()
	}
}

// routeLocked returns the way from a transport to an address.
func (n *Network) routeLocked(from *Transport, to netip.AddrPort) (t *Transport, delay time.Duration, ok bool) {
	t = n.members[to]
	if t == nil || from.crashed || n.cut[[2]netip.AddrPort{from.addr, to}] {
		return nil, 0, false
	}
	return t, latency + n.slow[from.addr], true
}

// Transport is one member's end of the network.
type Transport struct {
	net     *Network
	addr    netip.AddrPort
	packets chan *memberlist.Packet
	streams chan net.Conn
	crashed bool // guarded by net.mu
}

var _ memberlist.NodeAwareTransport = (*Transport)(nil)

// FinalAdvertiseAddr returns the address that the transport was made with.
func (t *Transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.addr.Addr().AsSlice(), int(t.addr.Port()), nil
}

// WriteTo sends a packet.
func (t *Transport) WriteTo(b []byte, addr string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress sends a packet; what cannot be delivered is lost silently.
func (t *Transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	now := time.Now()
	to, err := netip.ParseAddrPort(a.Addr)
	if err != nil {
		return now, fmt.Errorf("send packet: %w", err)
	}
	n := t.net
	n.mu.Lock()
	dst, delay, ok := n.routeLocked(t, to)
	ok = ok && !n.noUDP && (n.loss == 0 || rand.Float64() >= n.loss)
	n.packets++
	n.bytes += len(b)
	n.mu.Unlock()
	if !ok {
		return now, nil
	}
	p := &memberlist.Packet{Buf: append([]byte(nil), b...), From: net.UDPAddrFromAddrPort(t.addr), Timestamp: now.Add(delay)}
	time.AfterFunc(delay, func() {
		n.mu.Lock()
		alive := !dst.crashed
		n.mu.Unlock()
		if !alive {
			return
		}
		select {
		case dst.packets <- p:
		default:
		}
	})
	return now, nil
}

// PacketCh returns the packets that arrive.
func (t *Transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh returns the streams that others open.
func (t *Transport) StreamCh() <-chan net.Conn { return t.streams }

// DialTimeout opens a stream.
func (t *Transport) DialTimeout(addr string, d time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, d)
}

// DialAddressTimeout opens a stream. Towards an address that is cut off it
// takes all of the time given; where nobody is, it is refused at once.
func (t *Transport) DialAddressTimeout(a memberlist.Address, d time.Duration) (net.Conn, error) {
	to, err := netip.ParseAddrPort(a.Addr)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	n := t.net
	n.mu.Lock()
	dst, delay, ok := n.routeLocked(t, to)
	back := ok && !n.cut[[2]netip.AddrPort{to, t.addr}]
	nobody := n.members[to] == nil && !t.crashed
	n.mu.Unlock()
	switch {
	case nobody:
		return fail(errors.New("connection refused"))
	case !back || delay > d:
		time.Sleep(d)
		return fail(os.ErrDeadlineExceeded)
	}
	time.Sleep(delay)
	c1, c2 := net.Pipe()
	near := &conn{Conn: c1, net: n, local: t.addr, remote: to}
	far := &conn{Conn: c2, net: n, local: to, remote: t.addr}
	n.mu.Lock()
	n.conns[near], n.conns[far] = struct{}{}, struct{}{}
	n.mu.Unlock()
	select {
	case dst.streams <- far:
		return near, nil
	default:
		near.Close()
		far.Close()
		return fail(errors.New("connection refused"))
	}
}

// Shutdown takes the member off the network.
func (t *Transport) Shutdown() error {
	t.net.mu.Lock()
	t.crashed = true
	mine := t.net.members[t.addr] == t
	if mine {
		delete(t.net.members, t.addr)
	}
	t.net.mu.Unlock()
	if mine {
		t.net.breakConns(func(c *conn) bool { return c.local == t.addr || c.remote == t.addr })
	}
	return nil
}

// conn is one end of a stream.
type conn struct {
	net.Conn
	net           *Network
	local, remote netip.AddrPort
}

// Close closes the stream.
func (c *conn) Close() error {
	c.net.mu.Lock()
	delete(c.net.conns, c)
	c.net.mu.Unlock()
	return c.Conn.Close()
}

// LocalAddr returns this end's address.
func (c *conn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.local) }

// RemoteAddr returns the other end's address.
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }
