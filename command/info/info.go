package info

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// Command shows an agent's figures.
type Command struct{ flags.Verb }

// New returns the verb.
func New(streams term.Streams) *Command {
	c := &Command{Verb: flags.NewVerb(streams, flags.Usage{
		Name:     "info",
		Text:     "Shows what the agent asked says about its parts: raft, gossip, the ring, sessions, the proxy. The figures are for people who look for the cause of something; with -format=json the values are texts.",
		Examples: []string{"rondel info", "rondel info -format=json"},
	})}
	c.WithFormat()
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Command) Synopsis() string { return "Show an agent's figures" }

// Run executes the verb.
func (c *Command) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Command) run(ctx context.Context, client *api.Client, _ []string) error {
	self, err := client.Agent().Self(ctx)
	if err != nil {
		return fmt.Errorf("ask the agent about itself: %w", err)
	}
	stats := self.Stats
	if stats == nil {
		stats = map[string]map[string]string{}
	}
	return c.Show(stats, func(w io.Writer) error {
		for _, part := range slices.Sorted(maps.Keys(stats)) {
			if _, err := fmt.Fprintf(w, "%s:\n", term.Clean(part)); err != nil {
				return err
			}
			t := term.NewTable()
			for _, name := range slices.Sorted(maps.Keys(stats[part])) {
				t.Row("  "+name, stats[part][name])
			}
			if err := t.Write(w); err != nil {
				return err
			}
		}
		return nil
	})
}
