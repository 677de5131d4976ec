package version

import (
	"context"
	"fmt"
	"io"

	stamped "github.com/rondel-project/rondel/agent/version"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// Command shows the version.
type Command struct{ flags.Verb }

// New returns the verb.
func New(streams term.Streams) *Command {
	c := &Command{Verb: flags.NewVerb(streams, flags.Usage{
		Name:     "version",
		Text:     "Says which version of rondel this program is, and what it was built from. The version of a running agent is in `rondel members`.",
		Examples: []string{"rondel version", "rondel version -format=json"},
	})}
	c.WithFormat()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Command) Synopsis() string { return "Say which version this is" }

// Run executes the verb.
func (c *Command) Run(args []string) int {
	return c.Execute(args, func(context.Context, []string) error {
		info := stamped.Get()
		return c.Show(info, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, info)
			return err
		})
	})
}
