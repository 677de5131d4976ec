package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

// Servers is the Raft configuration. Its methods return when their context is
// done.
type Servers interface {
	Servers(context.Context) ([]Server, error)
	AddNonvoter(ctx context.Context, id member.ID, addr string) error
	AddVoter(ctx context.Context, id member.ID, addr string) error
	DemoteVoter(ctx context.Context, id member.ID) error
	RemoveServer(ctx context.Context, id member.ID) error
	TransferLeadership(ctx context.Context) error
	// CaughtUp reports whether a server has nearly all of this one's log.
	CaughtUp(ctx context.Context, id member.ID) bool
}

const (
	tendEvery  = time.Second
	stepWait   = 5 * time.Second
	readyAfter = 5 * time.Second // of following closely, before a server gets a vote
)

// tendServers makes the Raft configuration follow the table, one change at a
// time.
func (t *term) tendServers(ctx context.Context) {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	ready := make(map[member.ID]time.Duration) // since when it follows closely
	var failed string
	var told time.Duration
	for {
		err := t.tendOnce(ctx, ready)
		if ctx.Err() != nil {
			return
		}
		switch now := t.cfg.Now(); {
		case err == nil:
			failed = ""
		case err.Error() != failed || now-told >= noticeEvery:
			failed, told = err.Error(), now
			t.log.Warn("raft configuration left as it is", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (t *term) tendOnce(ctx context.Context, ready map[member.ID]time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, stepWait)
	defer cancel()
	table, _ := t.cfg.Raft.Watch()
	if len(table.Members) == 0 {
		return nil
	}
	servers, err := t.cfg.Servers.Servers(ctx)
	if err != nil {
		return err
	}
	view, _ := t.cfg.Gossip.Watch()
	alive := make(map[member.ID]bool, len(view))
	for _, s := range view {
		alive[s.ID] = s.Status == member.Alive
	}
	now := t.cfg.Now()
	for _, s := range servers {
		if s.Voter || !alive[s.ID] || !t.cfg.Servers.CaughtUp(ctx, s.ID) {
			delete(ready, s.ID)
		} else if _, ok := ready[s.ID]; !ok {
			ready[s.ID] = now
		}
	}
	step, ok := NextStep(Electorate{
		Self: t.cfg.Self, Table: table, Servers: servers,
		Alive: func(id member.ID) bool { return alive[id] },
		Ready: func(id member.ID) bool { at, ok := ready[id]; return ok && now-at >= readyAfter },
	})
	if !ok {
		return nil
	}
	return t.doStep(ctx, step)
}

func (t *term) doStep(ctx context.Context, step Step) (err error) {
	s := step.Server
	what := ""
	switch step.Kind {
	case StepReaddress:
		what = "change the address of"
		if s.Voter {
			err = t.cfg.Servers.AddVoter(ctx, s.ID, s.Addr)
		} else {
			err = t.cfg.Servers.AddNonvoter(ctx, s.ID, s.Addr)
		}
	case StepAdd:
		what, err = "add", t.cfg.Servers.AddNonvoter(ctx, s.ID, s.Addr)
	case StepPromote:
		what, err = "give a vote to", t.cfg.Servers.AddVoter(ctx, s.ID, s.Addr)
	case StepDemote:
		what, err = "take the vote of", t.cfg.Servers.DemoteVoter(ctx, s.ID)
	case StepRemove:
		what, err = "remove", t.cfg.Servers.RemoveServer(ctx, s.ID)
	case StepTransfer:
		what, err = "hand over from", t.cfg.Servers.TransferLeadership(ctx)
	default:
		return errors.New("unknown step")
	}
	if err != nil {
		return fmt.Errorf("%s raft server %s: %w", what, s.ID, err)
	}
	t.log.Info("raft configuration changed", "step", what, "member", s.ID)
	return nil
}
