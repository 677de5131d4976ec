package forceleave

import (
	"context"
	"fmt"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// Command marks a failed member as left.
type Command struct {
	flags.Verb
	prune bool
}

// New returns the verb.
func New(streams term.Streams) *Command {
	c := &Command{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "force-leave", Operands: "NODE", Min: 1, Max: 1, Args: "the name of a failed member",
		Text: "Marks a failed member as left, so that its place on the ring and its vote are given up at once. " +
			"Its slots go to others; where they wait for it, since it alone held all that was acknowledged, they begin with what the others have.\n\n" +
			"It is refused for a member that is alive; use `rondel leave` there.",
		Examples: []string{"rondel force-leave web3", "rondel force-leave -prune web3"},
	})}
	c.Bool(&c.prune, "prune", "also take it off the list of members")
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Command) Synopsis() string { return "Declare a failed member gone for good" }

// Run executes the verb.
func (c *Command) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Command) run(ctx context.Context, client *api.Client, args []string) error {
	if err := client.Agent().ForceLeave(ctx, args[0], c.prune); err != nil {
		return err // names the member
	}
	_, err := fmt.Fprintf(c.Out, "Member %s has left.\n", term.Clean(args[0]))
	return err
}
