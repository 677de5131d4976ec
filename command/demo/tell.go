package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rondel-project/rondel/command/demo/load"
	"github.com/rondel-project/rondel/command/demo/stage"
)

// The story's pace: how many clicks make a chapter, and how long one may take.
const (
	chapterClicks = 40
	chapterLeast  = 4 * time.Second // a death is noticed in several ways, the slowest within that
	chapterTime   = 25 * time.Second
	clickPause    = 60 * time.Millisecond
	clickTime     = 12 * time.Second
)

// errStory means that the story did not end well.
var errStory = errors.New("the demo did not go as it should")

// story plays what a person would do: one browser, that keeps clicking.
type story struct {
	c     *Command
	s     *stage.Stage
	clock *load.Load
}

// tell plays the story once.
func (c *Command) tell(ctx context.Context, s *stage.Stage, ready time.Duration) error {
	fmt.Fprintf(c.Out, "Three agents and three shops are up, after %s. No terminal: the story plays by itself.\n", round(ready))
	t := &story{c: c, s: s, clock: load.New(load.Options{
		Targets: []string{s.Front.Address()}, Items: items(), Clients: 1, Think: clickPause, Within: clickTime,
	}, "the cart is filled")}

	clicking, stop := context.WithCancel(ctx)
	clicked := make(chan struct{})
	go func() {
		defer close(clicked)
		t.clock.Run(clicking)
	}()
	err := t.play(ctx)
	stop()
	<-clicked
	if err != nil {
		if ctx.Err() != nil {
			return errStopped
		}
		return err
	}
	return t.end(ctx)
}

func (t *story) play(ctx context.Context) error {
	if err := t.chapter(ctx); err != nil {
		return err
	}
	shown := t.shown()
	fmt.Fprintf(t.c.Out, "A browser at %s has put %d things into its cart.\n  %s answers, %s owns the session.\n", t.s.Front.URL(), shown.Things, shown.Instance, shown.Owner)

	if err := t.kill(ctx, shown.Owner, "which owned the cart"); err != nil {
		return err
	}
	return t.kill(ctx, t.shown().Instance, "which served the browser")
}

// kill ends a process and waits until the browser has gone on for a while.
func (t *story) kill(ctx context.Context, name, why string) error {
	p := t.s.Find(name)
	if p == nil {
		return fmt.Errorf("%w: there is no process %q to kill", errStory, name)
	}
	t.clock.Phase(name + " killed")
	if err := t.s.Kill(p); err != nil {
		return err
	}
	fmt.Fprintf(t.c.Out, "kill -9 %d: that was %s, %s.\n", p.PID, name, why)
	if err := t.chapter(ctx); err != nil {
		return err
	}
	shown := t.shown()
	fmt.Fprintf(t.c.Out, "  The cart is still there, %d things. %s answers, %s owns the session.\n", shown.Things, shown.Instance, shown.Owner)
	return nil
}

// chapter waits for enough clicks of both kinds.
func (t *story) chapter(ctx context.Context) error {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, chapterTime)
	defer cancel()
	tick := time.NewTicker(clickPause)
	defer tick.Stop()
	for {
		reads, writes := t.clock.Done()
		if reads >= chapterClicks/3 && writes >= chapterClicks/2 && reads+writes >= chapterClicks && time.Since(start) >= chapterLeast {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: only %d reads and %d writes succeeded within %s", errStory, reads, writes, chapterTime)
		case <-tick.C:
		}
	}
}

func (t *story) shown() load.Shown { return t.clock.Shown()[0] }

// end looks at the cart a last time and says how it was.
func (t *story) end(ctx context.Context) error {
	report := t.clock.Settle(ctx)
	fmt.Fprintln(t.c.Out)
	if err := phaseTable(resultOf(report, nil).Phases).Write(t.c.Out); err != nil {
		return err
	}
	v := report.Verdict
	fmt.Fprintf(t.c.Out, "\n%d writes acknowledged, %d lost, %d applied twice, %d sessions lost.\n", report.Acknowledged, v.WritesLost, v.AppliedTwice, v.SessionsLost)
	if !report.Clean() {
		return fmt.Errorf("%w: the cart is not what it was", errStory)
	}
	return nil
}
