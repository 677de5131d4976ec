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
	Moving  int
	Short   int
	Members []place
}

type place struct {
	Name     string
	Position int
	State    string
	Draining bool
	Slots    int // that it is home to
	Owned    int // that it serves now
	Copies   int // that it holds for others
	Sessions int
}

// New returns the verb.
func New(streams term.Streams) *Command {
	c := &Command{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "ring",
		Text: "Shows the ring: the members in their order, to how many of the 1,024 shares of the session space (slots) each is home, how many it serves now, how many sessions it serves, and who leads. " +
			"While slots move, or copies are restored after a loss, it says of how many slots.\n\n" +
			"Beside each session's owner the next two live members in this order hold copies.",
		Examples: []string{"rondel ring", "rondel ring locate cart-42", "rondel ring rebalance -wait"},
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
	view := ringView{Epoch: info.Epoch, Leader: info.Leader, Moving: info.Moving, Short: info.Short, Members: []place{}}
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
		under := ""
		if view.Moving > 0 {
			under = fmt.Sprintf(", slots on their way to another member: %d", view.Moving)
		}
		if view.Short > 0 {
			under += fmt.Sprintf(", slots that lack a copy: %d", view.Short)
		}
		if _, err := fmt.Fprintf(w, "Epoch %d, leader %s%s\n\n", view.Epoch, term.Clean(leader), under); err != nil {
			return err
		}
		t := term.NewTable("Position", "Name", "State", "Slots", "Serves", "Sessions")
		for _, m := range view.Members {
			t.Row(m.Position, m.Name, m.State, m.Slots, m.Owned, m.Sessions)
		}
		return t.Write(w)
	})
}
