package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// tagSize is what stands before each packet: a magic, a version, and the first
// 8 bytes of the cluster id, so that an agent which was given the old address
// of a member of another cluster is not taken for that member.
const (
	tagSize  = 2 + 8
	tagMagic = 'R'
	tagVsn   = 1

	maxHandshakes = 256 // at once; more are closed unheard
)

type clusterTag [8]byte

// answerer judges who knocks. It must not block and not call memberlist.
type answerer interface {
	answer(h hello, from string) (code byte, p reply)
	introduce(kind byte) hello
	welcome(p reply) error
	refused(from string, h *hello, err error)
}

// tagged is the transport that memberlist gets: an inner one whose streams
// begin with an introduction and whose packets name the cluster.
type tagged struct {
	inner   memberlist.NodeAwareTransport
	seals   seals
	who     answerer
	cluster atomic.Pointer[clusterTag] // nil: none yet

	foreign atomic.Uint64 // packets dropped because of their tag

	packets chan *memberlist.Packet
	streams chan net.Conn
	slots   chan struct{}
	done    chan struct{}
	once    sync.Once
	err     error
	wg      sync.WaitGroup
}

var _ memberlist.NodeAwareTransport = (*tagged)(nil)

func newTagged(inner memberlist.Transport, s seals, who answerer) *tagged {
	aware, ok := inner.(memberlist.NodeAwareTransport)
	if !ok {
		aware = byAddress{inner}
	}
	return &tagged{
		inner: aware, seals: s, who: who,
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		slots: make(chan struct{}, maxHandshakes), done: make(chan struct{}),
	}
}

// start begins to take in packets and streams; Shutdown ends it.
func (t *tagged) start() {
	t.wg.Add(2)
	go t.receivePackets()
	go t.receiveStreams()
}

// byAddress makes a transport out of one that does not know names.
type byAddress struct{ memberlist.Transport }

func (b byAddress) WriteToAddress(p []byte, a memberlist.Address) (time.Time, error) {
	return b.WriteTo(p, a.Addr)
}

func (b byAddress) DialAddressTimeout(a memberlist.Address, d time.Duration) (net.Conn, error) {
	return b.DialTimeout(a.Addr, d)
}

func (t *tagged) setCluster(id [16]byte) {
	if id == ([16]byte{}) {
		t.cluster.Store(nil)
		return
	}
	tag := clusterTag(id[:8])
	t.cluster.Store(&tag)
}

func (t *tagged) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	return t.inner.FinalAdvertiseAddr(ip, port)
}

func (t *tagged) WriteTo(b []byte, addr string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: addr})
}

func (t *tagged) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	p := make([]byte, 0, tagSize+len(b))
	p = append(p, tagMagic, tagVsn)
	var tag clusterTag
	if c := t.cluster.Load(); c != nil {
		tag = *c
	}
	p = append(append(p, tag[:]...), b...)
	return t.inner.WriteToAddress(p, a)
}

func (t *tagged) PacketCh() <-chan *memberlist.Packet { return t.packets }
func (t *tagged) StreamCh() <-chan net.Conn           { return t.streams }

// acceptable reports whether a packet's tag is one of ours: agents without a
// cluster yet are heard, and hear all.
func (t *tagged) acceptable(b []byte) bool {
	if len(b) <= tagSize || b[0] != tagMagic || b[1] != tagVsn {
		return false
	}
	theirs := clusterTag(b[2:tagSize])
	ours := t.cluster.Load()
	return ours == nil || theirs == clusterTag{} || theirs == *ours
}

func (t *tagged) receivePackets() {
	defer t.wg.Done()
	for {
		select {
		case p := <-t.inner.PacketCh():
			if !t.acceptable(p.Buf) {
				t.foreign.Add(1)
				continue
			}
			p.Buf = p.Buf[tagSize:]
			select {
			case t.packets <- p:
			case <-t.done:
				return
			}
		case <-t.done:
			return
		}
	}
}

func (t *tagged) receiveStreams() {
	defer t.wg.Done()
	for {
		select {
		case conn := <-t.inner.StreamCh():
			select {
			case t.slots <- struct{}{}:
			default:
				conn.Close()
				continue
			}
			t.wg.Add(1)
			go func() {
				defer t.wg.Done()
				defer func() { <-t.slots }()
				t.admit(conn)
			}()
		case <-t.done:
			return
		}
	}
}

// admit reads an introduction, answers it, and hands the stream on when it is
// memberlist's.
func (t *tagged) admit(conn net.Conn) {
	from := conn.RemoteAddr().String()
	conn.SetDeadline(time.Now().Add(dialTimeout))
	stop := closeWhen(t.done, conn)
	defer stop()
	code, sealed, h, err := t.readHello(conn)
	if err == nil {
		var p reply
		code, p = t.who.answer(h, from)
		err = replyError(flip(code))
		if werr := t.seals.writeFrame(conn, code, sealed, p.encode()); werr != nil {
			conn.Close()
			return
		}
	} else if code != replyOK {
		// The other side may not be able to open what is sealed.
		t.seals.writeFrame(conn, code, false, reply{}.encode())
	}
	if err != nil {
		conn.Close()
		if !errors.Is(err, errNoEntry) && !errors.Is(err, errSelf) {
			t.who.refused(from, &h, err)
		}
		return
	}
	if h.kind != helloGossip {
		conn.Close()
		return
	}
	conn.SetDeadline(time.Time{})
	select {
	case t.streams <- conn:
	case <-t.done:
		conn.Close()
	}
}

// flip turns the code of an answer into the one that makes the right error for
// the side that gave it.
func flip(code byte) byte {
	switch code {
	case replyWeEncrypt:
		return replyTheyEncrypt
	case replyTheyEncrypt:
		return replyWeEncrypt
	}
	return code
}

func (t *tagged) readHello(conn net.Conn) (code byte, sealed bool, h hello, err error) {
	f, err := readFrame(conn, maxHello)
	switch {
	case errors.Is(err, ErrUnknownDialect) || errors.Is(err, errMalformed):
		return replyDialect, false, h, ErrUnknownDialect
	case err != nil:
		return replyOK, false, h, fmt.Errorf("no introduction: %w", err)
	case f.sealed && !t.seals.on():
		return replyTheyEncrypt, false, h, ErrTheyEncrypt
	case !f.sealed && t.seals.on():
		return replyWeEncrypt, false, h, ErrWeEncrypt
	}
	body, err := t.seals.open(f)
	if err != nil {
		return replyKeys, false, h, err
	}
	if h, err = decodeHello(f.kind, body); err != nil {
		return replyDialect, false, h, ErrUnknownDialect
	}
	return replyOK, f.sealed, h, nil
}

// closeWhen closes conn when done is closed, until the returned function is
// called.
func closeWhen(done <-chan struct{}, conn net.Conn) (stop func()) {
	finished := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-done:
			conn.Close()
		case <-finished:
		}
	}()
	return func() { close(finished); <-ended }
}

func (t *tagged) DialTimeout(addr string, d time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, d)
}

// DialAddressTimeout opens a stream for memberlist.
func (t *tagged) DialAddressTimeout(a memberlist.Address, d time.Duration) (net.Conn, error) {
	deadline := time.Now().Add(d)
	conn, err := t.inner.DialAddressTimeout(a, d)
	if err != nil {
		return nil, err
	}
	if _, err := t.greet(conn, t.who.introduce(helloGossip), deadline, maxHello); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", a.Addr, err)
	}
	conn.SetDeadline(time.Time{})
	return conn, nil
}

// ask introduces this agent and returns the answer.
func (t *tagged) ask(ctx context.Context, addr netip.AddrPort, h hello) (reply, error) {
	deadline := time.Now().Add(dialTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := ctx.Err(); err != nil {
		return reply{}, err
	}
	conn, err := t.inner.DialAddressTimeout(memberlist.Address{Addr: addr.String()}, time.Until(deadline))
	if err != nil {
		return reply{}, err
	}
	defer conn.Close()
	stop := closeWhen(ctx.Done(), conn)
	defer stop()
	return t.greet(conn, h, deadline, maxReply)
}

func (t *tagged) greet(conn net.Conn, h hello, deadline time.Time, limit uint32) (reply, error) {
	conn.SetDeadline(deadline)
	body, err := h.encode()
	if err != nil {
		return reply{}, err
	}
	if err := t.seals.writeFrame(conn, h.kind, t.seals.on(), body); err != nil {
		return reply{}, fmt.Errorf("introduce: %w", err)
	}
	f, err := readFrame(conn, limit)
	if err != nil {
		return reply{}, fmt.Errorf("read answer: %w", err)
	}
	plain, err := t.seals.open(f)
	if err != nil {
		return reply{}, err
	}
	p, err := decodeReply(plain)
	if err != nil {
		return reply{}, errBadAnswer
	}
	if t.seals.on() && !f.sealed {
		// Only a reason not to go on may come in the clear: it can do no
		// more than a closed connection could.
		p = reply{}
		if f.kind == replyOK {
			return p, errBadAnswer
		}
	}
	if err := replyError(f.kind); err != nil {
		if p.detail != "" {
			err = fmt.Errorf("%w: %s", err, p.detail)
		}
		return p, err
	}
	return p, t.who.welcome(p)
}

// Shutdown closes the inner transport, and returns when no goroutine of this
// one is left. The inner one may wait for its streams to be taken, so they are
// taken until it has ended.
func (t *tagged) Shutdown() error {
	t.once.Do(func() {
		t.err = t.inner.Shutdown()
		close(t.done)
		t.wg.Wait()
	})
	return t.err
}
