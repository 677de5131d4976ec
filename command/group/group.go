package group

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// Command is a verb with verbs below it and nothing of its own.
type Command struct {
	streams  term.Streams
	name     string
	synopsis string
	below    []string
}

// New returns the verb name with the verbs below it.
func New(streams term.Streams, name, synopsis string, below ...string) *Command {
	return &Command{streams: streams, name: name, synopsis: synopsis, below: below}
}

// Synopsis is the verb's line in a list.
func (c *Command) Synopsis() string { return c.synopsis }

// Help says what there is below; the command line adds the list.
func (c *Command) Help() string {
	return fmt.Sprintf("Usage: rondel %s <subcommand> [options]\n\n  %s.", c.name, c.synopsis)
}

// Run is reached when no subcommand, or an unknown one, was given.
func (c *Command) Run(args []string) int {
	if slices.Contains(args, "-h") || slices.Contains(args, "-help") || slices.Contains(args, "--help") {
		fmt.Fprintln(c.streams.Out, c.Help())
		return 0
	}
	reason := "a subcommand is missing"
	if len(args) > 0 {
		reason = fmt.Sprintf("unknown subcommand %q", args[0])
		if near := flags.Nearest(args[0], c.below); near != "" {
			reason += fmt.Sprintf("; did you mean %q?", near)
		}
	}
	term.Fail(c.streams.Err, flags.Misuse("%s", reason))
	fmt.Fprintf(c.streams.Err, "There are %s.\nTry `rondel %s -h`.\n", strings.Join(c.below, ", "), c.name)
	return 2
}
