package gossip

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

// eventLoop makes the callbacks, one after the other.
func (g *Gossip) eventLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.wakeEvents:
		}
		g.mu.Lock()
		events := g.list.events()
		for _, e := range events {
			if e.Kind == Removed && g.list.byID(e.Member.ID) == nil {
				g.dropLocked(e.Member.ID)
			}
		}
		records := g.changed
		values := make([][]byte, len(records))
		for i, k := range records {
			if r := g.remotes[k.id]; r != nil {
				values[i] = r.records[k.key]
			}
		}
		g.changed = nil
		clear(g.queued)
		g.mu.Unlock()
		for _, e := range events {
			if e.Member.ID == g.opts.Meta.ID {
				continue
			}
			g.logEvent(e)
			if g.opts.OnEvent != nil {
				g.opts.OnEvent(e)
			}
		}
		for i, k := range records {
			if g.opts.OnRecord != nil {
				g.opts.OnRecord(k.id, k.key, values[i])
			}
		}
	}
}

// dropLocked forgets the entry of a member that is not listed any more.
func (g *Gossip) dropLocked(id member.ID) {
	r := g.remotes[id]
	if r == nil {
		return
	}
	for key := range r.records {
		g.noteRecordsLocked(id, []string{key})
	}
	delete(g.remotes, id)
	delete(g.fetches, id)
}

func (g *Gossip) logEvent(e Event) {
	pairs := []any{"member", e.Member.Name, "addr", e.Member.Gossip()}
	switch e.Kind {
	case Joined:
		g.log.Info("member joined", pairs...)
	case Rebooted:
		g.log.Info("member restarted", pairs...)
	case Left:
		g.log.Info("member left", pairs...)
	case Failed:
		g.log.Warn("member failed", pairs...)
	case Removed:
		g.log.Info("member removed", pairs...)
	case Updated:
		g.log.Debug("member updated", append(pairs, "epoch", e.Member.Epoch)...)
	}
}

// fetchState is an entry that has to be fetched.
type fetchState struct {
	due     time.Time
	tries   int
	running bool
}

const (
	maxFetches   = 4 // at once
	fetchTimeout = 3 * time.Second
)

// needLocked has an entry fetched after a while, unless it comes by itself.
func (g *Gossip) needLocked(id member.ID, wait time.Duration) {
	due := time.Now().Add(wait)
	if f := g.fetches[id]; f != nil {
		if f.due.After(due) && f.tries == 0 {
			f.due = due
		}
		return
	}
	// Where many learn of a change at once, they must not all ask in the same
	// instant.
	spread := time.Duration(g.others.Load()) * time.Millisecond
	g.fetches[id] = &fetchState{due: due.Add(rand.N(spread + 1))}
}

// fetchLoop fetches entries that are behind.
func (g *Gossip) fetchLoop(ctx context.Context) {
	done := make(chan struct{}, maxFetches)
	running := 0
	defer func() {
		for ; running > 0; running-- {
			<-done
		}
	}()
	for {
		id, wait := g.nextFetch(running < maxFetches)
		if id != "" && wait <= 0 {
			running++
			go func() {
				g.fetchOne(ctx, id)
				done <- struct{}{}
			}()
			continue
		}
		if id == "" {
			wait = time.Hour
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-g.wakeFetch:
		case <-done:
			running--
		}
		t.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// nextFetch returns the entry to fetch next, and marks it as being fetched when
// it is due. Without a free slot there is none.
func (g *Gossip) nextFetch(free bool) (member.ID, time.Duration) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	var next member.ID
	for id, f := range g.fetches {
		if f.running {
			continue
		}
		r := g.remotes[id]
		if r == nil || !r.behind() {
			delete(g.fetches, id)
			continue
		}
		if next == "" || f.due.Before(g.fetches[next].due) {
			next = id
		}
	}
	if next == "" || !free {
		return "", 0
	}
	f := g.fetches[next]
	f.running = !f.due.After(now)
	return next, f.due.Sub(now)
}

func (g *Gossip) fetchOne(ctx context.Context, id member.ID) {
	g.mu.Lock()
	f := g.fetches[id]
	m := g.list.byID(id)
	if f == nil || m == nil {
		delete(g.fetches, id)
		g.mu.Unlock()
		return
	}
	origin, tries := *m, f.tries
	helper, haveHelper := g.someoneLocked(func(o *Member) bool { return o.ID != id })
	g.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	var b []byte
	var err error
	switch {
	case haveHelper && (tries%2 == 1 || !origin.Here()):
		b, err = g.fetchFrom(ctx, helper, id)
	case g.opts.Fetch != nil:
		b, err = g.opts.Fetch(ctx, origin)
	default:
		b, err = g.fetchFrom(ctx, origin, id)
	}
	var e wholeEntry
	if err == nil {
		e, err = decodeEntry(b)
	}
	g.mu.Lock()
	if err == nil && e.id == id {
		g.loadLocked(e)
	}
	f.running = false
	f.tries++
	r := g.remotes[id]
	m = g.list.byID(id)
	switch {
	case r == nil || !r.behind():
		delete(g.fetches, id)
	case m == nil || !m.Here() && f.tries > 6:
		// It is gone and nobody has it; should it return, we ask again.
		delete(g.fetches, id)
	default:
		f.due = time.Now().Add(min(50*time.Millisecond<<min(f.tries, 6), 2*time.Second))
	}
	g.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		g.log.Debug("entry not fetched", "member", origin.Name, "attempt", tries+1, "error", err)
	}
	wake(g.wakeEvents)
}

func (g *Gossip) fetchFrom(ctx context.Context, m Member, id member.ID) ([]byte, error) {
	h := g.introduce(helloFetch)
	h.target = id
	p, err := g.trans.ask(ctx, m.Gossip(), h)
	return p.entry, err
}

// someoneLocked picks a member that is here, other than this one, at random.
func (g *Gossip) someoneLocked(ok func(*Member) bool) (Member, bool) {
	var picked *Member
	n := 0
	for _, m := range g.list.byName {
		if m.ID == g.meta.ID || !m.Here() || !ok(m) {
			continue
		}
		n++
		if rand.IntN(n) == 0 {
			picked = m
		}
	}
	if picked == nil {
		return Member{}, false
	}
	return *picked, true
}
