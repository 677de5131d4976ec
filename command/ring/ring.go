package ring

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

// Command shows the ring.
type Command struct{ flags.Verb }

type ringView struct {
	Epoch   uint64
	Leader  string
	Members []place
}

type place struct {
	Name     string
	Position int
	State    string
	Slots    int
	Sessions int
}

// New returns the verb.
func New(streams term.Streams) *Command {
	c := &Command{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "ring",
		Text: "Shows the ring: the members in their order, to how many of the 1,024 shares of the session space each is home, how many sessions it serves, and who leads.\n\n" +
			"Beside each session's owner the next two live members in this order hold copies.",
		Examples: []string{"rondel ring", "rondel ring locate cart-42"},
	})}
	c.WithFormat()
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Command) Synopsis() string { return "Show the ring: order, homes of sessions, leader" }

// Run executes the verb.
func (c *Command) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Command) run(ctx context.Context, client *api.Client, _ []string) error {
	info, _, err := client.Ring().Get(ctx, api.Wait{})
	if err != nil {
		return fmt.Errorf("read the ring: %w", err)
	}
	view := ringView{Epoch: info.Epoch, Leader: info.Leader, Members: []place{}}
	for _, m := range info.Members {
		view.Members = append(view.Members, place(m))
	}
	slices.SortFunc(view.Members, func(a, b place) int { return cmp.Compare(a.Position, b.Position) })
	if info.Leader == "" {
		fmt.Fprintln(c.Err, "There is no leader now: the ring cannot change until a majority of voters is back.")
	}
	return c.Show(view, func(w io.Writer) error {
		leader := view.Leader
		if leader == "" {
			leader = "none"
		}
		if _, err := fmt.Fprintf(w, "Epoch %d, leader %s\n\n", view.Epoch, term.Clean(leader)); err != nil {
			return err
		}
		t := term.NewTable("Position", "Name", "State", "Slots", "Sessions")
		for _, m := range view.Members {
			t.Row(m.Position, m.Name, m.State, m.Slots, m.Sessions)
		}
		return t.Write(w)
	})
}
