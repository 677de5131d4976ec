package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rondel-project/rondel/agent/httpapi"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

const (
	stopWait  = 10 * time.Second // until others serve this member's slots
	leaveWait = 60 * time.Second // without any progress
	forceWait = 15 * time.Second // the same, where it shall leave all the same
	askAgain  = 100 * time.Millisecond
)

// Shutdown finishes requests, hands this member's sessions over and ends Run,
// within ctx. The member will come back; with leave it is gone for good.
func (a *Agent) Shutdown(ctx context.Context, leave bool) error {
	if leave {
		if err := a.Leave(ctx, true); err != nil {
			return err
		}
	}
	a.end()
	select {
	case <-a.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop the agent: %w", ctx.Err())
	}
}

func (a *Agent) end() { a.endOnce.Do(func() { close(a.ending) }) }

// handOver has others take this member's slots before it stops.
func (a *Agent) handOver(ctx context.Context) {
	if a.gone.Load() || a.alone() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	a.stepDown(ctx)
	if err := a.askToStop(ctx, false, stopWait); err != nil {
		a.log.Warn("stopping before others serve all of this member's slots", "error", err)
	}
}

// alone reports whether no other member could take anything over.
func (a *Agent) alone() bool {
	v := a.engine.View()
	if v.Self.Num == 0 {
		return true
	}
	for i := range v.Table.Members {
		m := &v.Table.Members[i]
		if known, ok := a.roster.member(m.ID); m.Num != v.Self.Num && !m.Witness && ok && known.Here() {
			return false
		}
	}
	return true
}

// stepDown gives leadership away, so that the others need no election.
func (a *Agent) stepDown(ctx context.Context) {
	if !a.raft.Leading() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	list, _, _, err := a.raft.Servers(ctx)
	if err != nil || !otherVoter(list, a.id.id, a.roster) {
		return
	}
	if err := a.raft.TransferLeadership(ctx, ""); err != nil {
		a.log.Warn("leadership not handed over", "error", err)
	}
}

// errStuck means that nothing was handed over for a while.
var errStuck = errors.New("nothing was handed over for a while")

// askToStop asks the leader, again and again, to give this member's slots to
// others, until none needs it any more. It gives up when for the time of stuck
// none was.
func (a *Agent) askToStop(ctx context.Context, leave bool, stuck time.Duration) error {
	t := time.NewTicker(askAgain)
	defer t.Stop()
	var free time.Time // since when it owns nothing
	least, since := 2*ring.Slots, time.Now()
	ending := a.ending
	if !leave {
		ending = nil // that is why it is asked
	}
	for {
		v := a.engine.View()
		owned, held := needed(v.Table, a.id.id)
		if owned+held < least {
			least, since = owned+held, time.Now()
		}
		if owned == 0 && free.IsZero() {
			free = time.Now()
		}
		gone := v.Table.ByID(a.id.id) == nil
		switch {
		case leave && gone:
			return nil
		case !leave && owned == 0 && a.engine.Figures().Unsettled == 0 && (held == 0 || time.Since(free) > 2*time.Second):
			return nil
		}
		if v.Self.Num != 0 {
			a.control.toLeader(&ring.Stop{From: v.Self, Leave: leave})
		}
		err := ctx.Err()
		if time.Since(since) > stuck {
			err = errStuck
		}
		if err != nil {
			return fmt.Errorf("%d slots are still owned here, %d have a copy here that counts: %w", owned, held, err)
		}
		select {
		case <-ctx.Done():
		case <-ending:
			return errors.New("the agent is being stopped")
		case <-t.C:
		}
	}
}

// needed counts the slots that a member owns, and those in which its copy
// counts.
func needed(t *ring.Table, id member.ID) (owned, held int) {
	m := t.ByID(id)
	if m == nil {
		return 0, 0
	}
	for h := range t.Slots {
		s := &t.Slots[h]
		if s.Owner == m.Num {
			owned++
		}
		if s.InSyncHas(m.Holder()) {
			held++
		}
	}
	return owned, held
}

// Leave hands everything over and takes this member out of the cluster for
// good. It refuses where the voters that stay could not decide anything any
// more, unless forced; forced it also leaves when not everything could be handed
// over. Run ends after it.
func (a *Agent) Leave(ctx context.Context, force bool) error {
	if !force {
		if err := a.mayLeave(ctx); err != nil {
			return err
		}
	}
	if !a.leaving.CompareAndSwap(false, true) && !force {
		return as(httpapi.ErrConflict, errors.New("this agent is leaving already; `rondel ring` shows how far it is, -force ends it with what is left"))
	}
	a.log.Info("leaving the cluster", "force", force)
	a.services.withdraw()
	a.gossip.UpdateMeta(func(m *member.Meta) { m.Leaving = true })
	if !a.alone() {
		a.stepDown(ctx)
		stuck := leaveWait
		if force {
			stuck = forceWait
		}
		if err := a.askToStop(ctx, true, stuck); err != nil && !force {
			return as(httpapi.ErrUnavailable, fmt.Errorf("not everything could be handed over, this member stays: %w; with -force it leaves all the same", a.stay(err)))
		}
		a.awaitRemoval(ctx)
	}
	told, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	if err := a.gossip.Leave(told); err != nil {
		a.log.Warn("not all members may know that this one has left", "error", err)
	}
	a.gone.Store(true)
	a.log.Info("left the cluster")
	a.end()
	return nil
}

// stay takes back that this member leaves, and returns why it did, with what
// stands in the way of that.
func (a *Agent) stay(why error) error {
	ctx, cancel := context.WithTimeout(context.Background(), wishWait)
	defer cancel()
	select { // until what asked the leader to let it go has arrived
	case <-time.After(5 * askAgain):
	case <-a.ending:
		return why
	}
	self := a.engine.View().Self
	_, err := a.wish(ctx, wish{Kind: "stay", Num: self.Num, Boot: self.Boot, repeated: true})
	if err != nil {
		err = fmt.Errorf("the table still has this member as leaving: %w", err)
	}
	a.leaving.Store(false)
	a.services.restore()
	a.gossip.UpdateMeta(func(m *member.Meta) { m.Leaving = false })
	return errors.Join(why, err)
}

// awaitRemoval waits until Raft does not count on this server any more.
func (a *Agent) awaitRemoval(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	t := time.NewTicker(askAgain)
	defer t.Stop()
	for {
		list, _, _, err := a.raft.Servers(ctx)
		if err != nil || !listed(list, a.id.id) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// forget removes the identity of a member that has left: its id must not be
// used again.
func (a *Agent) forget() error {
	if !a.gone.Load() || a.id.dir == "" {
		return nil
	}
	var errs []error
	for _, name := range []string{idFile, clusterFile, tableFile, "raft", sessionsDir} {
		errs = append(errs, os.RemoveAll(a.id.path(name)))
	}
	return errors.Join(errs...)
}
