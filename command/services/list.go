package services

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// List lists instances.
type List struct {
	flags.Verb
	local bool
}

type instance struct {
	Service     string
	ID          string
	Member      string
	Address     string
	Weight      int
	Backup      bool
	State       string // passing, warning, critical, maintenance, drain or ejected
	Reason      string
	Load        float64
	InFlight    int
	Queued      int
	NewSessions uint64
	DrainUntil  string
	Tags        []string
}

// NewList returns the verb.
func NewList(streams term.Streams) *List {
	c := &List{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "services list",
		Text: "Lists the instances of applications that get traffic, on all members, with their health. " +
			"New sessions and requests in flight are those that the agent asked has sent there.",
		Examples: []string{"rondel services list", "rondel services list -local -format=json"},
	})}
	c.Bool(&c.local, "local", "only instances on the member of the agent asked")
	c.WithFormat()
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *List) Synopsis() string { return "List instances and their health" }

// Run executes the verb.
func (c *List) Run(args []string) int { return c.Ask(args, c.run) }

func (c *List) run(ctx context.Context, client *api.Client, _ []string) error {
	member := ""
	if c.local {
		self, err := client.Agent().Self(ctx)
		if err != nil {
			return fmt.Errorf("ask the agent for its name: %w", err)
		}
		member = self.Member.Name
	}
	all, _, err := client.Catalog().Services(ctx, api.Wait{})
	if err != nil {
		return fmt.Errorf("list the services: %w", err)
	}
	list := []instance{}
	for _, service := range all {
		for _, i := range service.Instances {
			if !c.local || i.Member == member {
				list = append(list, convert(service.Name, i))
			}
		}
	}
	slices.SortFunc(list, func(a, b instance) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Member, b.Member), cmp.Compare(a.ID, b.ID))
	})
	return c.Show(list, func(w io.Writer) error {
		t := term.NewTable("Service", "ID", "Member", "Address", "State", "Weight", "Backup", "Load", "InFlight", "Queued", "NewSessions", "Tags", "Reason")
		for _, i := range list {
			t.Row(i.Service, i.ID, i.Member, i.Address, i.State, i.Weight, i.Backup, fmt.Sprintf("%.0f%%", i.Load*100), i.InFlight, i.Queued, i.NewSessions, strings.Join(i.Tags, ","), i.Reason)
		}
		return t.Write(w)
	})
}

func convert(service string, i api.CatalogInstance) instance {
	state := i.Health
	switch {
	case i.Maintenance:
		state = "maintenance"
	case i.Health == "critical":
	case !i.EjectedUntil.IsZero():
		state = "ejected"
	case i.Drain:
		state = "drain"
	}
	until := ""
	if !i.DrainUntil.IsZero() {
		until = i.DrainUntil.UTC().Format(time.RFC3339)
	}
	return instance{
		Service: service, ID: i.ID, Member: i.Member, Address: net.JoinHostPort(i.Address, strconv.Itoa(i.Port)), Weight: i.Weight, Backup: i.Backup,
		State: state, Reason: i.Reason, DrainUntil: until, Queued: i.Queued, Load: i.Load, InFlight: i.InFlight, NewSessions: i.NewSessions, Tags: term.List(i.Tags),
	}
}
