package session

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// mutation is the answer to a change as these verbs print it.
type mutation struct {
	ID       string
	Version  uint64
	Owner    string
	Replicas []string
}

func mutationOf(m *api.Mutation) mutation {
	return mutation{ID: m.ID, Version: m.Version, Owner: m.Owner, Replicas: term.List(m.Replicas)}
}

func (m mutation) held() string {
	if len(m.Replicas) == 0 {
		return "held by " + m.Owner + " alone"
	}
	return "held by " + m.Owner + ", " + strings.Join(m.Replicas, ", ")
}

// Put changes attributes.
type Put struct {
	flags.Verb
	replace, text bool
}

// NewPut returns the verb.
func NewPut(streams term.Streams) *Put {
	c := &Put{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "session put", Operands: "ID NAME=VALUE...", Min: 1, Max: -1, Args: "the id of a session",
		Text: "Sets attributes of a session and leaves the others as they are; null removes one. " + valueHelp + "\n\n" +
			"It is done when the owner and its copies have it, and says which members those are.",
		Examples: []string{"rondel session put 5bYx… user=ada visits=3", "rondel session put 5bYx… cart=null", "rondel session put -replace 5bYx… user=ada"},
	})}
	c.Bool(&c.replace, "replace", "remove all attributes that are not given")
	c.Bool(&c.text, "text", "take every VALUE as text")
	c.WithFormat()
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Put) Synopsis() string { return "Change a session's attributes" }

// Run executes the verb.
func (c *Put) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Put) run(ctx context.Context, client *api.Client, args []string) error {
	values, err := attributes(args[1:], c.text)
	if err != nil {
		return err
	}
	if len(values) == 0 && !c.replace {
		return flags.Misuse("a NAME=VALUE to set is missing")
	}
	change := client.Sessions().Patch
	if c.replace {
		change = client.Sessions().Put
	}
	m, err := change(ctx, args[0], values)
	if err != nil {
		return fmt.Errorf("change the session: %w", err)
	}
	return c.Show(mutationOf(m), func(w io.Writer) error {
		_, err := fmt.Fprintln(w, term.Clean(fmt.Sprintf("Version %d, %s.", m.Version, mutationOf(m).held())))
		return err
	})
}

// Delete ends a session.
type Delete struct{ flags.Verb }

// NewDelete returns the verb.
func NewDelete(streams term.Streams) *Delete {
	c := &Delete{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "session delete", Operands: "ID", Min: 1, Max: 1, Args: "the id of a session",
		Text:     "Ends a session on all members. Its id is never valid again.",
		Examples: []string{"rondel session delete 5bYx…"},
	})}
	c.WithFormat()
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Delete) Synopsis() string { return "End a session" }

// Run executes the verb.
func (c *Delete) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Delete) run(ctx context.Context, client *api.Client, args []string) error {
	m, err := client.Sessions().Delete(ctx, args[0])
	if err != nil {
		return fmt.Errorf("delete the session: %w", err)
	}
	return c.Show(mutationOf(m), func(w io.Writer) error {
		_, err := fmt.Fprintln(w, "Deleted.")
		return err
	})
}
