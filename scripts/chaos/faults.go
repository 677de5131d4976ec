//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rondel-project/rondel/api"
)

// mode is how a cluster is configured.
type mode struct {
	name, partition, durability string
}

func modes() []mode {
	return []mode{
		{"serve", "serve", "memory"},
		{"refuse", "refuse", "memory"},
		{"disk", "serve", "disk"},
	}
}

// fault is one thing that goes wrong, and what is promised for it.
type fault struct {
	name  string
	modes []string // nil: all
	// promise is the longest time in which nobody can write to a session of the
	// member that it strikes; 0: none is made.
	promise map[string]time.Duration
	strike  func(ctx context.Context, r *run) error
}

// run is one fault at work.
type run struct {
	c       *cluster
	w       *writers
	victim  *agent
	watched []*written // the sessions whose gap counts
	heir    *agent     // takes over one of them
}

// sec gives the promises in seconds: disk is serve with a disk below it.
func sec(serve, refuse float64) map[string]time.Duration {
	s, r := time.Duration(serve*float64(time.Second)), time.Duration(refuse*float64(time.Second))
	return map[string]time.Duration{"serve": s, "refuse": r, "disk": s}
}

const settle = 3 * time.Second // writers work on after what a fault has done

func faults() []fault {
	return []fault{
		{"owner killed, connections refused", nil, sec(1, 2.5), func(ctx context.Context, r *run) error {
			return r.lose(ctx, false, false)
		}},
		{"owner and leader killed, connections refused", nil, sec(3, 5), func(ctx context.Context, r *run) error {
			return r.lose(ctx, true, false)
		}},
		{"owner's machine vanishes", nil, sec(3, 3.5), func(ctx context.Context, r *run) error {
			return r.lose(ctx, false, true)
		}},
		{"owner's and leader's machine vanishes", nil, sec(4, 5), func(ctx context.Context, r *run) error {
			return r.lose(ctx, true, true)
		}},
		{"owner and one successor killed together", nil, nil, func(ctx context.Context, r *run) error {
			if err := r.choose(ctx, false); err != nil {
				return err
			}
			return r.down(ctx, r.victim, r.heir)
		}},
		{"two ring neighbours killed together, the leader one of them", nil, nil, func(ctx context.Context, r *run) error {
			if err := r.choose(ctx, true); err != nil {
				return err
			}
			return r.down(ctx, r.victim, r.heir)
		}},
		{"owner paused for 10 s", nil, nil, func(ctx context.Context, r *run) error {
			if err := r.choose(ctx, false); err != nil {
				return err
			}
			r.w.avoid(r.victim)
			if err := r.c.pause(r.victim, true); err != nil {
				return err
			}
			rest(ctx, 10*time.Second)
			return r.c.pause(r.victim, false)
		}},
		{"owner cut off for 8 s, and healed", nil, nil, func(ctx context.Context, r *run) error {
			if err := r.choose(ctx, false); err != nil {
				return err
			}
			r.w.avoid(r.victim)
			r.c.net.isolate(r.victim.i)
			rest(ctx, 8*time.Second)
			r.c.net.heal()
			return nil
		}},
		{"leader and one more cut off together for 8 s", nil, nil, func(ctx context.Context, r *run) error {
			if err := r.choose(ctx, true); err != nil {
				return err
			}
			two := []*agent{r.victim, r.heir}
			r.w.avoid(two...)
			rest(ctx, 2*patience) // what two sides acknowledge at the same time is a conflict, and no loss
			for _, a := range two {
				for _, b := range r.c.agents {
					if b != two[0] && b != two[1] {
						r.c.net.set(a.i, b.i, link{cut: true}, false)
					}
				}
			}
			rest(ctx, 8*time.Second)
			r.c.net.heal()
			return nil
		}},
		{"owner cannot reach one successor, which can reach it", nil, nil, func(ctx context.Context, r *run) error {
			if err := r.choose(ctx, false); err != nil {
				return err
			}
			r.c.net.set(r.victim.i, r.heir.i, link{cut: true}, true)
			rest(ctx, 10*time.Second)
			r.c.net.heal()
			return nil
		}},
		{"one successor slow: 150 ms each way, 2 % lost", nil, nil, func(ctx context.Context, r *run) error {
			if err := r.choose(ctx, false); err != nil {
				return err
			}
			for _, b := range r.c.agents {
				if b != r.heir {
					r.c.net.set(r.heir.i, b.i, link{delay: 150 * time.Millisecond, loss: 0.02}, false)
				}
			}
			r.w.avoid(r.heir)
			rest(ctx, 8*time.Second)
			r.c.net.heal()
			return nil
		}},
		{"rolling restart that waits on /v1/health/agent", nil, nil, rolling},
		{"leave under load, and joining again", nil, nil, func(ctx context.Context, r *run) error {
			if err := r.choose(ctx, false); err != nil {
				return err
			}
			r.w.avoid(r.victim)
			if err := r.c.leave(ctx, r.victim); err != nil {
				return err
			}
			rest(ctx, 3*time.Second)
			return r.c.start(r.victim)
		}},
		{"drain, and back", nil, nil, func(ctx context.Context, r *run) error {
			if err := r.choose(ctx, false); err != nil {
				return err
			}
			if _, err := r.victim.api.Agent().DrainMember(ctx, "", true); err != nil {
				return fmt.Errorf("drain: %w", err)
			}
			if err := r.empty(ctx, r.victim); err != nil {
				return err
			}
			_, err := r.victim.api.Agent().DrainMember(ctx, "", false)
			return err
		}},
		{"a member returns with its old disk after deletes", []string{"disk"}, nil, func(ctx context.Context, r *run) error {
			if err := r.choose(ctx, false); err != nil {
				return err
			}
			rest(ctx, time.Second)
			r.w.avoid(r.victim)
			r.c.kill(r.victim)
			rest(ctx, 5*time.Second) // the churning writer deletes on
			return r.c.start(r.victim)
		}},
		{"all members killed at once, and started again", []string{"disk"}, nil, func(ctx context.Context, r *run) error {
			for _, a := range r.c.agents {
				_ = a.cmd.Process.Kill()
			}
			for _, a := range r.c.agents {
				<-a.ended
			}
			for _, a := range r.c.agents {
				if err := r.c.start(a); err != nil {
					return err
				}
				rest(ctx, 300*time.Millisecond)
			}
			return nil
		}},
	}
}

// choose looks for a session whose owner is the leader, or is not.
func (r *run) choose(ctx context.Context, leads bool) error {
	leader, err := r.c.leader(ctx)
	if err != nil {
		return err
	}
	for _, s := range r.w.sessions {
		owner, successors, err := r.c.locate(ctx, s.id)
		if err != nil || len(successors) < 2 || (owner == leader) != leads {
			continue
		}
		r.victim, r.heir = owner, successors[0]
		if !leads && r.heir == leader {
			r.heir = successors[1]
		}
		if r.watched = r.w.owned(ctx, owner); len(r.watched) > 0 {
			r.w.begin()
			return nil
		}
	}
	return errors.New("no session has such an owner")
}

// lose kills an owner, or takes its whole machine away.
func (r *run) lose(ctx context.Context, leads, vanishes bool) error {
	if err := r.choose(ctx, leads); err != nil {
		return err
	}
	r.w.avoid(r.victim)
	if vanishes {
		r.c.net.isolate(r.victim.i)
	}
	r.c.kill(r.victim)
	rest(ctx, 8*time.Second)
	r.c.net.heal()
	return r.c.start(r.victim)
}

func (r *run) down(ctx context.Context, agents ...*agent) error {
	r.w.avoid(agents...)
	for _, a := range agents {
		_ = a.cmd.Process.Kill()
	}
	for _, a := range agents {
		<-a.ended
	}
	rest(ctx, 8*time.Second)
	for _, a := range agents {
		if err := r.c.start(a); err != nil {
			return err
		}
	}
	return nil
}

func rolling(ctx context.Context, r *run) error {
	for _, a := range r.c.agents {
		r.w.avoid(a)
		if err := r.c.terminate(a); err != nil {
			return err
		}
		if err := r.c.start(a); err != nil {
			return err
		}
		if err := r.c.healthy(ctx, time.Minute); err != nil {
			return err
		}
		r.w.avoid()
	}
	return nil
}

// empty waits until a member owns no slot.
func (r *run) empty(ctx context.Context, a *agent) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); rest(ctx, 100*time.Millisecond) {
		ring, _, err := a.api.Ring().Get(ctx, api.Wait{})
		if err != nil {
			continue
		}
		for _, m := range ring.Members {
			if m.Name == a.name && m.Slots == 0 && m.Sessions == 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("%s is not empty a minute after it was drained", a.name)
}
