package agent

import (
	"github.com/rondel-project/rondel/agent/member"
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
	outlets   map[lane]*outlet
	dirty     []*outlet
}

// lane is one of the two by which a member gets messages.
type lane struct {
	num  member.Number
	bulk bool
}

// outlet is the way to one run of a member by one lane.
type outlet struct {
	*wire.Outlet
	to    wire.Peer
	dirty bool // something is buffered
}

// Send implements replicate.Link. A message that the transport drops is sent
// again by the core's timers; the transport counts them.
func (l *link) Send(to *ring.Member, bulk bool, payload []byte) {
	o := l.outlet(to, bulk)
	if o.Send(kindReplication, payload) == nil && !o.dirty {
		o.dirty = true
		l.dirty = append(l.dirty, o)
	}
}

// maxOutlets is beyond what a cluster has, so that members that are gone for
// good are forgotten some day.
const maxOutlets = 4096

func (l *link) outlet(to *ring.Member, bulk bool) *outlet {
	key := lane{to.Num, bulk}
	peer := wire.Peer{ID: to.ID, Boot: to.Boot, Addr: to.Addr}
	o := l.outlets[key]
	if o != nil && o.to == peer {
		return o
	}
	by := wire.Foreground
	if bulk {
		by = wire.Bulk
	}
	if l.outlets == nil || len(l.outlets) >= maxOutlets {
		l.outlets = map[lane]*outlet{}
	}
	o = &outlet{Outlet: l.transport.Outlet(peer, by), to: peer}
	l.outlets[key] = o
	return o
}

// Flush implements replicate.Link.
func (l *link) Flush() {
	for i, o := range l.dirty {
		o.Flush()
		o.dirty, l.dirty[i] = false, nil
	}
	l.dirty = l.dirty[:0]
}

// ToLeader implements replicate.Link.
func (l *link) ToLeader(m ring.Message) { l.control.toLeader(m) }
