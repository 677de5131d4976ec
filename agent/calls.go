package agent

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/rondel-project/rondel/agent/consensus"
	"github.com/rondel-project/rondel/agent/leader"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/replicate"
	"github.com/rondel-project/rondel/agent/wire"
)

// The methods that agents call on each other. They are part of the protocol.
const (
	callProbe byte = iota + 1
	callAsk
	callBootstrap
	callList
	callIndex
	callWish
	callProof
	callBundle
	callTold
)

// opinionWait is how long a member tries to reach another for the leader.
const opinionWait = 400 * time.Millisecond

// calls is the control plane between agents: questions with an answer.
type calls struct {
	transport *wire.Transport
	roster    *roster
	boot      member.Boot
}

// probeTarget is who another agent shall try to reach.
type probeTarget struct {
	ID   member.ID
	Boot []byte
	Addr string
}

func (c *calls) handle(raft *consensus.Node, bootstrap *consensus.Bootstrap, engine *replicate.Engine) {
	c.transport.HandleCall(callProbe, func(context.Context, wire.Hello, []byte) ([]byte, error) {
		return c.boot[:], nil
	})
	c.transport.HandleCall(callAsk, func(ctx context.Context, _ wire.Hello, body []byte) ([]byte, error) {
		var t probeTarget
		if err := json.Unmarshal(body, &t); err != nil || len(t.Boot) != len(member.Boot{}) {
			return nil, &wire.CodedError{Code: "malformed", Message: "not a probe's target"}
		}
		// The answer has to be back before the asker's patience is over.
		ctx, cancel := context.WithTimeout(ctx, opinionWait)
		defer cancel()
		return []byte{byte(c.reach(ctx, t.Addr, member.Boot(t.Boot)))}, nil
	})
	c.transport.HandleCall(callBootstrap, func(context.Context, wire.Hello, []byte) ([]byte, error) {
		return json.Marshal(bootstrap.State())
	})
	c.transport.HandleCall(callIndex, func(context.Context, wire.Hello, []byte) ([]byte, error) {
		return binary.BigEndian.AppendUint64(nil, raft.AppliedIndex()), nil
	})
	c.transport.HandleCall(callList, func(_ context.Context, _ wire.Hello, body []byte) ([]byte, error) {
		var f replicate.Filter
		if err := json.Unmarshal(body, &f); err != nil {
			return nil, &wire.CodedError{Code: "malformed", Message: "not a filter of sessions"}
		}
		return json.Marshal(engine.Owned(f))
	})
}

// reach tries to reach one run of a member.
func (c *calls) reach(ctx context.Context, addr string, boot member.Boot) leader.Reach {
	b, err := c.transport.Call(ctx, addr, callProbe, nil)
	switch {
	case err == nil && string(b) == string(boot[:]):
		return leader.Reached
	case err == nil, errors.Is(err, syscall.ECONNREFUSED):
		return leader.RefusedThere // nobody listens, or another run does: that one has ended
	}
	return leader.Unreached
}

// Probe implements leader.Prober.
func (c *calls) Probe(ctx context.Context, who leader.Peer) leader.Reach {
	addr := c.addr(who)
	if addr == "" {
		return leader.Unreached
	}
	return c.reach(ctx, addr, who.Boot)
}

// Ask implements leader.Prober.
func (c *calls) Ask(ctx context.Context, via, who leader.Peer) leader.Reach {
	body, err := json.Marshal(probeTarget{who.ID, who.Boot[:], c.addr(who)})
	if err != nil {
		return leader.NoAnswer
	}
	b, err := c.transport.Call(ctx, c.addr(via), callAsk, body)
	if err != nil || len(b) != 1 {
		return leader.NoAnswer
	}
	return leader.Reach(b[0])
}

func (c *calls) addr(p leader.Peer) string {
	if p.Addr != "" {
		return p.Addr
	}
	peer, _ := c.roster.peer(p.ID)
	return peer.Addr
}

// askBootstrap asks a member whether it may be part of a new cluster.
func (c *calls) askBootstrap(ctx context.Context, s consensus.Starter) (st consensus.State, err error) {
	b, err := c.transport.Call(ctx, s.Addr, callBootstrap, nil)
	if err != nil {
		return st, fmt.Errorf("ask %s for its raft state: %w", s.Addr, err)
	}
	if err := json.Unmarshal(b, &st); err != nil {
		return st, fmt.Errorf("raft state of %s: %w", s.Addr, err)
	}
	return st, nil
}

// index asks a member how much of the Raft log it has applied.
func (c *calls) index(ctx context.Context, id member.ID) (uint64, error) {
	p, ok := c.roster.peer(id)
	if !ok {
		return 0, fmt.Errorf("raft index of %s: %w", id, wire.ErrUnreachable)
	}
	b, err := c.transport.Call(ctx, p.Addr, callIndex, nil)
	if err != nil {
		return 0, fmt.Errorf("raft index of %s: %w", id, err)
	}
	if len(b) != 8 {
		return 0, fmt.Errorf("raft index of %s: %d bytes", id, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

// list asks a member for the sessions that it serves.
func (c *calls) list(ctx context.Context, addr string, f replicate.Filter) (out []replicate.Summary, err error) {
	body, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	b, err := c.transport.Call(ctx, addr, callList, body)
	if err != nil {
		return nil, err
	}
	return out, json.Unmarshal(b, &out)
}
