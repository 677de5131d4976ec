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

// Stats counts sessions.
type Stats struct{ flags.Verb }

type stats struct {
	Sessions int
	Members  []memberStats
}

type memberStats struct {
	Name     string
	Status   string
	Sessions int
	Slots    int
}

// NewStats returns the verb.
func NewStats(streams term.Streams) *Stats {
	c := &Stats{Verb: flags.NewVerb(streams, flags.Usage{
		Name:     "session stats",
		Text:     "Counts sessions: in all and by the member that serves them. The figures travel by gossip and are about a second old. More about one agent is in `rondel info`.",
		Examples: []string{"rondel session stats"},
	})}
	c.WithFormat()
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Stats) Synopsis() string { return "Count sessions by member" }

// Run executes the verb.
func (c *Stats) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Stats) run(ctx context.Context, client *api.Client, _ []string) error {
	members, err := client.Agent().Members(ctx)
	if err != nil {
		return fmt.Errorf("list the members: %w", err)
	}
	ring, _, err := client.Ring().Get(ctx, api.Wait{})
	if err != nil {
		return fmt.Errorf("read the ring: %w", err)
	}
	slots := map[string]int{}
	for _, m := range ring.Members {
		slots[m.Name] = m.Slots
	}
	out := stats{Members: []memberStats{}}
	for _, m := range members {
		if m.Status == "failed" || m.Status == "left" {
			m.Sessions = 0 // what it last said; it serves none now
		}
		out.Sessions += m.Sessions
		out.Members = append(out.Members, memberStats{Name: m.Name, Status: m.Status, Sessions: m.Sessions, Slots: slots[m.Name]})
	}
	slices.SortFunc(out.Members, func(a, b memberStats) int { return cmp.Compare(a.Name, b.Name) })
	return c.Show(out, func(w io.Writer) error {
		t := term.NewTable("Member", "Status", "Sessions", "Slots")
		for _, m := range out.Members {
			t.Row(m.Name, m.Status, m.Sessions, m.Slots)
		}
		t.Row("Total", "", out.Sessions, "")
		return t.Write(w)
	})
}
