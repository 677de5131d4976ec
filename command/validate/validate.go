package validate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/settings"
	"github.com/rondel-project/rondel/command/term"
)

// Command checks configuration.
type Command struct {
	flags.Verb
	settings settings.Settings
	show     bool
}

type report struct {
	Valid    bool
	Problems []problem
	Warnings []problem
	Options  []option `json:",omitempty"` // with -show
}

type problem struct {
	Source string // file, flag or environment variable
	Line   int
	Option string
	Value  string
	Rule   string
}

type option struct {
	Option string
	Value  string
	Origin string
}

// New returns the verb.
func New(streams term.Streams) *Command {
	c := &Command{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "validate", Operands: "PATH...", Min: 1, Max: -1, Args: "a file or directory",
		Text: "Checks configuration files and directories, in the order given, together with the environment and the flags that the agent will have. " +
			"It needs no agent, reports every problem at once, and comes to the same verdict as the start of an agent on this machine.",
		Examples: []string{"rondel validate /etc/rondel.d", "rondel validate -dev shop.hcl", "rondel validate -show -data-dir=/var/lib/rondel /etc/rondel.d"},
	})}
	c.Bool(&c.show, "show", "show every option in force and where it comes from")
	c.settings.Declare(c.Set, false)
	c.WithFormat()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Command) Synopsis() string { return "Check configuration files" }

// Run executes the verb.
func (c *Command) Run(args []string) int { return c.Execute(args, c.run) }

func (c *Command) run(_ context.Context, args []string) error {
	loaded, err := c.settings.Load(os.Environ(), args...)
	var problems config.Problems
	if err != nil && !errors.As(err, &problems) {
		return err
	}
	out := report{Valid: err == nil, Problems: convert(problems), Warnings: convert(loaded.Warnings)}
	if c.show && err == nil {
		out.Options = []option{}
		for _, e := range loaded.Effective() {
			out.Options = append(out.Options, option(e))
		}
	}
	if c.JSON() {
		if werr := term.WriteJSON(c.Out, out); werr != nil {
			return werr
		}
	} else if werr := c.people(loaded, out); werr != nil {
		return werr
	}
	if err != nil {
		return fmt.Errorf("the configuration has %s:\n%w", count(len(problems)), err)
	}
	return nil
}

func (c *Command) people(loaded config.Loaded, out report) error {
	for _, w := range loaded.Warnings {
		fmt.Fprintln(c.Err, "Warning:", term.Clean(w.Error()))
	}
	if !out.Valid {
		return nil
	}
	if c.show {
		return c.Show(out, func(w io.Writer) error {
			t := term.NewTable("Option", "Value", "Origin")
			for _, o := range out.Options {
				t.Row(o.Option, o.Value, o.Origin)
			}
			return t.Write(w)
		})
	}
	_, err := fmt.Fprintln(c.Out, "The configuration is valid.")
	return err
}

func convert(problems config.Problems) []problem {
	out := []problem{}
	for _, p := range problems {
		out = append(out, problem{Source: p.At.Source, Line: p.At.Line, Option: p.Option, Value: p.Value, Rule: p.Rule})
	}
	return out
}

func count(n int) string {
	if n == 1 {
		return "a problem"
	}
	return fmt.Sprintf("%d problems", n)
}
