package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
)

// term drives one Core. Everything it starts ends before run returns.
type term struct {
	*Leader
	core    *Core
	inbox   chan Event
	results chan result
	work    sync.WaitGroup
}

// result is what came of an action: an event for the core, or the end.
type result struct {
	ev  Event
	err error
}

func (t *term) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer t.work.Wait()
	defer cancel()
	if t.cfg.Servers != nil {
		t.work.Go(func() { t.tendServers(ctx) })
	}
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	view, viewChanged := t.cfg.Gossip.Watch()
	t.step(ctx, ViewChanged{view})
	_, tableChanged := t.cfg.Raft.Watch()
	for {
		newTable := tableChanged
		if t.core.Busy() {
			newTable = nil // the outcome of the proposal brings it
		}
		select {
		case <-ctx.Done():
			return nil
		case ev := <-t.inbox:
			t.step(ctx, ev)
		case r := <-t.results:
			if r.err != nil {
				return r.err
			}
			t.step(ctx, r.ev)
		case <-viewChanged:
			view, viewChanged = t.cfg.Gossip.Watch()
			t.step(ctx, ViewChanged{view})
		case <-newTable:
			var table *ring.Table
			table, tableChanged = t.cfg.Raft.Watch()
			if table.Epoch > t.core.Table().Epoch {
				t.step(ctx, Committed{table})
			}
		case <-tick.C:
			t.step(ctx, Tick{})
		}
	}
}

func (t *term) step(ctx context.Context, ev Event) {
	for _, a := range t.core.Step(t.cfg.Now(), ev) {
		t.act(ctx, a)
	}
}

func (t *term) act(ctx context.Context, a Action) {
	switch a := a.(type) {
	case Propose:
		t.async(ctx, func() result { return t.propose(ctx, a.Change) })
	case Verify:
		t.async(ctx, func() result {
			ctx, cancel := context.WithTimeout(ctx, verifyWait)
			defer cancel()
			return result{ev: Verified{a.Batch, t.cfg.Raft.Verify(ctx) == nil}}
		})
	case Probe:
		t.async(ctx, func() result {
			ctx, cancel := context.WithTimeout(ctx, probeWait)
			defer cancel()
			return result{ev: Probed{a.Who.Holder, t.cfg.Probe.Probe(ctx, a.Who)}}
		})
	case Ask:
		t.async(ctx, func() result {
			ctx, cancel := context.WithTimeout(ctx, t.cfg.Params.AskWait)
			defer cancel()
			return result{ev: Opinion{a.Who.Holder, a.Via.Num, t.cfg.Probe.Ask(ctx, a.Via, a.Who)}}
		})
	case Send:
		t.cfg.Send.Send(a.To, a.Message)
	case Answer:
		t.answer(a)
	case Note:
		t.note(a)
	}
}

// async does what may block, and brings its result to the loop.
func (t *term) async(ctx context.Context, do func() result) {
	t.work.Go(func() {
		r := do()
		select {
		case t.results <- r:
		case <-ctx.Done():
		}
	})
}

func (t *term) propose(ctx context.Context, c *ring.Change) result {
	table, err := t.cfg.Raft.Propose(ctx, c)
	switch {
	case err == nil:
		return result{ev: Proposed{true, table}}
	case errors.Is(err, ring.ErrStale):
		return result{ev: Proposed{false, table}}
	}
	return result{err: fmt.Errorf("change of the table: %w", err)}
}

func (t *term) note(n Note) {
	switch n.Kind {
	case NoteDown:
		t.log.Info("member marked down", "member", n.Name, "reason", n.Why)
	case NoteConflict:
		t.log.Warn("member refused", "member", n.Name, "error", n.Why)
	case NoteReset:
		t.log.Error("slots lost their last copy", "slots", n.Count)
	case NoteSlow:
		t.log.Warn("member too slow, taken out of in-sync sets", "member", n.Name)
	}
}
