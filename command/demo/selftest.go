package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/demo/load"
	"github.com/rondel-project/rondel/command/demo/shop"
	"github.com/rondel-project/rondel/command/demo/stage"
)

// The bounds of the self test.
const (
	thinkTime   = 40 * time.Millisecond
	withinTime  = 12 * time.Second
	backTime    = 15 * time.Second // a member that comes back holds all copies again
	settleTime  = 15 * time.Second
	leaderTime  = 5 * time.Second
	leaderPause = 50 * time.Millisecond
)

// errLost is the self test's no.
var errLost = errors.New("something was lost or happened twice")

// trial is one run of the self test.
type trial struct {
	c      *Command
	s      *stage.Stage
	load   *load.Load
	start  time.Time
	events []event
}

// test puts load on the stage, kills, and reports.
func (c *Command) test(ctx context.Context, s *stage.Stage) error {
	var targets []string
	for _, a := range s.Agents() {
		targets = append(targets, a.Place.ProxyAddress())
	}
	t := &trial{c: c, s: s, start: time.Now(), load: load.New(load.Options{
		Targets: targets, Items: items(), Clients: c.clients, Think: thinkTime, Within: withinTime,
	}, "before")}
	fmt.Fprintf(c.Err, "Ready. %d clients shop for %s.\n", c.clients, c.duration)

	shopping, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.load.Run(shopping)
	}()
	err := t.faults(ctx)
	stop()
	<-done
	if ctx.Err() != nil {
		return errStopped
	}
	if err != nil {
		return err
	}
	settling, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	out := resultOf(t.load.Settle(settling), t.events)
	if err := c.Show(out, func(w io.Writer) error { return out.write(w) }); err != nil {
		return err
	}
	if !out.Passed {
		return errLost
	}
	return nil
}

// faults is what happens while the clients shop.
func (t *trial) faults(ctx context.Context) error {
	part := func(percent int) error { return wait(ctx, t.c.duration*time.Duration(percent)/100) }
	if err := part(15); err != nil {
		return err
	}
	leader, err := t.leader(ctx)
	if err != nil {
		return err
	}
	if err := t.kill(leader, "led the cluster"); err != nil {
		return err
	}
	if err := part(25); err != nil {
		return err
	}
	instance := t.busiest()
	if err := t.kill(instance, ""); err != nil {
		return err
	}
	if err := part(20); err != nil {
		return err
	}
	whole, err := t.back(ctx, leader, instance)
	if err != nil {
		return err
	}
	if err := part(15); err != nil {
		return err
	}
	if !whole {
		return part(25)
	}
	next, err := t.follower(ctx, leader.Name)
	if err != nil {
		return err
	}
	if err := t.kill(next, "did not lead"); err != nil {
		return err
	}
	return part(25)
}

// kill ends a process, and begins the phase that shows what that did.
func (t *trial) kill(p *stage.Process, what string) error {
	count := 0
	for _, s := range t.load.Shown() {
		if s.Owner == p.Name || s.Instance == p.Name {
			count++
		}
	}
	note := fmt.Sprintf("%s killed (process %d), served %d of the sessions", p.Name, p.PID, count)
	if p.Kind == stage.Agent {
		note = fmt.Sprintf("%s killed (process %d), %s, owned %d of the sessions", p.Name, p.PID, what, count)
	}
	t.load.Phase(p.Name + " killed")
	t.event(note)
	return t.s.Kill(p)
}

// back starts what was killed again and waits until the cluster is whole.
func (t *trial) back(ctx context.Context, gone ...*stage.Process) (whole bool, err error) {
	var list []string
	for _, p := range gone {
		if err := t.s.Restart(p); err != nil {
			return false, err
		}
		list = append(list, p.Name)
	}
	names := strings.Join(list, " and ")
	t.load.Phase(names + " back")
	t.event(names + " started again")
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, backTime)
	defer cancel()
	for i := range t.s.Agents() {
		if err := t.s.Healthy(ctx, i); err != nil {
			if errors.Is(err, context.Canceled) {
				return false, err
			}
			t.event("the cluster was not whole again within " + backTime.String() + ", so no other agent was killed")
			fmt.Fprintln(t.c.Err, err)
			return false, nil
		}
	}
	t.event(fmt.Sprintf("the cluster was whole again %s later", round(time.Since(start))))
	return true, nil
}

// leader asks who leads. An election may be under way.
func (t *trial) leader(ctx context.Context) (*stage.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, leaderTime)
	defer cancel()
	for {
		for i, a := range t.s.Agents() {
			if !a.Alive() {
				continue
			}
			info, _, err := t.s.Client(i).Ring().Get(ctx, api.Wait{})
			if err == nil {
				if p := t.s.Find(info.Leader); p != nil && p.Alive() {
					return p, nil
				}
			}
		}
		if err := wait(ctx, leaderPause); err != nil {
			return nil, fmt.Errorf("find the leader: no agent named one within %s", leaderTime)
		}
	}
}

// follower returns an agent that does not lead, and was not killed before: the
// copies that it leaves behind are then those of the one that came back.
func (t *trial) follower(ctx context.Context, killed string) (*stage.Process, error) {
	leader, err := t.leader(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range t.s.Agents() {
		if a != leader && a.Name != killed && a.Alive() {
			return a, nil
		}
	}
	return nil, errors.New("there is no agent left that does not lead")
}

// busiest returns the living instance that served most sessions.
func (t *trial) busiest() *stage.Process {
	serves := map[string]int{}
	for _, s := range t.load.Shown() {
		serves[s.Instance]++
	}
	var best *stage.Process
	for _, p := range t.s.Shops() {
		if p.Alive() && (best == nil || serves[p.Name] > serves[best.Name]) {
			best = p
		}
	}
	return best
}

func (t *trial) event(what string) {
	e := event{At: api.Duration(time.Since(t.start).Round(time.Millisecond)), What: what}
	t.events = append(t.events, e)
	fmt.Fprintf(t.c.Err, "%7.1fs  %s\n", e.At.Std().Seconds(), what)
}

func items() []string {
	var out []string
	for _, p := range shop.Products() {
		out = append(out, p.ID)
	}
	return out
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
