package join

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// Command joins.
type Command struct{ flags.Verb }

// New returns the verb.
func New(streams term.Streams) *Command {
	c := &Command{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "join", Operands: "ADDRESS...", Min: 1, Max: -1, Args: "the address of an agent to join",
		Text: "Makes the agent join the cluster that the agents at the addresses are in. Every address is tried; one that answers is enough.\n\n" +
			"An address is HOST or HOST:PORT with the gossip port, 8701 by default.",
		Examples: []string{"rondel join 10.0.0.11", "rondel join web1 web2:8701"},
	})}
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Command) Synopsis() string { return "Join a cluster" }

// Run executes the verb.
func (c *Command) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Command) run(ctx context.Context, client *api.Client, args []string) error {
	var addresses []string
	for _, arg := range args {
		for a := range strings.SplitSeq(arg, ",") {
			if a = strings.TrimSpace(a); a != "" {
				addresses = append(addresses, a)
			}
		}
	}
	if len(addresses) == 0 {
		return flags.Misuse("the address of an agent to join is missing")
	}
	var failed []error
	for _, address := range addresses {
		err := client.Agent().Join(ctx, address)
		if api.IsUnreachable(err) {
			return err
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("join %s: %w", address, err))
		}
	}
	if len(failed) == len(addresses) {
		return errors.Join(failed...)
	}
	for _, err := range failed {
		term.Fail(c.Err, err)
	}
	_, err := io.WriteString(c.Out, fmt.Sprintf("Joined: %d of %d addresses answered.\n", len(addresses)-len(failed), len(addresses)))
	return err
}
