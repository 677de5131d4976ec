package agent

import (
	"context"
	"time"

	"github.com/rondel-project/rondel/agent/consensus"
	"github.com/rondel-project/rondel/agent/leader"
	"github.com/rondel-project/rondel/agent/member"
)

// raftServers is the Raft configuration as the leader's work changes it.
type raftServers struct {
	*consensus.Node
	calls *calls
}

// caughtUp is how many entries a follower may lack.
const caughtUp = 100

// Servers implements leader.Servers.
func (r raftServers) Servers(ctx context.Context) ([]leader.Server, error) {
	list, _, _, err := r.Node.Servers(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]leader.Server, 0, len(list))
	for _, s := range list {
		out = append(out, leader.Server{ID: s.ID, Addr: s.Addr, Voter: s.Voter})
	}
	return out, nil
}

// TransferLeadership implements leader.Servers.
func (r raftServers) TransferLeadership(ctx context.Context) error {
	return r.Node.TransferLeadership(ctx, "")
}

// CaughtUp implements leader.Servers.
func (r raftServers) CaughtUp(ctx context.Context, id member.ID) bool {
	has, err := r.calls.index(ctx, id)
	return err == nil && has+caughtUp >= r.Node.LastIndex()
}

// watchVote keeps whether this member votes.
func (a *Agent) watchVote(ctx context.Context) error {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		list, _, _, err := a.raft.Servers(ctx)
		if err == nil {
			a.votes.Store(votes(list, a.id.id))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

func votes(list []consensus.Server, id member.ID) bool {
	for _, s := range list {
		if s.ID == id {
			return s.Voter
		}
	}
	return false
}
