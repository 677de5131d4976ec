package ring

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/handover"
	"github.com/rondel-project/rondel/command/term"
)

// Rebalance evens the members' shares.
type Rebalance struct{ mover }

// mover is what rebalance and move share.
type mover struct {
	flags.Verb
	wait bool
}

func (m *mover) declare() {
	m.Bool(&m.wait, "wait", "return when the sessions have moved, with progress on stderr")
	m.WithAgent()
}

// NewRebalance returns the verb.
func NewRebalance(streams term.Streams) *Rebalance {
	c := &Rebalance{mover{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "ring rebalance",
		Text: "Gives every member its share of the 1,024 slots, those in use included. By itself a new member gets empty and idle slots only, so that nobody's session moves for it; " +
			"this makes it take its part of the load now. Sessions move a few slots at a time, and no request fails for it.",
		Examples: []string{"rondel ring rebalance", "rondel ring rebalance -wait"},
	})}}
	c.declare()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Rebalance) Synopsis() string { return "Give every member its share of slots now" }

// Run executes the verb.
func (c *Rebalance) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Rebalance) run(ctx context.Context, client *api.Client, _ []string) error {
	out, err := client.Ring().Rebalance(ctx)
	if err != nil {
		return fmt.Errorf("rebalance: %w", err)
	}
	if len(out.Joining) > 0 {
		fmt.Fprintf(c.Err, "Still joining, and without a share until they are up: %s. Run the command again then.\n", term.Clean(strings.Join(out.Joining, ", ")))
	}
	if out.Moved == 0 {
		if _, err := fmt.Fprintln(c.Out, "Every member has its share."); err != nil {
			return err
		}
		return c.follow(ctx, client, "")
	}
	return c.follow(ctx, client, fmt.Sprintf("%d of 1,024 slots have got another home.", out.Moved))
}

// Move gives slots of one member to another.
type Move struct {
	mover
	slots int
}

// NewMove returns the verb.
func NewMove(streams term.Streams) *Move {
	c := &Move{mover: mover{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "ring move", Operands: "FROM TO", Min: 2, Max: 2, Args: "the member that gives slots, or the one that gets them,",
		Text: "Makes another member home to slots of one: empty slots first, then idle ones, then those in use. Their sessions follow, a few slots at a time, and no request fails for it.\n\n" +
			"The shares then stay as they are until a member joins, leaves, drains or is given up, or until `rondel ring rebalance`.",
		Examples: []string{"rondel ring move -slots=50 web1 web2"},
	})}}
	c.Int(&c.slots, "slots", "N", "how many slots, 1 to 1024")
	c.declare()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Move) Synopsis() string { return "Give slots of one member to another" }

// Run executes the verb.
func (c *Move) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Move) run(ctx context.Context, client *api.Client, args []string) error {
	switch {
	case c.slots < 1 || c.slots > 1024:
		return flags.Misuse("give how many slots to move with -slots=N, 1 to 1024")
	case args[0] == args[1]:
		return flags.Misuse("%s cannot give slots to itself", args[0])
	}
	out, err := client.Ring().Move(ctx, c.slots, args[0], args[1])
	if err != nil {
		return fmt.Errorf("move slots: %w", err)
	}
	if out.Moved < c.slots {
		fmt.Fprintf(c.Err, "%s had only %d slots.\n", term.Clean(args[0]), out.Moved)
	}
	return c.follow(ctx, client, fmt.Sprintf("%s is now home to %d slots of %s.", term.Clean(args[1]), out.Moved, term.Clean(args[0])))
}

// follow says what has been agreed, and with -wait when it is done.
func (m *mover) follow(ctx context.Context, client *api.Client, agreed string) error {
	if !m.wait {
		if agreed == "" {
			return nil
		}
		_, err := fmt.Fprintln(m.Out, agreed+" Their sessions follow; `rondel ring` shows how many slots still move.")
		return err
	}
	w := handover.Watcher{Client: client, Err: m.Err}
	_, err := w.Until(ctx,
		func(info *api.RingInfo) string { return fmt.Sprintf("slots still on their way: %d", info.Moving) },
		func(info *api.RingInfo) (bool, error) { return info.Moving == 0, nil })
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted; what was agreed goes on, `rondel ring` shows how far it is")
	}
	if err != nil || agreed == "" {
		return err
	}
	_, err = fmt.Fprintln(m.Out, agreed+" Their sessions are there.")
	return err
}
