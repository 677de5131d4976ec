package proxy

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/rondel-project/rondel/agent/proxyproto"
)

// private are the connections to instances that are told by a PROXY protocol
// header whose they are. Each belongs to one client connection, whose address
// and port it names: it carries that one's requests alone and ends with it.
type private struct {
	mu    sync.Mutex // guards the rest
	wires map[*backend]*wires
	left  bool // the client's connection has ended
}

// privates are the same from the side of one instance, which may end first.
type privates struct {
	mu    sync.Mutex // guards the rest; taken while a client's is held, never the other way round
	wires map[*peer]*wires
	gone  bool // the instance was deregistered, or the proxy stops
}

// add reports false where the instance is gone.
func (s *privates) add(p *peer, w *wires) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return false
	}
	if s.wires == nil {
		s.wires = map[*peer]*wires{}
	}
	s.wires[p] = w
	return true
}

func (s *privates) drop(p *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.wires, p)
}

func (s *privates) all() []*wires {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*wires, 0, len(s.wires))
	for _, w := range s.wires {
		list = append(list, w)
	}
	return list
}

// end returns all, for the last time.
func (s *privates) end() map[*peer]*wires {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.wires
	s.wires, s.gone = nil, true
	return all
}

// sweep closes connections that have rested for longer than idle.
func (b *backend) sweep(now time.Time, idle time.Duration) {
	b.wires.sweep(now, idle)
	for _, w := range b.privates.all() {
		w.sweep(now, idle)
	}
}

// close ends the connections, those in use as soon as they are not.
func (b *backend) close() {
	b.wires.close()
	for p, w := range b.privates.end() {
		p.forget(b)
		w.close()
	}
}

// wiresTo returns how the client's requests get to an instance.
func (c *conn) wiresTo(inst *instance) *wires {
	if inst.key.sendProxy == "" {
		return &inst.wires
	}
	return c.peer.wiresTo(inst.backend)
}

// wiresTo makes them at the first request. A request that is late, after the end
// of its client's connection or of the instance, gets some that keep nothing.
func (p *peer) wiresTo(b *backend) *wires {
	o := &p.private
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.wires[b]; w != nil {
		return w
	}
	w := b.newWires(p)
	if o.left || !b.privates.add(p, &w) {
		w.close()
		return &w
	}
	if o.wires == nil {
		o.wires = map[*backend]*wires{}
	}
	o.wires[b] = &w
	return &w
}

func (p *peer) forget(b *backend) {
	p.private.mu.Lock()
	defer p.private.mu.Unlock()
	delete(p.private.wires, b)
}

// leave ends what belongs to a client connection, once that has ended itself.
func (p *peer) leave() {
	p.seat.leave()
	o := &p.private
	o.mu.Lock()
	all := o.wires
	o.wires, o.left = nil, true
	o.mu.Unlock()
	for b, w := range all {
		b.privates.drop(p)
		w.close()
	}
}

// reach makes a TCP connection to the instance, which begins with the header
// that it wants: ahead of TLS, where it speaks that. Without a client it is this
// proxy that connects. It BLOCKS.
func (b *backend) reach(client *peer, within time.Duration) (net.Conn, error) {
	nc, err := net.DialTimeout("tcp", b.key.addr, within)
	if err != nil || b.key.sendProxy == "" {
		return nc, err
	}
	version := proxyproto.V1
	if b.key.sendProxy == "v2" {
		version = proxyproto.V2
	}
	h := proxyproto.Header{Local: true}
	if client != nil {
		h = proxyproto.Header{Source: client.addr, Destination: client.local}
	}
	nc.SetWriteDeadline(time.Now().Add(within)) // fails on a closed connection, as the write will
	if _, err := nc.Write(version.Append(nil, h)); err != nil {
		nc.Close()
		return nil, fmt.Errorf("send the PROXY protocol header: %w", err)
	}
	nc.SetWriteDeadline(time.Time{})
	return nc, nil
}
