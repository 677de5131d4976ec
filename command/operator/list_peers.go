package operator

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

// ListPeers lists raft's servers.
type ListPeers struct{ flags.Verb }

type peers struct {
	Index   uint64
	Leader  string // empty: none now, and the list may be old
	Servers []server
}

type server struct {
	Node    string
	ID      string
	Address string
	State   string // leader or follower, or why it is neither: failed, left
	Voter   bool
}

// NewListPeers returns the verb.
func NewListPeers(streams term.Streams) *ListPeers {
	c := &ListPeers{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "operator raft list-peers",
		Text: "Lists the members that raft knows: those who vote for a leader and those who stand by. It works without a leader, too; the list is then what the agent asked knew last, and a line on stderr says so.",
		Examples: []string{
			"rondel operator raft list-peers",
			"rondel operator raft list-peers -format=json",
		},
	})}
	c.WithFormat()
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *ListPeers) Synopsis() string { return "List those who vote for a leader" }

// Run executes the verb.
func (c *ListPeers) Run(args []string) int { return c.Ask(args, c.run) }

func (c *ListPeers) run(ctx context.Context, client *api.Client, _ []string) error {
	conf, err := client.Operator().RaftConfiguration(ctx)
	if err != nil {
		return fmt.Errorf("read raft's configuration: %w", err)
	}
	view := peers{Index: conf.Index, Leader: conf.Leader, Servers: []server{}}
	voters := 0
	for _, s := range conf.Servers {
		state := "follower"
		switch {
		case s.Leader:
			state = "leader"
		case s.Status != "" && s.Status != "alive" && s.Status != "suspect":
			state = s.Status
		}
		if s.Voter {
			voters++
		}
		view.Servers = append(view.Servers, server{Node: s.Node, ID: s.ID, Address: s.Address, State: state, Voter: s.Voter})
	}
	slices.SortFunc(view.Servers, func(a, b server) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID)) })
	switch {
	case conf.Leader != "":
	case voters == 0:
		fmt.Fprintln(c.Err, "There is no leader, and no cluster has been formed yet: bootstrap_expect forms one, join finds one.")
	default:
		fmt.Fprintf(c.Err, "There is no leader now, so this list may be old. %d of %d voters must be running for one to be elected; sessions are served meanwhile.\n", voters/2+1, voters)
	}
	return c.Show(view, func(w io.Writer) error {
		t := term.NewTable("Node", "ID", "Address", "State", "Voter")
		for _, s := range view.Servers {
			t.Row(s.Node, s.ID, s.Address, s.State, s.Voter)
		}
		return t.Write(w)
	})
}
