//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondel-project/rondel/api"
)

const (
	perAgent = 6 // sessions made at each agent
	pause    = 10 * time.Millisecond
	// patience is how long a client waits for an answer before it asks another
	// agent: a request that was on its way to a machine that vanished has none.
	patience = 700 * time.Millisecond
)

// writers work as good clients do: each operation has a key, and is sent again
// with it, to another agent, until it is acknowledged.
type writers struct {
	c        *cluster
	bad      sync.Map // agents that clients keep away from: under a fault
	sessions []*written
	work     sync.WaitGroup
	cancel   context.CancelFunc
	hold     sync.RWMutex // held by each operation; taken to let all be still
	seq      atomic.Int64

	mu      sync.Mutex // guards the following
	deleted []string
	ended   faultCount // of sessions that were deleted
}

// written is a session with its writer.
type written struct {
	id string
	history
}

func startWriters(ctx context.Context, c *cluster) (*writers, error) {
	w := &writers{c: c}
	for _, a := range c.agents {
		for range perAgent {
			s, err := a.api.Sessions().Create(ctx, api.SessionCreate{Attributes: map[string]any{"n": 0}})
			if err != nil {
				return nil, fmt.Errorf("create a session at %s: %w", a.name, err)
			}
			w.sessions = append(w.sessions, &written{id: s.ID})
		}
	}
	ctx, w.cancel = context.WithCancel(ctx)
	for _, s := range w.sessions {
		w.work.Go(func() { w.write(ctx, s) })
	}
	w.work.Go(func() { w.read(ctx) })
	w.work.Go(func() { w.churn(ctx) })
	return w, nil
}

func (w *writers) stop() {
	w.cancel()
	w.work.Wait()
}

// avoid keeps clients away from agents, and only from those.
func (w *writers) avoid(agents ...*agent) {
	w.bad.Clear()
	for _, a := range agents {
		w.bad.Store(a.i, true)
	}
}

// pick returns an agent that clients may use.
func (w *writers) pick() *agent {
	for range 100 {
		a := w.c.agents[rand.IntN(len(w.c.agents))]
		if _, bad := w.bad.Load(a.i); !bad {
			return a
		}
	}
	return w.c.agents[0]
}

func (w *writers) key() string { return fmt.Sprintf("k%d", w.seq.Add(1)) }

// until sends an operation until it is acknowledged, or ctx ends. A 404 is
// counted, and tried again.
func (w *writers) until(ctx context.Context, missing func(), do func(ctx context.Context, a *agent) error) bool {
	for ctx.Err() == nil {
		tried, cancel := context.WithTimeout(ctx, patience)
		err := do(tried, w.pick())
		cancel()
		if err == nil {
			return true
		}
		if api.IsNotFound(err) {
			missing()
		}
		rest(ctx, pause)
	}
	return false
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (w *writers) write(ctx context.Context, s *written) {
	for ctx.Err() == nil {
		w.hold.RLock()
		key := w.key()
		w.until(ctx, s.missing, func(ctx context.Context, a *agent) error {
			m, err := a.api.Sessions().Incr(ctx, s.id, "n", 1, api.WithIdempotencyKey(key))
			if err != nil {
				return err
			}
			v, err := m.Value.Int64()
			if err == nil {
				s.ack(v, time.Now())
			}
			return err
		})
		w.hold.RUnlock()
		rest(ctx, pause)
	}
}

// read reads sessions through all agents.
func (w *writers) read(ctx context.Context) {
	for ctx.Err() == nil {
		s := w.sessions[rand.IntN(len(w.sessions))]
		floor := s.floor()
		tried, cancel := context.WithTimeout(ctx, 3*time.Second)
		got, err := w.pick().api.Sessions().Get(tried, s.id)
		cancel()
		switch {
		case err == nil && !got.Stale:
			if v, err := number(got); err == nil {
				s.history.read(floor, v)
			}
		case api.IsNotFound(err):
			s.missing()
		}
		rest(ctx, pause/2)
	}
}

func number(s *api.Session) (int64, error) {
	var n json.Number
	if err := json.Unmarshal(s.Attributes["n"], &n); err != nil {
		return 0, err
	}
	return n.Int64()
}

// churn makes sessions, writes to them and deletes them: what was deleted must
// stay so.
func (w *writers) churn(ctx context.Context) {
	for ctx.Err() == nil {
		w.hold.RLock()
		var id string
		key := w.key()
		made := w.until(ctx, func() {}, func(ctx context.Context, a *agent) error {
			s, err := a.api.Sessions().Create(ctx, api.SessionCreate{Attributes: map[string]any{"n": 1}}, api.WithIdempotencyKey(key))
			if err == nil {
				id = s.ID
			}
			return err
		})
		missing := func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ended.Missing++
		}
		write, del := w.key(), w.key()
		if made && w.until(ctx, missing, func(ctx context.Context, a *agent) error {
			_, err := a.api.Sessions().Incr(ctx, id, "n", 1, api.WithIdempotencyKey(write))
			return err
		}) && w.until(ctx, func() {}, func(ctx context.Context, a *agent) error {
			_, err := a.api.Sessions().Delete(ctx, id, api.WithIdempotencyKey(del))
			if api.IsNotFound(err) {
				err = nil
			}
			return err
		}) {
			w.mu.Lock()
			w.deleted = append(w.deleted, id)
			w.mu.Unlock()
		}
		w.hold.RUnlock()
		rest(ctx, pause)
	}
}

// begin starts to count anew.
func (w *writers) begin() {
	now := time.Now()
	for _, s := range w.sessions {
		s.begin(now)
	}
}

// owned returns the sessions that a member owns.
func (w *writers) owned(ctx context.Context, a *agent) (list []*written) {
	for _, s := range w.sessions {
		if o, _, err := w.c.locate(ctx, s.id); err == nil && o == a {
			list = append(list, s)
		}
	}
	return list
}

// tally is what one fault has come to.
type tally struct {
	faultCount
	Acked   int64
	Deleted int
}

// count lets all writers be still, and compares what every agent says with what
// was acknowledged.
func (w *writers) count(ctx context.Context) (tally, error) {
	w.avoid()
	w.hold.Lock()
	defer w.hold.Unlock()
	var t tally
	for _, s := range w.sessions {
		for _, a := range w.c.agents {
			v, err := w.patient(ctx, a, s)
			if err != nil {
				return t, err
			}
			s.final(v)
		}
		f, acked := s.take()
		t.faultCount, t.Acked = t.add(f), t.Acked+acked
	}
	w.mu.Lock()
	gone := w.deleted
	w.deleted = nil
	t.faultCount, w.ended = t.add(w.ended), faultCount{}
	w.mu.Unlock()
	for _, id := range gone {
		for _, a := range w.c.agents {
			_, err := a.api.Sessions().Get(ctx, id)
			switch {
			case err == nil:
				t.Resurrected++
			case !api.IsNotFound(err):
				return t, fmt.Errorf("a deleted session at %s: %w", a.name, err)
			}
		}
	}
	t.Deleted = len(gone)
	return t, nil
}

// patient reads until there is an answer; a 404 is one, of the wrong kind.
func (w *writers) patient(ctx context.Context, a *agent, s *written) (int64, error) {
	for deadline := time.Now().Add(10 * time.Second); ; rest(ctx, pause) {
		got, err := a.api.Sessions().Get(ctx, s.id)
		if err == nil {
			return number(got)
		}
		if api.IsNotFound(err) {
			s.missing()
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return 0, fmt.Errorf("read a session at %s: %w", a.name, err)
		}
	}
}
