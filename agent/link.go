package agent

import (
	"slices"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/wire"
)

// The kinds of message between agents. They are part of the protocol.
const (
	kindReplication byte = 1
	kindControl     byte = 2
	kindRelayed     byte = 3 // a control message by way of another member
)

// link carries the session engine's messages. Its methods are called with the
// engine's lock held.
type link struct {
	transport *wire.Transport
	control   *control
	dirty     []outlet
}

// outlet is one lane of one peer with something buffered.
type outlet struct {
	to   wire.Peer
	lane wire.Lane
}

// Send implements replicate.Link. A message that the transport drops is sent
// again by the core's timers; the transport counts them.
func (l *link) Send(to *ring.Member, bulk bool, payload []byte) {
	o := outlet{wire.Peer{ID: to.ID, Boot: to.Boot, Addr: to.Addr}, wire.Foreground}
	if bulk {
		o.lane = wire.Bulk
	}
	if l.transport.SendBuffered(o.to, o.lane, kindReplication, payload) == nil && !slices.Contains(l.dirty, o) {
		l.dirty = append(l.dirty, o)
	}
}

// Flush implements replicate.Link.
func (l *link) Flush() {
	for _, o := range l.dirty {
		l.transport.Flush(o.to, o.lane)
	}
	l.dirty = l.dirty[:0]
}

// ToLeader implements replicate.Link.
func (l *link) ToLeader(m ring.Message) { l.control.toLeader(m) }
