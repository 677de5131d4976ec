package consensus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"

	"github.com/rondel-project/rondel/agent/member"
)

// Bootstrap makes the cluster's first Raft configuration on this server. All
// servers that do so must use the same list. It returns ErrHasState where there
// is state already.
func (n *Node) Bootstrap(ctx context.Context, servers []Server) error {
	r := n.raft.Load()
	if r == nil {
		return ErrNotRunning
	}
	var c raft.Configuration
	for _, s := range servers {
		suffrage := raft.Nonvoter
		if s.Voter {
			suffrage = raft.Voter
		}
		c.Servers = append(c.Servers, raft.Server{
			ID: raft.ServerID(s.ID), Address: raft.ServerAddress(s.Addr), Suffrage: suffrage,
		})
	}
	err := n.await(ctx, func() raft.Future { return r.BootstrapCluster(c) })
	if errors.Is(err, raft.ErrCantBootstrap) {
		err = ErrHasState
	}
	if err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	return nil
}

// Starter is a member as it stands before there is a cluster.
type Starter struct {
	ID      member.ID
	Addr    string
	Expect  int      // its bootstrap_expect; 0: it waits to be taken in
	Cluster [16]byte // zeros: it is in no cluster
}

// State is a member's answer to whether it may be part of a new cluster. List
// is who it would start with, empty where it cannot say yet.
type State struct {
	HasState bool
	Cluster  [16]byte
	Expect   int
	List     []member.ID
}

// inCluster is why nobody starts a cluster where there is one already.
const inCluster = "a member is in a cluster already"

// pick decides who starts the cluster as far as self can see: the first members
// by id of those that expect the same number, as soon as there are so many. Why
// says what is missing where there is nobody.
func pick(self Starter, seen []Starter) (list []Starter, why string) {
	all := map[member.ID]Starter{self.ID: self}
	for _, s := range seen {
		if s.ID != self.ID {
			all[s.ID] = s
		}
	}
	for _, s := range all {
		if s.Cluster != [16]byte{} {
			return nil, inCluster
		}
	}
	if self.Expect <= 0 {
		return nil, "bootstrap_expect is not set"
	}
	for id, s := range all {
		switch {
		case s.Expect == 0:
			delete(all, id)
		case s.Expect != self.Expect:
			return nil, fmt.Sprintf("members differ in bootstrap_expect: %d here, another has %d", self.Expect, s.Expect)
		}
	}
	if len(all) < self.Expect {
		return nil, fmt.Sprintf("%d of %d members are here", len(all), self.Expect)
	}
	for _, s := range all {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Starter) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return list[:self.Expect], ""
}

// agreed decides whether the cluster may be made, from the answers of the
// members asked: each of the list says the same list, and nobody has state.
func agreed(self member.ID, list []Starter, answers map[member.ID]State) (why string) {
	ids := starterIDs(list)
	if !slices.Contains(ids, self) {
		return "others start the cluster"
	}
	for _, a := range answers {
		if a.Cluster != [16]byte{} {
			return inCluster
		}
	}
	for _, a := range answers {
		if a.HasState {
			return "a member has raft state already"
		}
	}
	for _, id := range ids {
		a, ok := answers[id]
		switch {
		case id == self:
		case !ok:
			return "a member does not answer"
		case !slices.Equal(a.List, ids):
			return "members do not see the same members yet"
		}
	}
	return ""
}

func starterIDs(list []Starter) []member.ID {
	ids := make([]member.ID, 0, len(list))
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return ids
}

// BootstrapConfig makes a Bootstrap.
type BootstrapConfig struct {
	Node *Node
	Self Starter
	Log  hclog.Logger
	// View returns the members that gossip shows alive now.
	View func() []Starter
	// Ask asks a member for its State.
	Ask func(ctx context.Context, s Starter) (State, error)
	// Voters returns how many of so many members get a vote, the first by id;
	// the others follow without one. Nil: all vote.
	Voters func(members int) int
}

// Bootstrap makes the first configuration together with the other members, if
// there is no cluster to be taken into.
type Bootstrap struct {
	cfg BootstrapConfig
	log hclog.Logger

	mu     sync.Mutex // guards the following
	frozen []Starter  // the list this member told others or is about to act on
	since  time.Time
}

const (
	bootstrapEvery = 250 * time.Millisecond
	bootstrapAsk   = time.Second
	// freeze is how long a list stands once it was told: whoever asks within it
	// hears the same, so that two lists cannot both find everybody agreed.
	freeze = 10 * time.Second
)

// NewBootstrap returns a Bootstrap that has yet to Run.
func NewBootstrap(cfg BootstrapConfig) *Bootstrap {
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	return &Bootstrap{cfg: cfg, log: cfg.Log.Named("bootstrap")}
}

// State answers another member's question.
func (b *Bootstrap) State() State {
	s := State{HasState: b.cfg.Node.HasState(), Cluster: b.cfg.Node.Table().Cluster, Expect: b.cfg.Self.Expect}
	if list, _ := b.list(); !s.HasState {
		s.List = starterIDs(list)
	}
	return s
}

func (b *Bootstrap) list() ([]Starter, string) {
	view := b.cfg.View()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.frozen != nil && time.Since(b.since) < freeze {
		return b.frozen, ""
	}
	list, why := pick(b.cfg.Self, view)
	b.frozen, b.since = list, time.Now()
	return list, why
}

// Run returns when this server has Raft state that it made itself or had at the
// start; where the leader of a cluster takes it in, when the table names it.
func (b *Bootstrap) Run(ctx context.Context) error {
	select {
	case <-b.cfg.Node.Ready():
	case <-ctx.Done():
		return nil
	}
	tick := time.NewTicker(bootstrapEvery)
	defer tick.Stop()
	said := ""
	for !b.cfg.Node.HasState() {
		why, made, err := b.try(ctx)
		if made || err != nil {
			return err
		}
		if why != said && why != "" {
			if why == inCluster {
				b.log.Info("found a cluster, to be taken in by its leader")
			} else {
				b.log.Info("no cluster yet", "reason", why)
			}
			said = why
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	if said != "" {
		b.awaitNamed(ctx)
	}
	return nil
}

// awaitNamed waits until the table names this member, and says so.
func (b *Bootstrap) awaitNamed(ctx context.Context) {
	for {
		t, newer := b.cfg.Node.Watch()
		if t.ByID(b.cfg.Self.ID) != nil {
			b.log.Info("member of the cluster", "members", len(t.Members))
			return
		}
		select {
		case <-newer:
		case <-ctx.Done():
			return
		}
	}
}

func (b *Bootstrap) try(ctx context.Context) (why string, made bool, err error) {
	list, why := b.list()
	if why != "" {
		return why, false, nil
	}
	asked := b.cfg.View()
	for _, s := range list {
		if !slices.ContainsFunc(asked, func(o Starter) bool { return o.ID == s.ID }) {
			asked = append(asked, s)
		}
	}
	if why := agreed(b.cfg.Self.ID, list, b.ask(ctx, asked)); why != "" {
		return why, false, nil
	}
	voters := len(list)
	if b.cfg.Voters != nil {
		voters = max(1, b.cfg.Voters(len(list)))
	}
	var servers []Server
	for i, s := range list {
		servers = append(servers, Server{ID: s.ID, Addr: s.Addr, Voter: i < voters})
	}
	if !slices.ContainsFunc(servers, func(s Server) bool { return s.ID == b.cfg.Self.ID && s.Voter }) {
		// A server without a vote may not make the first entry itself; it gets
		// the log from whoever leads.
		return "the voters make the cluster", false, nil
	}
	err = b.cfg.Node.Bootstrap(ctx, servers)
	if errors.Is(err, ErrHasState) || ctx.Err() != nil {
		return "", false, nil
	}
	if err == nil {
		b.log.Info("cluster made", "servers", len(servers))
	}
	return "", err == nil, err
}

// ask asks all but itself at once. Who does not answer in time is left out.
func (b *Bootstrap) ask(ctx context.Context, list []Starter) map[member.ID]State {
	ctx, cancel := context.WithTimeout(ctx, bootstrapAsk)
	defer cancel()
	answers := make(map[member.ID]State)
	var mu sync.Mutex
	var g errgroup.Group
	for _, s := range list {
		if s.ID == b.cfg.Self.ID {
			continue
		}
		g.Go(func() error {
			a, err := b.cfg.Ask(ctx, s)
			if err != nil {
				b.log.Debug("member does not answer", "member", s.ID, "error", err)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			answers[s.ID] = a
			return nil
		})
	}
	_ = g.Wait() // nobody returns an error
	return answers
}
