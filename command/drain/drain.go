package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/handover"
	"github.com/rondel-project/rondel/command/term"
)

// Command drains a member.
type Command struct {
	flags.Verb
	enable, disable, wait bool
	node                  string
	deadline              time.Duration
}

// New returns the verb.
func New(streams term.Streams) *Command {
	c := &Command{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "drain",
		Text: "Empties a member while it stays one: it takes no new sessions, the instances beside it get no new clients where others can take them, it goes on serving the sessions it has, " +
			"and hands them over to other members, a few shares of the session space at a time. No request fails for it. A drained member can be stopped or restarted without anybody noticing; " +
			"it stays drained until -disable, over restarts too.\n\n" +
			"With -wait the command returns when nothing is left with the member: no session, and no copy that counts. When -deadline is over before that it ends with 1 and says what is left; " +
			"the drain goes on, and `rondel drain -wait` waits for it again.",
		Examples: []string{"rondel drain -enable -wait", "rondel drain -enable -wait -deadline=10m -node=web3", "rondel drain -disable -node=web3"},
	})}
	c.Bool(&c.enable, "enable", "begin")
	c.Bool(&c.disable, "disable", "end: the member takes new sessions again, and gets its share of the empty and idle slots back")
	c.Bool(&c.wait, "wait", "return when the last session has gone, with progress on stderr")
	c.Func("deadline", "DURATION", "how long -wait waits, e.g. 10m (default: until it is done)", false, func(s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			return flags.Misuse("option -deadline is a time with a unit, like 90s or 10m, not %q", s)
		}
		c.deadline = d
		return nil
	})
	c.String(&c.node, "node", "NAME", "the member to drain (default: the agent that is asked)")
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Command) Synopsis() string { return "Move all sessions off a member that stays one" }

// Run executes the verb.
func (c *Command) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Command) check() error {
	switch {
	case c.enable && c.disable, !c.enable && !c.disable && !c.wait:
		return flags.Misuse("give either -enable or -disable, or -wait alone for a drain that goes on")
	case c.disable && c.wait:
		return flags.Misuse("option -wait goes with -enable: there is nothing to wait for when a drain ends")
	case c.deadline > 0 && !c.wait:
		return flags.Misuse("option -deadline goes with -wait: it ends the waiting, not the drain")
	}
	return nil
}

func (c *Command) run(ctx context.Context, client *api.Client, _ []string) error {
	if err := c.check(); err != nil {
		return err
	}
	name := c.node
	switch {
	case c.enable || c.disable:
		out, err := client.Agent().DrainMember(ctx, c.node, c.enable)
		if err != nil {
			return fmt.Errorf("drain: %w", err)
		}
		name = out.Node
	case name == "":
		self, err := client.Agent().Self(ctx)
		if err != nil {
			return fmt.Errorf("ask the agent for its name: %w", err)
		}
		name = self.Member.Name
	}
	if c.disable {
		_, err := fmt.Fprintf(c.Out, "%s takes sessions again.\n", term.Clean(name))
		return err
	}
	if c.enable {
		c.warn(ctx, client, name)
	}
	if !c.wait {
		_, err := fmt.Fprintf(c.Out, "%s drains: it takes no new sessions, and hands over those it has. `rondel drain -wait -node=%s` waits for the end.\n", term.Clean(name), term.Clean(name))
		return err
	}
	return c.follow(ctx, client, name)
}

// warn tells when the members that stay are fewer than sessions have copies.
func (c *Command) warn(ctx context.Context, client *api.Client, name string) {
	info, _, err := client.Ring().Get(ctx, api.Wait{})
	if err != nil {
		return // what follows meets the same trouble, and says so
	}
	left := 0
	for _, m := range info.Members {
		if m.Name != name && !m.Draining && m.State == "up" {
			left++
		}
	}
	if left == 1 {
		fmt.Fprintln(c.Err, "Only one other member is left to hold sessions: until more come, they have no second copy.")
	}
}

func (c *Command) follow(ctx context.Context, client *api.Client, name string) error {
	if c.deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.deadline)
		defer cancel()
	}
	w := handover.Watcher{Client: client, Err: c.Err}
	last, err := w.Until(ctx, func(info *api.RingInfo) string { return handover.Left(info, name) }, func(info *api.RingInfo) (bool, error) {
		m := handover.Find(info, name)
		switch {
		case m == nil:
			return false, fmt.Errorf("wait for %s: %w; `rondel ring` lists the members that are", name, handover.ErrGone)
		case !m.Draining:
			return false, fmt.Errorf("%s does not drain; `rondel drain -enable -node=%s` begins", name, name)
		}
		return m.Owned+m.Copies == 0, nil
	})
	switch {
	case err == nil:
		_, err = fmt.Fprintf(c.Out, "%s is drained: no session is left with it.\n", term.Clean(name))
		return err
	case errors.Is(err, context.DeadlineExceeded) && last != nil:
		return fmt.Errorf("after %s %s; the drain goes on, `rondel drain -wait -node=%s` waits for it again", c.deadline, handover.Left(last, name), name)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted; the drain of %s goes on, `rondel drain -disable -node=%s` ends it", name, name)
	}
	return err
}
