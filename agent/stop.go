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

	// finishWait is more than any request about a session takes.
	finishWait = 5 * time.Second
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
	if a.gone.Load() {
		return
	}
	peers := newLookout()
	if a.alone() {
		a.sayLast(peers)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	a.stepDown(ctx)
	switch err := a.askToStop(ctx, stopWait, peers); {
	case errors.Is(err, errLast):
		a.sayLast(peers)
	case err != nil:
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

var (
	// errStuck means that nothing was handed over for a while.
	errStuck = errors.New("nothing was handed over for a while")
	// errLast means that all others are stopping, too, or were gone before.
	errLast = errors.New("no other member stays")
)

// askToStop asks the leader, again and again, to give this member's slots to
// others, until none needs it any more. It gives up when for the time of stuck
// none was, and with errLast when nobody stays.
func (a *Agent) askToStop(ctx context.Context, stuck time.Duration, peers *lookout) error {
	var free, last time.Time // since when it owns nothing, and nobody stays
	err := a.ask(ctx, stuck, nil, func(self ring.Holder, n need) (*ring.Stop, bool) {
		if n.owned == 0 && free.IsZero() {
			free = time.Now()
		}
		if stays, _ := peers.look(a); stays {
			last = time.Time{}
		} else if last.IsZero() {
			last = time.Now()
		}
		done := n.owned == 0 && n.unsettled == 0 && (n.held == 0 || time.Since(free) > 2*time.Second)
		if done {
			last = time.Time{} // no matter to this member
		}
		return &ring.Stop{From: self}, done || !last.IsZero() && time.Since(last) > lastWait
	})
	if err == nil && !last.IsZero() {
		return errLast
	}
	return err
}

// askToLeave asks the leader to have others take everything over for good.
func (a *Agent) askToLeave(ctx context.Context, stuck time.Duration) error {
	return a.ask(ctx, stuck, a.ending, func(self ring.Holder, n need) (*ring.Stop, bool) {
		return &ring.Stop{From: self, Leave: true}, n.gone || n == need{}
	})
}

// askToGo asks the leader to take this member out of the table, where nothing
// is left with it.
func (a *Agent) askToGo(ctx context.Context) error {
	return a.ask(ctx, stopWait, a.ending, func(self ring.Holder, n need) (*ring.Stop, bool) {
		return &ring.Stop{From: self, Leave: true, Done: true}, n.gone
	})
}

// ask sends the leader what stop says until that is done, or as long as it gets
// somewhere.
func (a *Agent) ask(ctx context.Context, stuck time.Duration, ending <-chan struct{}, stop func(ring.Holder, need) (*ring.Stop, bool)) error {
	t := time.NewTicker(askAgain)
	defer t.Stop()
	least, since := 4*ring.Slots, time.Now()
	for {
		v := a.engine.View()
		n := needed(v.Table, a.id.id)
		n.unsettled = a.engine.Figures().Unsettled
		if left := n.owned + n.held + n.homes + n.unsettled; left < least {
			least, since = left, time.Now()
		}
		m, done := stop(v.Self, n)
		if done {
			return nil
		}
		if v.Self.Num != 0 {
			a.control.toLeader(m)
		}
		err := ctx.Err()
		if time.Since(since) > stuck {
			err = errStuck
		}
		if err != nil {
			return fmt.Errorf("%d slots are still owned here, %d have a copy here that counts: %w", n.owned, n.held, err)
		}
		select {
		case <-ctx.Done():
		case <-ending:
			return errors.New("the agent is being stopped")
		case <-t.C:
		}
	}
}

// need is what the cluster needs of a member.
type need struct {
	gone      bool // the table does not name it
	owned     int  // slots that it owns
	held      int  // slots in which its copy counts
	homes     int  // slots that it is home to
	unsettled int  // records that no owner has yet
}

// needed returns what the table needs of a member.
func needed(t *ring.Table, id member.ID) (n need) {
	m := t.ByID(id)
	if m == nil {
		return need{gone: true}
	}
	for h := range t.Slots {
		s := &t.Slots[h]
		if s.Owner == m.Num {
			n.owned++
		}
		if s.InSyncHas(m.Holder()) {
			n.held++
		}
		if s.Home == m.Num {
			n.homes++
		}
	}
	return n
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
		err := a.askToLeave(ctx, stuck)
		if err != nil && !force {
			return as(httpapi.ErrUnavailable, fmt.Errorf("not everything could be handed over, this member stays: %w; with -force it leaves all the same", a.stay(err)))
		}
		a.finish(ctx)
		if err == nil {
			err = a.askToGo(ctx)
		}
		if err != nil {
			a.log.Warn("leaving while the table names this member", "error", err)
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

// finish ends what users reach here, requests under way first, and then takes
// no more requests about sessions: the members listen to nobody whom the table
// does not name, so whoever asked here later would wait for nothing.
func (a *Agent) finish(ctx context.Context) {
	a.parting.Do(func() { close(a.closing) })
	select {
	case <-a.closed:
	case <-a.ending:
	case <-a.ended:
	case <-ctx.Done():
	}
	a.parted.Store(true)
	began := time.Now()
	t := time.NewTicker(askAgain)
	defer t.Stop()
	for time.Since(began) < finishWait {
		select {
		case <-a.ended:
			return
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if a.engine.Figures().Calls == 0 {
			return
		}
	}
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
