package agent

import (
	"errors"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/consensus"
	"github.com/rondel-project/rondel/agent/leader"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/replicate"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/wire"
)

// control carries messages between members and the leader, whoever that is, and
// finds out who that is.
type control struct {
	self      member.ID
	log       hclog.Logger
	transport *wire.Transport
	raft      *consensus.Node
	leader    *leader.Leader
	engine    *replicate.Engine
	roster    *roster

	hint atomic.Pointer[member.ID] // who granted last, or whom another member named
	turn atomic.Uint32
}

// leaderID returns the member that leads as far as this agent knows, or "".
// This agent's own Raft server knows best, if it is part of the configuration.
func (c *control) leaderID() member.ID {
	if id := c.raft.Leader(); id != "" {
		return id
	}
	if h := c.hint.Load(); h != nil {
		if m, ok := c.roster.member(*h); ok && m.Here() {
			return *h
		}
	}
	return ""
}

// toLeader sends a message to the leader; without one known, to the members in
// turn, since each answers with whom it knows.
func (c *control) toLeader(m ring.Message) {
	id := c.leaderID()
	if id == "" {
		var here []member.ID
		for _, m := range c.roster.members() {
			if m.Here() {
				here = append(here, m.ID)
			}
		}
		if len(here) == 0 {
			return
		}
		id = here[int(c.turn.Add(1))%len(here)]
	}
	if id == c.self {
		_ = c.leader.Handle(m) // not leading yet, or no longer: its sender's timer brings it again
		return
	}
	c.send(id, m)
}

func (c *control) send(id member.ID, m ring.Message) {
	if to, ok := c.roster.peer(id); ok {
		_ = c.transport.Send(to, wire.Foreground, kindControl, ring.AppendMessage(nil, m)) // lost ones are sent again
	}
}

// Send implements leader.Sender.
func (c *control) Send(to leader.Peer, m ring.Message) {
	if to.ID == c.self {
		c.take(c.self, m)
		return
	}
	peer := wire.Peer{ID: to.ID, Boot: to.Boot, Addr: to.Addr}
	if peer.Addr == "" {
		known, ok := c.roster.peer(to.ID)
		if !ok {
			return
		}
		peer.Addr = known.Addr
	}
	_ = c.transport.Send(peer, wire.Foreground, kindControl, ring.AppendMessage(nil, m)) // lost ones are sent again
}

// receive takes a control message off the wire.
func (c *control) receive(from wire.Hello, payloads [][]byte) {
	for _, p := range payloads {
		c.receiveOne(from, p)
	}
}

func (c *control) receiveOne(from wire.Hello, payload []byte) {
	m, err := ring.DecodeMessage(payload)
	if err != nil {
		c.log.Warn("control message refused", "member", from.Name, "error", err)
		return
	}
	switch m := m.(type) {
	case *ring.Renew, *ring.AddInSync, *ring.Report, *ring.Stop:
		if err := c.leader.Handle(m); errors.Is(err, leader.ErrNotLeader) {
			hint := c.leaderID()
			if hint == c.self || hint == from.ID {
				hint = "" // this agent is about to lead, or does no longer
			}
			c.send(from.ID, &ring.NotLeader{Hint: hint})
		}
	case *ring.NotLeader:
		if m.Hint != "" {
			c.hint.Store(&m.Hint)
		} else if h := c.hint.Load(); h != nil && *h == from.ID {
			c.hint.Store(nil)
		}
	default:
		c.take(from.ID, m)
	}
}

// take hands the engine what the leader sent.
func (c *control) take(from member.ID, m ring.Message) {
	if _, ok := m.(*ring.Grant); ok && from != c.self {
		c.hint.Store(&from)
	}
	c.engine.Control(m)
}
