package session

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// Get shows a session.
type Get struct {
	flags.Verb
	stale bool
}

// view is a session as these verbs print it.
type view struct {
	ID         string
	Version    uint64
	Created    time.Time
	Accessed   time.Time
	Expires    time.Time
	TTL        string
	MaxAge     string
	Group      string
	Principal  string
	Attributes map[string]json.RawMessage
	Owner      string
	Replicas   []string
	Stale      bool
}

func viewOf(s *api.Session) view {
	attributes := s.Attributes
	if attributes == nil {
		attributes = map[string]json.RawMessage{}
	}
	return view{
		ID: s.ID, Version: s.Version, Created: s.Created, Accessed: s.Accessed, Expires: s.Expires, TTL: s.TTL.String(), MaxAge: s.MaxAge.String(),
		Group: s.Group, Principal: s.Principal, Attributes: attributes, Owner: s.Owner, Replicas: term.List(s.Replicas), Stale: s.Stale,
	}
}

// NewGet returns the verb.
func NewGet(streams term.Streams) *Get {
	c := &Get{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "session get", Operands: "ID", Min: 1, Max: 1, Args: "the id of a session",
		Text:     "Shows a session with its attributes, as its owner has it. Reading does not prolong it.",
		Examples: []string{"rondel session get 5bYx…", "rondel session get -stale -format=json 5bYx…"},
	})}
	c.Bool(&c.stale, "stale", "let any member that holds a copy answer; it may be behind")
	c.WithFormat()
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Get) Synopsis() string { return "Show a session" }

// Run executes the verb.
func (c *Get) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Get) run(ctx context.Context, client *api.Client, args []string) error {
	var opts []api.Option
	if c.stale {
		opts = append(opts, api.WithStale())
	}
	s, err := client.Sessions().Get(ctx, args[0], opts...)
	if err != nil {
		return fmt.Errorf("get the session: %w", err)
	}
	v := viewOf(s)
	return c.Show(v, v.write)
}

func (v view) write(w io.Writer) error {
	t := term.NewTable()
	t.Row("ID", v.ID)
	t.Row("Version", v.Version)
	t.Row("Created", v.Created.Format(time.RFC3339))
	t.Row("Accessed", v.Accessed.Format(time.RFC3339))
	t.Row("Expires", v.Expires.Format(time.RFC3339))
	t.Row("TTL", v.TTL)
	t.Row("MaxAge", v.MaxAge)
	t.Row("Group", v.Group)
	t.Row("Principal", v.Principal)
	t.Row("Owner", v.Owner)
	t.Row("Replicas", strings.Join(v.Replicas, ", "))
	if err := t.Write(w); err != nil || len(v.Attributes) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t = term.NewTable("Attribute", "Value")
	for _, name := range slices.Sorted(maps.Keys(v.Attributes)) {
		t.Row(name, string(v.Attributes[name]))
	}
	return t.Write(w)
}
