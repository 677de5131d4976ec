package consensus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

// Leader returns who leads as far as this server knows, or "".
func (n *Node) Leader() member.ID {
	r := n.raft.Load()
	if r == nil {
		return ""
	}
	_, id := r.LeaderWithID()
	return member.ID(id)
}

// Leading reports whether this server leads, as far as it knows.
func (n *Node) Leading() bool {
	r := n.raft.Load()
	return r != nil && r.State() == raft.Leader
}

// LastContact returns when the leader was last heard from; zero on the leader
// itself and where there never was one.
func (n *Node) LastContact() time.Time {
	if r := n.raft.Load(); r != nil && r.State() != raft.Leader {
		return r.LastContact()
	}
	return time.Time{}
}

// Stats returns Raft's own figures, for people to read.
func (n *Node) Stats() map[string]string {
	r := n.raft.Load()
	if r == nil {
		return map[string]string{"state": "Stopped"}
	}
	s := r.Stats()
	s["epoch"] = strconv.FormatUint(uint64(n.Table().Epoch), 10)
	return s
}

// AppliedIndex returns the last entry that this server has applied.
func (n *Node) AppliedIndex() uint64 {
	if r := n.raft.Load(); r != nil {
		return r.AppliedIndex()
	}
	return 0
}

// LastIndex returns the last entry in this server's log.
func (n *Node) LastIndex() uint64 {
	if r := n.raft.Load(); r != nil {
		return r.LastIndex()
	}
	return 0
}

// Propose hands a change to the log and returns the table that it made. A
// change planned from another table returns ErrStale and the present table;
// ErrUnknownOutcome means that it may yet be committed.
func (n *Node) Propose(ctx context.Context, c *ring.Change) (*ring.Table, error) {
	r := n.raft.Load()
	if r == nil {
		return nil, ErrNotRunning
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("propose: %w", err) // nothing was handed over
	}
	var f raft.ApplyFuture
	cmd := ring.AppendChange([]byte{cmdChange}, c)
	if err := n.await(ctx, func() raft.Future { f = r.Apply(cmd, n.cfg.Timings.Enqueue); return f }); err != nil {
		if errors.Is(err, raft.ErrNotLeader) || errors.Is(err, raft.ErrEnqueueTimeout) ||
			errors.Is(err, raft.ErrLeadershipTransferInProgress) {
			return nil, fmt.Errorf("propose: %w: %w", err, ErrNotLeader)
		}
		return nil, fmt.Errorf("propose: %w: %w", err, ErrUnknownOutcome)
	}
	a, ok := f.Response().(applied)
	if !ok {
		return nil, fmt.Errorf("propose: answer %T: %w", f.Response(), ErrUnknownOutcome)
	}
	if a.err != nil {
		return a.table, fmt.Errorf("propose: %w", a.err)
	}
	return a.table, nil
}

// Verify returns nil when a quorum confirmed, in a round started after the
// call, that this server leads.
func (n *Node) Verify(ctx context.Context) error {
	r := n.raft.Load()
	if r == nil {
		return ErrNotRunning
	}
	if err := n.await(ctx, r.VerifyLeader); err != nil {
		return fmt.Errorf("verify leadership: %w: %w", err, ErrNotLeader)
	}
	return nil
}

// Barrier returns nil when all entries before the call are applied here.
func (n *Node) Barrier(ctx context.Context) error {
	r := n.raft.Load()
	if r == nil {
		return ErrNotRunning
	}
	if err := n.await(ctx, func() raft.Future { return r.Barrier(0) }); err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	return nil
}

// Servers returns the Raft configuration as this server has it, which may be
// one that is not committed yet; index is the entry that made it. It works
// without a leader. stale says that no leader vouches for it now.
func (n *Node) Servers(ctx context.Context) (list []Server, index uint64, stale bool, err error) {
	r := n.raft.Load()
	if r == nil {
		return nil, 0, true, ErrNotRunning
	}
	var f raft.ConfigurationFuture
	if err := n.await(ctx, func() raft.Future { f = r.GetConfiguration(); return f }); err != nil {
		return nil, 0, true, fmt.Errorf("raft configuration: %w", err)
	}
	for _, s := range f.Configuration().Servers {
		list = append(list, Server{ID: member.ID(s.ID), Addr: string(s.Address), Voter: s.Suffrage == raft.Voter})
	}
	return list, f.Index(), n.Leader() == "", nil
}

// AddNonvoter adds a server that follows without a vote, or gives one that is
// there a new address.
func (n *Node) AddNonvoter(ctx context.Context, id member.ID, addr string) error {
	return n.configure(ctx, "add nonvoter", func(r *raft.Raft, index uint64) raft.Future {
		return r.AddNonvoter(raft.ServerID(id), raft.ServerAddress(addr), index, n.cfg.Timings.Enqueue)
	})
}

// AddVoter gives a server a vote, or a voter a new address. A server that has
// not caught up must not get one: until it has, it counts for the quorum and
// answers nothing.
func (n *Node) AddVoter(ctx context.Context, id member.ID, addr string) error {
	return n.configure(ctx, "add voter", func(r *raft.Raft, index uint64) raft.Future {
		return r.AddVoter(raft.ServerID(id), raft.ServerAddress(addr), index, n.cfg.Timings.Enqueue)
	})
}

// DemoteVoter takes a server's vote; it goes on following.
func (n *Node) DemoteVoter(ctx context.Context, id member.ID) error {
	return n.configure(ctx, "demote voter", func(r *raft.Raft, index uint64) raft.Future {
		return r.DemoteVoter(raft.ServerID(id), index, n.cfg.Timings.Enqueue)
	})
}

// RemoveServer takes a server out of the configuration. Its id must not come
// back with an empty disk.
func (n *Node) RemoveServer(ctx context.Context, id member.ID) error {
	return n.configure(ctx, "remove server", func(r *raft.Raft, index uint64) raft.Future {
		return r.RemoveServer(raft.ServerID(id), index, n.cfg.Timings.Enqueue)
	})
}

// configure makes one change of the configuration, on top of the one that is
// there and no other.
func (n *Node) configure(ctx context.Context, what string, do func(*raft.Raft, uint64) raft.Future) error {
	r := n.raft.Load()
	if r == nil {
		return ErrNotRunning
	}
	_, index, _, err := n.Servers(ctx)
	if err == nil {
		err = n.await(ctx, func() raft.Future { return do(r, index) })
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// TransferLeadership hands leadership to the server that is furthest, or to the
// one named. It tries three times.
func (n *Node) TransferLeadership(ctx context.Context, to member.ID) error {
	r := n.raft.Load()
	if r == nil {
		return ErrNotRunning
	}
	if r.State() != raft.Leader {
		return ErrNotLeader
	}
	var err error
	for range 3 {
		f := r.LeadershipTransfer
		if to != "" {
			servers, _, _, lookup := n.Servers(ctx)
			if lookup != nil {
				return lookup
			}
			addr := ""
			for _, s := range servers {
				if s.ID == to {
					addr = s.Addr
				}
			}
			if addr == "" {
				return fmt.Errorf("transfer leadership: %s is not in the raft configuration", to)
			}
			f = func() raft.Future {
				return r.LeadershipTransferToServer(raft.ServerID(to), raft.ServerAddress(addr))
			}
		}
		if err = n.await(ctx, f); err == nil || ctx.Err() != nil {
			break
		}
		if r.State() != raft.Leader {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("transfer leadership: %w", err)
	}
	return nil
}

// await asks and waits no longer than ctx lasts. Raft's own futures know no time
// limit, and some block even before they are one; the goroutine that waits ends
// at the latest when Raft does.
func (n *Node) await(ctx context.Context, ask func() raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- ask().Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
