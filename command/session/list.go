package session

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// pageSize is how many sessions one request asks for.
const pageSize = 1000

// List lists sessions.
type List struct {
	flags.Verb
	in    api.SessionList
	limit int
}

type entry struct {
	ID        string
	Size      int
	Version   uint64
	Group     string
	Principal string
}

// NewList returns the verb.
func NewList(streams term.Streams) *List {
	c := &List{limit: pageSize, Verb: flags.NewVerb(streams, flags.Usage{
		Name:     "session list",
		Text:     "Lists sessions by id: how large they are and whose, never what is in them. Where there are more than -limit, a line on stderr says so.",
		Examples: []string{"rondel session list", "rondel session list -principal=ada -limit=0"},
	})}
	c.String(&c.in.Prefix, "prefix", "TEXT", "only ids that begin so")
	c.String(&c.in.Group, "group", "NAME", "only sessions of this group")
	c.String(&c.in.Principal, "principal", "NAME", "only sessions of this principal")
	c.String(&c.in.After, "after", "ID", "only ids behind this one")
	c.Int(&c.limit, "limit", "N", "how many at most; 0: all")
	c.WithFormat()
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *List) Synopsis() string { return "List sessions" }

// Run executes the verb.
func (c *List) Run(args []string) int { return c.Ask(args, c.run) }

func (c *List) run(ctx context.Context, client *api.Client, _ []string) error {
	if c.limit < 0 {
		return flags.Misuse("option -limit is not below 0")
	}
	list := []entry{}
	in := c.in
	for c.limit == 0 || len(list) <= c.limit {
		// One more than asked for tells whether there are more.
		in.Limit = pageSize
		if c.limit > 0 {
			in.Limit = min(pageSize, c.limit+1-len(list))
		}
		page, err := client.Sessions().List(ctx, in)
		if err != nil {
			return fmt.Errorf("list sessions: %w", err)
		}
		for _, s := range page {
			list = append(list, entry(s))
		}
		if len(page) < in.Limit {
			break
		}
		in.After = page[len(page)-1].ID
	}
	if c.limit > 0 && len(list) > c.limit {
		list = list[:c.limit]
		fmt.Fprintf(c.Err, "There are more than these %d; -after=%s continues, -limit=0 shows all.\n", c.limit, term.Clean(list[c.limit-1].ID))
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.ID, b.ID) })
	return c.Show(list, func(w io.Writer) error {
		t := term.NewTable("ID", "Size", "Version", "Group", "Principal")
		for _, s := range list {
			t.Row(s.ID, s.Size, s.Version, s.Group, s.Principal)
		}
		return t.Write(w)
	})
}
