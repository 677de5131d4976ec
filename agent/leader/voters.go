package leader

import (
	"cmp"
	"slices"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

// spares is how many servers follow without a vote, ready to be given one.
const spares = 4

// VoterCount returns how many of so many members vote. Two voters would both be
// needed, so of two one votes; more than five only slow each other down.
func VoterCount(members int) int {
	switch {
	case members <= 2:
		return 1
	case members <= 6:
		return 3
	}
	return 5
}

// Server is one server of the Raft configuration.
type Server struct {
	ID    member.ID
	Addr  string
	Voter bool
}

// Electorate is what the choice of servers depends on.
type Electorate struct {
	Self    member.ID
	Table   *ring.Table
	Servers []Server
	Alive   func(member.ID) bool // gossip sees it alive
	Ready   func(member.ID) bool // it has followed closely for a while
}

// StepKind is what to do to a server.
type StepKind uint8

// The steps. Each is one change of the configuration.
const (
	StepReaddress StepKind = iota + 1 // the same server, at another address
	StepAdd                           // without a vote
	StepPromote
	StepDemote
	StepRemove
	StepTransfer // leadership, away from this server
)

// Step is one change of the Raft configuration.
type Step struct {
	Kind   StepKind
	Server Server
}

// NextStep returns the one change of the Raft configuration that is due, if
// any. Servers that are gone for good, which is to say not in the table, are
// replaced first and then removed; one that is only down keeps its place.
func NextStep(e Electorate) (Step, bool) {
	p := newPoll(e)
	for _, rule := range []func() (Step, bool){
		p.readdress, p.handOver, p.promote, p.remove, p.demote, p.add, p.trim,
	} {
		if s, ok := rule(); ok {
			return s, true
		}
	}
	return Step{}, false
}

// poll is an Electorate with its servers sorted out.
type poll struct {
	Electorate
	target  int
	voters  []Server // that are here to stay
	spare   []Server // likewise, without a vote
	gone    []Server
	missing []*ring.Member // in the table, not a server
}

func newPoll(e Electorate) *poll {
	p := &poll{Electorate: e}
	staying := 0
	for i := range e.Table.Members {
		m := &e.Table.Members[i]
		if m.State != ring.Leaving {
			staying++
		}
		if m.State != ring.Leaving && !slices.ContainsFunc(e.Servers, func(s Server) bool { return s.ID == m.ID }) {
			p.missing = append(p.missing, m)
		}
	}
	p.target = VoterCount(staying)
	for _, s := range e.Servers {
		switch m := e.Table.ByID(s.ID); {
		case m == nil:
			p.gone = append(p.gone, s)
		case s.Voter:
			p.voters = append(p.voters, s)
		default:
			p.spare = append(p.spare, s)
		}
	}
	slices.SortFunc(p.voters, p.bySeniority)
	slices.SortFunc(p.spare, p.bySeniority)
	slices.SortFunc(p.gone, func(a, b Server) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(p.missing, func(a, b *ring.Member) int { return seniority(a, b) })
	return p
}

// seniority puts witnesses first, which are there to vote, then the oldest;
// those on their way out come last.
func seniority(a, b *ring.Member) int {
	rank := func(m *ring.Member) int {
		switch {
		case m.State == ring.Leaving:
			return 2
		case m.Witness:
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Num, b.Num))
}

func (p *poll) bySeniority(a, b Server) int {
	return seniority(p.Table.ByID(a.ID), p.Table.ByID(b.ID))
}

func (p *poll) readdress() (Step, bool) {
	for _, s := range slices.Concat(p.voters, p.spare) {
		m := p.Table.ByID(s.ID)
		if s.ID != p.Self && m.Addr != "" && m.Addr != s.Addr && p.Alive(s.ID) {
			return Step{StepReaddress, Server{s.ID, m.Addr, s.Voter}}, true
		}
	}
	return Step{}, false
}

// handOver: who is itself gone for good lets another lead, which removes it.
func (p *poll) handOver() (Step, bool) {
	if len(p.Table.Members) > 0 && p.Table.ByID(p.Self) == nil && p.livingVoters() > 0 {
		return Step{Kind: StepTransfer, Server: Server{ID: p.Self}}, true
	}
	return Step{}, false
}

func (p *poll) livingVoters() (n int) {
	for _, s := range p.voters {
		if s.ID == p.Self || p.Alive(s.ID) {
			n++
		}
	}
	return n
}

// votes counts the voters there are, gone ones included.
func (p *poll) votes() int {
	n := len(p.voters)
	for _, s := range p.gone {
		if s.Voter {
			n++
		}
	}
	return n
}

// promote gives votes to spares while there are too few voters. A first step
// towards an even number is taken only if the next can follow, or if a gone
// voter is to be removed after it.
func (p *poll) promote() (Step, bool) {
	var ready []Server
	for _, s := range p.spare {
		if p.Table.ByID(s.ID).State != ring.Leaving && p.Alive(s.ID) && p.Ready(s.ID) {
			ready = append(ready, s)
		}
	}
	total := p.votes()
	if len(p.voters) >= p.target || len(ready) == 0 {
		return Step{}, false
	}
	if total == len(p.voters) && total%2 == 1 && len(ready) < 2 {
		return Step{}, false
	}
	return Step{StepPromote, Server{ready[0].ID, p.Table.ByID(ready[0].ID).Addr, true}}, true
}

// remove takes out servers that are gone for good, as long as the voters that
// are alive are a majority of those that remain.
func (p *poll) remove() (Step, bool) {
	total := p.votes()
	for _, s := range p.gone {
		if s.ID == p.Self || s.Voter && p.livingVoters() <= (total-1)/2 {
			continue
		}
		return Step{StepRemove, s}, true
	}
	return Step{}, false
}

// demote takes votes from those that are too many: first from who leaves, then
// from who is not there, then from the youngest. The leader keeps its own.
func (p *poll) demote() (Step, bool) {
	if len(p.voters) <= p.target {
		return Step{}, false
	}
	worst := slices.DeleteFunc(slices.Clone(p.voters), func(s Server) bool { return s.ID == p.Self })
	if len(worst) == 0 {
		return Step{}, false
	}
	slices.SortStableFunc(worst, func(a, b Server) int {
		rank := func(s Server) int {
			switch {
			case p.Table.ByID(s.ID).State == ring.Leaving:
				return 2
			case !p.Alive(s.ID):
				return 1
			}
			return 0
		}
		return cmp.Compare(rank(a), rank(b))
	})
	last := worst[len(worst)-1]
	living := p.livingVoters()
	if p.Alive(last.ID) {
		living--
	}
	if living <= (p.votes()-1)/2 {
		return Step{}, false
	}
	return Step{StepDemote, last}, true
}

// add takes in members as servers without a vote, until there are enough for
// all votes and a few spares.
func (p *poll) add() (Step, bool) {
	if len(p.voters)+len(p.spare) >= p.target+spares {
		return Step{}, false
	}
	for _, m := range p.missing {
		if p.Alive(m.ID) && m.Addr != "" {
			return Step{StepAdd, Server{m.ID, m.Addr, false}}, true
		}
	}
	return Step{}, false
}

// trim removes spares that are more than needed.
func (p *poll) trim() (Step, bool) {
	if n := len(p.spare); n > 0 && len(p.voters)+n > max(p.target, len(p.voters))+spares {
		return Step{StepRemove, p.spare[n-1]}, true
	}
	return Step{}, false
}
