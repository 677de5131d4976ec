package members

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// Command lists members.
type Command struct {
	flags.Verb
	status   string
	detailed bool
}

// member is one line of the output.
type member struct {
	Name        string
	ID          string
	Address     string // of gossip
	Status      string
	Role        string
	Version     string
	CPU         float64 // share of all cores
	InFlight    int
	RequestRate float64
	Sessions    int
	Draining    bool
	Tags        map[string]string
}

// New returns the verb.
func New(streams term.Streams) *Command {
	c := &Command{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "members",
		Text: "Lists the members of the cluster: every agent that the one asked knows, also those that have failed or left.\n\n" +
			"The load is the share of a machine's processors that is in use.",
		Examples: []string{"rondel members", "rondel members -status='alive|suspect'", "rondel members -format=json"},
	})}
	c.String(&c.status, "status", "REGEX", "only members whose whole status matches: alive, suspect, failed, leaving, left")
	c.Bool(&c.detailed, "detailed", "also show ids, requests and tags")
	c.WithFormat()
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Command) Synopsis() string { return "List the members of the cluster" }

// Run executes the verb.
func (c *Command) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Command) run(ctx context.Context, client *api.Client, _ []string) error {
	wanted, err := regexp.Compile("^(?:" + c.status + ")$")
	if err != nil {
		return flags.Misuse("option -status: %v", err)
	}
	all, err := client.Agent().Members(ctx)
	if err != nil {
		return fmt.Errorf("list the members: %w", err)
	}
	list := []member{}
	for _, m := range all {
		if c.status == "" || wanted.MatchString(m.Status) {
			list = append(list, convert(m))
		}
	}
	slices.SortFunc(list, func(a, b member) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return c.Show(list, func(w io.Writer) error { return c.table(list).Write(w) })
}

func convert(m api.Member) member {
	tags := m.Tags
	if tags == nil {
		tags = map[string]string{}
	}
	return member{
		Name: m.Name, ID: m.ID, Address: net.JoinHostPort(m.Addr, strconv.Itoa(m.Port)), Status: m.Status, Role: m.Role, Version: m.Version,
		CPU: m.Load.CPU, InFlight: m.Load.InFlight, RequestRate: m.Load.RequestRate, Sessions: m.Sessions, Draining: m.Draining, Tags: tags,
	}
}

func (c *Command) table(list []member) *term.Table {
	header := []string{"Name", "Address", "Status", "Role", "Version", "Load", "Sessions"}
	if c.detailed {
		header = append(header, "InFlight", "Requests/s", "ID", "Tags")
	}
	t := term.NewTable(header...)
	for _, m := range list {
		status := m.Status
		if m.Draining {
			status += ", draining"
		}
		row := []any{m.Name, m.Address, status, m.Role, m.Version, fmt.Sprintf("%.0f%%", m.CPU*100), m.Sessions}
		if c.detailed {
			row = append(row, m.InFlight, fmt.Sprintf("%.1f", m.RequestRate), m.ID, tagText(m.Tags))
		}
		t.Row(row...)
	}
	return t
}

func tagText(tags map[string]string) string {
	var parts []string
	for k, v := range tags {
		parts = append(parts, k+"="+v)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}
