package replicate

import (
	"slices"
	"strings"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// Summary is one line of a listing of sessions: no contents.
type Summary struct {
	ID        session.ID
	Size      int
	Version   uint64
	Group     string
	Principal string
}

// Filter says which sessions to list; empty strings mean any.
type Filter struct {
	Prefix, Group, Principal, After string
	Limit                           int
}

// Owned lists the living sessions of the slots that this member serves, sorted
// by id. What is kept under names is no session of anybody's.
func (e *Engine) Owned(f Filter) []Summary {
	var out []Summary
	for h := range ring.Slot(ring.Slots) {
		out = e.ownedIn(h, f, out) // a slot at a time, so that others get their turn
		if f.Limit > 0 && len(out) > 4*f.Limit {
			out = first(out, f.Limit)
		}
	}
	return first(out, f.Limit)
}

func (e *Engine) ownedIn(h ring.Slot, f Filter, out []Summary) []Summary {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.guard()
	n := e.node
	if n.self.Num == 0 || n.effective(h) != n.self.Num {
		return out
	}
	now := e.begin().Mono
	n.store.Each(h, func(x *session.Entry) bool {
		r := x.Rec
		at, ends := x.Ends()
		if r.Dead || r.ID.Named() || ends && at <= now || !strings.HasPrefix(string(r.ID), f.Prefix) || string(r.ID) <= f.After && f.After != "" ||
			f.Group != "" && r.Group != f.Group || f.Principal != "" && r.Principal != f.Principal {
			return true
		}
		out = append(out, Summary{r.ID, r.Size(), r.Ver, r.Group, r.Principal})
		return true
	})
	return out
}

// first returns the first limit of the list by id, all with 0.
func first(list []Summary, limit int) []Summary {
	slices.SortFunc(list, func(a, b Summary) int { return strings.Compare(string(a.ID), string(b.ID)) })
	if limit > 0 && len(list) > limit {
		list = list[:limit]
	}
	return list
}

// Figures are what an engine tells of itself.
type Figures struct {
	Stats
	Owned     int // living sessions in slots served here
	Held      int // living sessions held, copies among them
	Records   int // with tombstones
	Bytes     int64
	Open      int // slots served here
	Closed    int // slots owned and not open yet
	Filling   int // slots being filled at learners
	FillLeft  int // records that learners of slots served here lack, at most
	Pending   int // writes under way
	Calls     int // requests that this member was asked and has not answered
	Detached  bool
	Unsettled int // records acknowledged without the owner, or without all copies, and not yet with an owner
	Leader    member.Number
	Clock     time.Duration // added to the wall clock in stamps, since it differs from those of most members
}

// Leader returns the member that granted the last lease, and its term.
func (e *Engine) Leader() (num member.Number, term uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.guard()
	return e.node.Leader()
}

// Figures returns the present figures.
func (e *Engine) Figures() Figures {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.guard()
	n := e.node
	f := Figures{Stats: n.Stats, Filling: n.syncing, Pending: len(n.pending), Calls: len(n.calls), Detached: n.detach.on, Unsettled: n.store.Unsettled()}
	f.Clock = n.ClockOffset()
	f.Leader, _ = n.Leader()
	f.Held, f.Records, f.Bytes = n.store.Total()
	for h := range ring.Slot(ring.Slots) {
		if !n.owns(h) {
			continue
		}
		if n.open(h) {
			f.Open++
			f.Owned += n.store.Live(h)
			f.FillLeft += n.fillLeft(h)
		} else {
			f.Closed++
		}
	}
	return f
}
