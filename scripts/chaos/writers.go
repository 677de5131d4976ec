//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondel-project/rondel/api"
)

const (
	perAgent = 6   // sessions made at each agent, two of each kind
	listed   = 100 // entries of a list, before its writer empties it
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

// kind is what a session's writer does.
type kind int

const (
	incr   kind = iota // adds one to a number
	put                // writes the whole session, with a number one higher each time
	enlist             // appends to a list
	kinds
)

// written is a session with its writer.
type written struct {
	id   string
	kind kind
	history
}

func startWriters(ctx context.Context, c *cluster) (*writers, error) {
	w := &writers{c: c}
	for _, a := range c.agents {
		for i := range perAgent {
			s, err := a.api.Sessions().Create(ctx, api.SessionCreate{Attributes: map[string]any{"n": 0, "list": []int{}}})
			if err != nil {
				return nil, fmt.Errorf("create a session at %s: %w", a.name, err)
			}
			w.sessions = append(w.sessions, &written{id: s.ID, kind: kind(i) % kinds})
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

// write does one operation after the other. Each tenth is sent once more after
// it was acknowledged: its key makes it the same one.
func (w *writers) write(ctx context.Context, s *written) {
	for i := 1; ctx.Err() == nil; i++ {
		w.hold.RLock()
		next := s.floor() + 1
		if s.kind == enlist && next > listed {
			w.empty(ctx, s)
			next = 1
		}
		key := w.key()
		var first int64
		acked := w.until(ctx, s.missing, func(ctx context.Context, a *agent) (err error) {
			if first, err = w.one(ctx, a, s, next, key); err == nil {
				s.ack(first, time.Now())
			}
			return err
		})
		if acked && i%10 == 0 && s.kind != put {
			w.until(ctx, s.missing, func(ctx context.Context, a *agent) error {
				second, err := w.one(ctx, a, s, next, key)
				if err == nil {
					s.again(first, second)
				}
				return err
			})
		}
		w.hold.RUnlock()
		rest(ctx, pause)
	}
}

// one does a session's next operation, and returns the number that it comes to.
func (w *writers) one(ctx context.Context, a *agent, s *written, next int64, key string) (int64, error) {
	in, opt := a.api.Sessions(), api.WithIdempotencyKey(key)
	switch s.kind {
	case put:
		_, err := in.Put(ctx, s.id, map[string]any{"n": next, "list": []int{}}, opt)
		return next, err
	case enlist:
		m, err := in.Append(ctx, s.id, "list", next, opt)
		if err != nil {
			return 0, err
		}
		if m.Length == nil {
			return 0, errors.New("an append answers no length")
		}
		return int64(*m.Length), nil
	}
	m, err := in.Incr(ctx, s.id, "n", 1, opt)
	if err != nil {
		return 0, err
	}
	return m.Value.Int64()
}

// empty begins a list anew, after a look at whether it is whole.
func (w *writers) empty(ctx context.Context, s *written) {
	w.until(ctx, s.missing, func(ctx context.Context, a *agent) error {
		got, err := a.api.Sessions().Get(ctx, s.id)
		if err != nil {
			return err
		}
		if got.Stale {
			return errors.New("asked a member that is cut off")
		}
		v, err := s.number(got)
		if err == nil {
			s.final(v)
		}
		return err
	})
	key := w.key()
	if w.until(ctx, s.missing, func(ctx context.Context, a *agent) error {
		_, err := a.api.Sessions().Patch(ctx, s.id, map[string]any{"list": []int{}}, api.WithIdempotencyKey(key))
		return err
	}) {
		s.emptied()
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
			// The number of a list falls when it begins anew.
			if v, err := s.number(got); err == nil && s.kind != enlist {
				s.history.read(floor, v)
			}
		case api.IsNotFound(err):
			s.missing()
		}
		rest(ctx, pause/2)
	}
}

// number is what a session's operations have come to.
func (w *written) number(s *api.Session) (int64, error) {
	if w.kind == enlist {
		var list []int64
		err := json.Unmarshal(s.Attributes["list"], &list)
		return int64(len(list)), err
	}
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
		}) && w.until(ctx, missing, func(ctx context.Context, a *agent) error {
			_, err := a.api.Sessions().Delete(ctx, id, api.WithIdempotencyKey(del))
			return err // by its key a repeated one succeeds: a 404 is a lost session
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
			there, err := w.exists(ctx, a, id)
			if err != nil {
				return t, err
			}
			if there {
				t.Resurrected++
			}
		}
	}
	t.Deleted = len(gone)
	return t, nil
}

// exists asks an agent for a deleted session until there is an answer.
func (w *writers) exists(ctx context.Context, a *agent, id string) (bool, error) {
	for deadline := time.Now().Add(10 * time.Second); ; rest(ctx, pause) {
		_, err := a.api.Sessions().Get(ctx, id)
		if err == nil || api.IsNotFound(err) {
			return err == nil, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return false, fmt.Errorf("read a deleted session at %s: %w", a.name, err)
		}
	}
}

// patient reads until there is an answer; a 404 is one, of the wrong kind.
func (w *writers) patient(ctx context.Context, a *agent, s *written) (int64, error) {
	for deadline := time.Now().Add(10 * time.Second); ; rest(ctx, pause) {
		got, err := a.api.Sessions().Get(ctx, s.id)
		if err == nil {
			return s.number(got)
		}
		if api.IsNotFound(err) {
			s.missing()
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return 0, fmt.Errorf("read a session at %s: %w", a.name, err)
		}
	}
}
