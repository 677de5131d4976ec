package agent

import (
	"errors"
	"sync/atomic"
	"time"

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
	ways ways
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
	_, renew := m.(*ring.Renew)
	straight, via := c.ways.out(time.Now(), id, renew, c.others(id))
	if straight {
		c.send(id, m)
	}
	if via != "" {
		c.sendVia(via, id, m)
	}
}

// others returns who may pass on messages for a member.
func (c *control) others(to member.ID) (list []member.ID) {
	for _, m := range c.roster.members() {
		if m.Here() && m.ID != c.self && m.ID != to {
			list = append(list, m.ID)
		}
	}
	return list
}

func (c *control) send(id member.ID, m ring.Message) {
	if to, ok := c.roster.peer(id); ok {
		_ = c.transport.Send(to, wire.Foreground, kindControl, ring.AppendMessage(nil, m)) // lost ones are sent again
	}
}

func (c *control) sendVia(via, id member.ID, m ring.Message) {
	c.pass(via, appendRelayed(nil, c.self, id, ring.AppendMessage(nil, m)))
}

// pass hands on a relayed message.
func (c *control) pass(to member.ID, relayed []byte) {
	if p, ok := c.roster.peer(to); ok {
		_ = c.transport.Send(p, wire.Foreground, kindRelayed, relayed) // lost ones are sent again
	}
}

// Send implements leader.Sender.
func (c *control) Send(to leader.Peer, m ring.Message) {
	if to.ID == c.self {
		c.take(c.self, "", m)
		return
	}
	if via := c.ways.back(time.Now(), to.ID); via != "" {
		c.sendVia(via, to.ID, m)
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
		c.receiveBy(from.ID, "", p)
	}
}

// receiveRelayed takes control messages that came through another member, or are
// to go through this one.
func (c *control) receiveRelayed(hello wire.Hello, payloads [][]byte) {
	for _, b := range payloads {
		from, to, payload, err := decodeRelayed(b)
		switch {
		case err != nil:
			c.log.Warn("control message refused", "member", hello.Name, "error", err)
		case to == c.self:
			c.receiveBy(from, hello.ID, payload)
		case from == hello.ID: // once only
			c.pass(to, b)
		}
	}
}

func (c *control) receiveBy(from, via member.ID, payload []byte) {
	m, err := ring.DecodeMessage(payload)
	if err != nil {
		sender, _ := c.roster.member(from)
		c.log.Warn("control message refused", "member", sender.Name, "error", err)
		return
	}
	switch m := m.(type) {
	case *ring.Renew, *ring.AddInSync, *ring.Report, *ring.Stop:
		if _, renew := m.(*ring.Renew); renew {
			c.ways.came(time.Now(), from, via)
		}
		if err := c.leader.Handle(m); errors.Is(err, leader.ErrNotLeader) {
			hint := c.leaderID()
			if hint == c.self || hint == from {
				hint = "" // this agent is about to lead, or does no longer
			}
			if no := (&ring.NotLeader{Hint: hint}); via == "" {
				c.send(from, no)
			} else {
				c.sendVia(via, from, no)
			}
		}
	case *ring.NotLeader:
		if m.Hint != "" {
			c.hint.Store(&m.Hint)
		} else if h := c.hint.Load(); h != nil && *h == from {
			c.hint.Store(nil)
		}
	default:
		c.take(from, via, m)
	}
}

// take hands the engine what the leader sent.
func (c *control) take(from, via member.ID, m ring.Message) {
	if _, ok := m.(*ring.Grant); ok && from != c.self {
		c.hint.Store(&from)
		c.ways.answered(time.Now(), via == "")
	}
	c.engine.Control(m)
}
