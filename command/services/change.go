package services

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// Deregister takes instances out.
type Deregister struct{ flags.Verb }

// NewDeregister returns the verb.
func NewDeregister(streams term.Streams) *Deregister {
	c := &Deregister{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "services deregister", Operands: "ID...", Min: 1, Max: -1, Args: "the id of an instance",
		Text:     "Takes instances of this agent out: they get no more requests. `rondel services drain` lets those be served first that are there.",
		Examples: []string{"rondel services deregister shop"},
	})}
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Deregister) Synopsis() string { return "Take instances out" }

// Run executes the verb.
func (c *Deregister) Run(args []string) int {
	return c.Ask(args, func(ctx context.Context, client *api.Client, args []string) error {
		for _, id := range args {
			if err := client.Agent().Deregister(ctx, id); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(c.Out, "Deregistered %s.\n", term.Clean(id)); err != nil {
				return err
			}
		}
		return nil
	})
}

// toggle is what maint and drain share: a state of one instance to enter or
// to end.
type toggle struct {
	flags.Verb
	enable, disable bool
	id, reason      string
}

func (t *toggle) declare() {
	t.Bool(&t.enable, "enable", "begin")
	t.Bool(&t.disable, "disable", "end")
	t.String(&t.id, "id", "ID", "the instance, as `rondel services list` shows it")
	t.WithAgent()
}

func (t *toggle) check() error {
	switch {
	case t.enable == t.disable:
		return flags.Misuse("give either -enable or -disable")
	case t.id == "":
		return flags.Misuse("give the instance with -id=ID")
	case t.disable && t.reason != "":
		return flags.Misuse("option -reason goes with -enable")
	}
	return nil
}

// Weight gives an instance another weight.
type Weight struct {
	flags.Verb
	id string
}

// NewWeight returns the verb.
func NewWeight(streams term.Streams) *Weight {
	c := &Weight{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "services weight", Operands: "WEIGHT", Min: 1, Max: 1, Args: "a whole number from 0 to 65535",
		Text: "Gives an instance of this agent another weight, at once and at all members. Users that it has stay; with weight 0 it gets no new ones.\n\n" +
			"The weight holds, over restarts too, until the instance is registered or configured with another one than now.",
		Examples: []string{"rondel services weight -id=shop 20"},
	})}
	c.String(&c.id, "id", "ID", "the instance, as `rondel services list` shows it")
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Weight) Synopsis() string { return "Give an instance another weight" }

// Run executes the verb.
func (c *Weight) Run(args []string) int {
	return c.Ask(args, func(ctx context.Context, client *api.Client, args []string) error {
		weight, err := strconv.Atoi(args[0])
		switch {
		case c.id == "":
			return flags.Misuse("give the instance with -id=ID")
		case err != nil || weight < 0 || weight > 65535:
			return flags.Misuse("a weight is a whole number from 0 to 65535")
		}
		if err := client.Agent().SetWeight(ctx, c.id, weight); err != nil {
			return fmt.Errorf("change a weight: %w", err)
		}
		_, err = fmt.Fprintf(c.Out, "%s has weight %d.\n", term.Clean(c.id), weight)
		return err
	})
}

// Maint takes an instance out of traffic for a while.
type Maint struct{ toggle }

// NewMaint returns the verb.
func NewMaint(streams term.Streams) *Maint {
	c := &Maint{toggle{Verb: flags.NewVerb(streams, flags.Usage{
		Name:     "services maint",
		Text:     "Takes an instance of this agent out of traffic at once, whatever its checks say, or puts it back. Its users go on at other instances.",
		Examples: []string{"rondel services maint -enable -id=shop -reason='new disk'", "rondel services maint -disable -id=shop"},
	})}}
	c.String(&c.reason, "reason", "TEXT", "why, for those who look at the list")
	c.declare()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Maint) Synopsis() string { return "Take an instance out of traffic, or put it back" }

// Run executes the verb.
func (c *Maint) Run(args []string) int {
	return c.Ask(args, func(ctx context.Context, client *api.Client, _ []string) error {
		if err := c.check(); err != nil {
			return err
		}
		if err := client.Agent().Maintenance(ctx, c.id, c.enable, c.reason); err != nil {
			return fmt.Errorf("change maintenance of %s: %w", c.id, err)
		}
		state := "is out of traffic"
		if c.disable {
			state = "gets traffic again"
		}
		_, err := fmt.Fprintf(c.Out, "%s %s.\n", term.Clean(c.id), state)
		return err
	})
}

// Drain lets an instance run empty.
type Drain struct {
	toggle
	deadline time.Duration
}

// NewDrain returns the verb.
func NewDrain(streams term.Streams) *Drain {
	c := &Drain{toggle: toggle{Verb: flags.NewVerb(streams, flags.Usage{
		Name:     "services drain",
		Text:     "Lets an instance of this agent run empty: it keeps the users it has and gets no new ones. -disable ends that.",
		Examples: []string{"rondel services drain -enable -id=shop -deadline=10m -reason='new version'", "rondel services drain -disable -id=shop"},
	})}}
	c.String(&c.reason, "reason", "TEXT", "why, for those who look at the list")
	c.Func("deadline", "DURATION", "after it users that are still there go to other instances, e.g. 10m (default: they stay for as long as they come)", false, func(s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			return flags.Misuse("option -deadline is a time with a unit, like 90s or 10m, not %q", s)
		}
		c.deadline = d
		return nil
	})
	c.declare()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Drain) Synopsis() string { return "Give an instance no new users" }

// Run executes the verb.
func (c *Drain) Run(args []string) int {
	return c.Ask(args, func(ctx context.Context, client *api.Client, _ []string) error {
		if err := c.check(); err != nil {
			return err
		}
		if c.disable && c.deadline > 0 {
			return flags.Misuse("option -deadline goes with -enable")
		}
		if err := client.Agent().Drain(ctx, c.id, c.enable, api.DrainOptions{Deadline: c.deadline, Reason: c.reason}); err != nil {
			return fmt.Errorf("change draining of %s: %w", c.id, err)
		}
		state := "gets no new users"
		if c.disable {
			state = "gets new users again"
		}
		_, err := fmt.Fprintf(c.Out, "%s %s.\n", term.Clean(c.id), state)
		return err
	})
}
