package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// ErrUnknownCheck means that a heart-beat names no check, or none with a TTL.
var ErrUnknownCheck = errors.New("no such check with a TTL")

// State is what is known of one check.
type State struct {
	Instance string
	Index    int // among the checks of the instance
	Status   Status
	Reason   string // why, in a few words
	Since    time.Time
}

// Runner runs the checks of this agent's instances. Its methods may be used
// from any goroutine.
type Runner struct {
	onChange func(State)
	news     chan struct{}
	dirty    chan struct{}

	mu     sync.Mutex
	checks map[key]*run
	queue  []key // changed states to tell, in order
}

type key struct {
	instance string
	index    int
}

// run is one check. Its fields are guarded by the runner's mu.
type run struct {
	spec   Spec
	state  State
	good   int
	bad    int
	due    time.Time // of the next probe, or the end of the TTL
	busy   bool
	cancel context.CancelFunc
	queued bool
	told   Status // what onChange heard last; empty, it is critical
}

// NewRunner returns a runner that calls onChange, from one goroutine of Run
// and without locks, for each change of a state.
func NewRunner(onChange func(State)) *Runner {
	return &Runner{
		onChange: onChange, checks: map[key]*run{},
		news: make(chan struct{}, 1), dirty: make(chan struct{}, 1),
	}
}

// Set makes these the checks of an instance. The state of one that did not
// change stays; one that is new or changed is critical until its first
// success, of which onChange is not told: ask States. The specs must come from
// Normalize.
func (r *Runner) Set(instance string, specs []Spec) {
	now := time.Now()
	r.mu.Lock()
	for k, c := range r.checks {
		if k.instance == instance && (k.index >= len(specs) || c.spec != specs[k.index]) {
			r.dropLocked(k, c)
		}
	}
	for i, spec := range specs {
		k := key{instance, i}
		if r.checks[k] != nil {
			continue
		}
		c := &run{spec: spec}
		c.state = State{Instance: instance, Index: i, Status: Critical, Reason: "not checked yet", Since: now}
		if spec.TTL > 0 {
			c.state.Reason = "no heart-beat yet"
			c.due = now.Add(spec.TTL)
		} else {
			// Many instances registered at once are not probed at once; the
			// first probe comes soon, since nothing is sent there before it.
			c.due = now.Add(rand.N(min(spec.Interval/4, 200*time.Millisecond) + 1))
		}
		r.checks[k] = c
	}
	r.mu.Unlock()
	poke(r.news)
}

// Remove ends the checks of an instance.
func (r *Runner) Remove(instance string) { r.Set(instance, nil) }

func (r *Runner) dropLocked(k key, c *run) {
	if c.cancel != nil {
		c.cancel()
	}
	delete(r.checks, k)
}

// Beat takes a heart-beat for the TTL checks of an instance.
func (r *Runner) Beat(instance string, status Status, note string) error {
	now := time.Now()
	found := false
	r.mu.Lock()
	for k, c := range r.checks {
		if k.instance != instance || c.spec.TTL == 0 {
			continue
		}
		found = true
		c.due = now.Add(c.spec.TTL)
		if note == "" {
			note = "heart-beat says " + string(status)
		}
		r.moveLocked(k, c, status, cut(note), now)
	}
	r.mu.Unlock()
	if !found {
		return fmt.Errorf("%s: %w", instance, ErrUnknownCheck)
	}
	poke(r.news)
	return nil
}

// States returns the states of an instance's checks, in their order.
func (r *Runner) States(instance string) []State {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []State
	for k, c := range r.checks {
		if k.instance == instance {
			out = append(out, c.state)
		}
	}
	slices.SortFunc(out, func(a, b State) int { return a.Index - b.Index })
	return out
}

// moveLocked gives a check a new state and has it told if the verdict changed.
func (r *Runner) moveLocked(k key, c *run, status Status, reason string, now time.Time) {
	changed := c.state.Status != status
	c.state.Status, c.state.Reason = status, reason
	if !changed {
		return
	}
	c.state.Since = now
	if !c.queued {
		c.queued = true
		r.queue = append(r.queue, k)
	}
	poke(r.dirty)
}

// Run probes until ctx ends; then it waits for the probes under way.
func (r *Runner) Run(ctx context.Context) error {
	var probes sync.WaitGroup
	defer probes.Wait()
	probes.Add(1)
	go func() {
		defer probes.Done()
		r.tell(ctx)
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait := r.round(ctx, &probes)
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-r.news:
		}
	}
}

// round starts what is due and returns the time until the next is.
func (r *Runner) round(ctx context.Context, probes *sync.WaitGroup) time.Duration {
	now := time.Now()
	wait := time.Minute
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, c := range r.checks {
		if c.busy {
			continue
		}
		if c.due.After(now) {
			wait = min(wait, c.due.Sub(now))
			continue
		}
		if c.spec.TTL > 0 {
			if c.state.Status != Critical {
				r.moveLocked(k, c, Critical, fmt.Sprintf("no heart-beat for %v", c.spec.TTL), now)
			}
			c.due = now.Add(time.Hour)
			continue
		}
		c.busy = true
		pctx, cancel := context.WithCancel(ctx)
		c.cancel = cancel
		probes.Add(1)
		go func() {
			defer probes.Done()
			defer cancel()
			r.probe(pctx, k, c)
		}()
	}
	return wait
}

// probe runs one check once and takes in its result.
func (r *Runner) probe(ctx context.Context, k key, c *run) {
	why, err := c.spec.probe(ctx)
	now := time.Now()
	r.mu.Lock()
	c.busy = false
	c.due = now.Add(c.spec.Interval)
	// One that was ended or replaced meanwhile found nothing.
	if r.checks[k] == c && ctx.Err() == nil {
		r.judgeLocked(k, c, why, err, now)
	}
	r.mu.Unlock()
	poke(r.news)
}

func (r *Runner) judgeLocked(k key, c *run, why string, err error, now time.Time) {
	if errors.Is(err, errWarning) { // lets traffic through, as success does
		c.good, c.bad = c.good+1, 0
		if c.good >= c.spec.Rise || c.state.Status != Critical {
			r.moveLocked(k, c, Warning, cut(err.Error()), now)
		}
		return
	}
	if err != nil {
		c.good, c.bad = 0, c.bad+1
		if c.bad >= c.spec.Fall || c.state.Status == Critical {
			r.moveLocked(k, c, Critical, cut(err.Error()), now)
		}
		return
	}
	c.good, c.bad = c.good+1, 0
	if c.good >= c.spec.Rise || c.state.Status != Critical {
		r.moveLocked(k, c, Passing, why, now)
	}
}

// tell calls onChange for changed states.
func (r *Runner) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.dirty:
		}
		for {
			s, ok := r.next()
			if !ok {
				break
			}
			if r.onChange != nil {
				r.onChange(s)
			}
		}
	}
}

// next takes the oldest changed state that still exists.
func (r *Runner) next() (State, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 {
		k := r.queue[0]
		r.queue = r.queue[1:]
		c := r.checks[k]
		if c == nil || !c.queued {
			continue
		}
		c.queued = false
		if now := c.state.Status; now != cmp.Or(c.told, Critical) { // it may be as it was before it was told
			c.told = now
			return c.state, true
		}
	}
	return State{}, false
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
