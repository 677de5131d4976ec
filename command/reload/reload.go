package reload

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// Command reloads.
type Command struct{ flags.Verb }

type result struct {
	Changed      []string
	NeedsRestart []string
}

// New returns the verb.
func New(streams term.Streams) *Command {
	c := &Command{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "reload",
		Text: "Makes the agent read its configuration files again, as SIGHUP does. If anything is wrong with them nothing changes. Else all that can change does; " +
			"what needs a restart of the agent is named.",
		Examples: []string{"rondel reload"},
	})}
	c.WithFormat()
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Command) Synopsis() string { return "Make an agent read its configuration again" }

// Run executes the verb.
func (c *Command) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Command) run(ctx context.Context, client *api.Client, _ []string) error {
	out, err := client.Agent().Reload(ctx)
	if err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	view := result{Changed: term.List(out.Changed), NeedsRestart: term.List(out.NeedsRestart)}
	return c.Show(view, func(w io.Writer) error {
		changed := "nothing"
		if len(view.Changed) > 0 {
			changed = strings.Join(view.Changed, ", ")
		}
		if _, err := fmt.Fprintf(w, "Reloaded. Changed: %s.\n", term.Clean(changed)); err != nil {
			return err
		}
		if len(view.NeedsRestart) == 0 {
			return nil
		}
		_, err := fmt.Fprintf(w, "Needs a restart: %s.\n", term.Clean(strings.Join(view.NeedsRestart, ", ")))
		return err
	})
}
