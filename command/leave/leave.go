package leave

import (
	"context"
	"fmt"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// Command leaves.
type Command struct {
	flags.Verb
	force bool
}

// New returns the verb.
func New(streams term.Streams) *Command {
	c := &Command{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "leave",
		Text: "Makes the agent leave the cluster for good and stop: it finishes its requests, hands its sessions over, and gives up its place on the ring and its vote. " +
			"The command returns when that is done.\n\n" +
			"It refuses where the cluster would lose its quorum, and for the last member. To stop an agent that will come back, send its process SIGTERM instead.",
		Examples: []string{"rondel leave", "rondel leave -http-addr=10.0.0.11:8700"},
	})}
	c.Bool(&c.force, "force", "leave even if that costs the cluster its quorum")
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Command) Synopsis() string { return "Leave the cluster for good, after handing over sessions" }

// Run executes the verb.
func (c *Command) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Command) run(ctx context.Context, client *api.Client, _ []string) error {
	err := client.Agent().Leave(ctx, c.force)
	if api.HasCode(err, api.CodeQuorum) && !c.force {
		return fmt.Errorf("%w; -force leaves all the same", err)
	}
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	_, err = fmt.Fprintln(c.Out, "The agent has left the cluster.")
	return err
}
