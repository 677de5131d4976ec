package ring

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// Locate says who holds a key. It is also the verb "session locate".
type Locate struct {
	flags.Verb
	what string
}

type located struct {
	Slot       int
	Home       string
	Owner      string
	Successors []string
}

// NewLocate returns the verb "ring locate".
func NewLocate(streams term.Streams) *Locate {
	return newLocate(streams, "key", flags.Usage{
		Name: "ring locate", Operands: "KEY", Min: 1, Max: 1, Args: "the key to locate",
		Text:     "Says which share of the session space a key falls into, which member is home to it, which one serves it now, and which ones hold the copies. A key is the id of a session or any other text.",
		Examples: []string{"rondel ring locate cart-42"},
	})
}

// NewSessionLocate returns the verb "session locate".
func NewSessionLocate(streams term.Streams) *Locate {
	return newLocate(streams, "session", flags.Usage{
		Name: "session locate", Operands: "ID", Min: 1, Max: 1, Args: "the id of a session",
		Text:     "Says which member serves a session and which ones hold copies of it. Whether there is such a session it does not ask.",
		Examples: []string{"rondel session locate 5bYx…"},
	})
}

func newLocate(streams term.Streams, what string, u flags.Usage) *Locate {
	c := &Locate{Verb: flags.NewVerb(streams, u), what: what}
	c.WithFormat()
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Locate) Synopsis() string { return "Say which members hold a " + c.what }

// Run executes the verb.
func (c *Locate) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Locate) run(ctx context.Context, client *api.Client, args []string) error {
	at, err := client.Ring().Locate(ctx, args[0])
	if err != nil {
		return fmt.Errorf("locate the %s: %w", c.what, err)
	}
	view := located{Slot: at.Slot, Home: at.Home, Owner: at.Owner, Successors: term.List(at.Successors)}
	return c.Show(view, func(w io.Writer) error {
		t := term.NewTable()
		t.Row("Slot", view.Slot)
		t.Row("Home", view.Home)
		t.Row("Owner", view.Owner)
		t.Row("Successors", strings.Join(view.Successors, ", "))
		return t.Write(w)
	})
}
