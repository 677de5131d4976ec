package session

import (
	"context"
	"fmt"
	"io"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// Create makes a session.
type Create struct {
	flags.Verb
	in   api.SessionCreate
	text bool
}

// NewCreate returns the verb.
func NewCreate(streams term.Streams) *Create {
	c := &Create{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "session create", Operands: "[NAME=VALUE...]", Max: -1,
		Text:     "Makes a session, with attributes if some are given, and prints its id. " + valueHelp,
		Examples: []string{"rondel session create", `rondel session create -ttl=1h user=ada 'cart=["tea"]'`},
	})}
	duration := func(p *api.Duration, name, usage string) {
		c.Func(name, "DURATION", usage, false, func(s string) (err error) {
			*p, err = api.ParseDuration(s)
			return err
		})
	}
	duration(&c.in.TTL, "ttl", "idle time after which it ends (default: session.ttl of the agent)")
	duration(&c.in.MaxAge, "max-age", "time after which it ends in any case (default: session.max_age of the agent)")
	c.String(&c.in.Group, "group", "NAME", "a group that it belongs to")
	c.String(&c.in.Principal, "principal", "NAME", "whose it is")
	c.Bool(&c.text, "text", "take every VALUE as text")
	c.WithFormat()
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Create) Synopsis() string { return "Make a session" }

// Run executes the verb.
func (c *Create) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Create) run(ctx context.Context, client *api.Client, args []string) (err error) {
	if c.in.Attributes, err = attributes(args, c.text); err != nil {
		return err
	}
	s, err := client.Sessions().Create(ctx, c.in)
	if err != nil {
		return fmt.Errorf("create a session: %w", err)
	}
	return c.Show(viewOf(s), func(w io.Writer) error {
		_, err := fmt.Fprintln(w, term.Clean(s.ID))
		return err
	})
}
