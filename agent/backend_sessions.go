package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sync/errgroup"

	"github.com/rondel-project/rondel/agent/httpapi"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/replicate"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
	"github.com/rondel-project/rondel/agent/telemetry"
)

type sessionsBackend struct{ a *Agent }

// Do implements httpapi.Sessions.
func (b sessionsBackend) Do(ctx context.Context, req *session.Request) *session.Response {
	if b.a.parted.Load() {
		return parted()
	}
	began := time.Now()
	r := b.a.engine.Do(ctx, req)
	b.measure(req.Kind, r, began)
	return r
}

// parted is the answer of an agent that the cluster is about to forget.
func parted() *session.Response {
	r := session.Fail(session.Unavailable, "leaving", "this agent is leaving the cluster; ask another one")
	r.RetryAfter = time.Second
	return r
}

func (b sessionsBackend) measure(kind session.Kind, r *session.Response, began time.Time) {
	if took := time.Since(began); kind.Mutates() {
		b.a.metrics.Sessions.Wrote(outcome(r.Status), took)
	} else {
		b.a.metrics.Sessions.Read(outcome(r.Status), took)
	}
}

// Start implements httpapi.Sessions.
func (b sessionsBackend) Start(req *session.Request, w httpapi.Waiter) {
	if b.a.parted.Load() {
		w.Answered(parted())
		return
	}
	b.a.engine.Start(req, &measured{b, req.Kind, time.Now(), w})
}

// Flush implements httpapi.Sessions.
func (b sessionsBackend) Flush() { b.a.engine.Flush() }

// measured counts an operation once it is answered.
type measured struct {
	b     sessionsBackend
	kind  session.Kind
	began time.Time
	to    httpapi.Waiter
}

// Answered implements replicate.Waiter.
func (m *measured) Answered(r *session.Response) {
	m.b.measure(m.kind, r, m.began)
	m.to.Answered(r)
}

func outcome(s session.Status) telemetry.Outcome {
	switch s {
	case session.OK:
		return telemetry.OK
	case session.NotFound, session.NoAttr:
		return telemetry.NotFound
	case session.Invalid, session.Conflict, session.VersionDiffs, session.TooLarge:
		return telemetry.Conflict
	case session.UnknownEnd:
		return telemetry.Unknown
	}
	return telemetry.Refused
}

// Mint implements httpapi.Sessions.
func (b sessionsBackend) Mint() (session.ID, error) {
	id, ok := b.a.engine.View().Mint(b.a.id.id, time.Now())
	if !ok {
		return "", as(httpapi.ErrUnavailable, errors.New("this agent has no table yet that tells where sessions go"))
	}
	return id, nil
}

// MintBeside implements httpapi.Sessions.
func (b sessionsBackend) MintBeside(id session.ID) (session.ID, error) {
	keys := b.a.engine.View().Keys
	p, err := keys.Parse(string(id))
	if err != nil {
		return "", err
	}
	return keys.Mint(p.Slot, time.Now()), nil
}

// List implements httpapi.Sessions: every owner is asked for its own, since
// nobody knows all.
func (b sessionsBackend) List(ctx context.Context, o httpapi.ListOptions) ([]httpapi.ListEntry, error) {
	a := b.a
	f := replicate.Filter{Prefix: o.Prefix, Group: o.Group, Principal: o.Principal, After: o.After, Limit: o.Limit}
	t := a.engine.View().Table
	owners := map[member.Number]bool{}
	for h := range t.Slots {
		owners[t.Slots[h].Owner] = true
	}
	lists := make([][]replicate.Summary, len(t.Members))
	group, ctx := errgroup.WithContext(ctx)
	for i := range t.Members {
		m := &t.Members[i]
		switch {
		case !owners[m.Num]:
		case m.ID == a.id.id:
			lists[i] = a.engine.Owned(f)
		default:
			group.Go(func() (err error) {
				if lists[i], err = a.calls.list(ctx, m.Addr, f); err != nil {
					return as(httpapi.ErrUnavailable, fmt.Errorf("sessions of %s: %w", m.Name, err))
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all := slices.Concat(lists...)
	slices.SortFunc(all, func(x, y replicate.Summary) int { return strings.Compare(string(x.ID), string(y.ID)) })
	// While a slot moves, two members may both list it.
	all = slices.CompactFunc(all, func(x, y replicate.Summary) bool { return x.ID == y.ID })
	if o.Limit > 0 && len(all) > o.Limit {
		all = all[:o.Limit]
	}
	out := make([]httpapi.ListEntry, 0, len(all))
	for _, s := range all {
		out = append(out, httpapi.ListEntry(s))
	}
	return out, nil
}

type ringBackend struct{ a *Agent }

// Watch implements httpapi.Watcher.
func (b ringBackend) Watch() (uint64, <-chan struct{}) {
	b.a.tableMu.Lock()
	defer b.a.tableMu.Unlock()
	return uint64(b.a.engine.View().Table.Epoch), b.a.tableChanged
}

// Table implements httpapi.Ring.
func (b ringBackend) Table() *ring.Table { return b.a.engine.View().Table }

// Leader implements httpapi.Ring.
func (b ringBackend) Leader() string { return b.a.leaderName() }

// Locate implements httpapi.Ring. A session id carries its slot; any other key
// hashes to one.
func (b ringBackend) Locate(key string) (ring.Slot, error) {
	if p, err := b.a.engine.View().Keys.Parse(key); err == nil {
		return p.Slot, nil
	}
	return ring.Slot(xxhash.Sum64String(key) % ring.Slots), nil
}
