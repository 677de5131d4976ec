package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/rondel-project/rondel/agent/consensus"
	"github.com/rondel-project/rondel/agent/httpapi"
	"github.com/rondel-project/rondel/agent/member"
)

func listed(list []consensus.Server, id member.ID) bool {
	return slices.ContainsFunc(list, func(s consensus.Server) bool { return s.ID == id })
}

// otherVoter reports whether another voter is here to lead.
func otherVoter(list []consensus.Server, self member.ID, r *roster) bool {
	return slices.ContainsFunc(list, func(s consensus.Server) bool {
		m, ok := r.member(s.ID)
		return s.Voter && s.ID != self && ok && m.Here()
	})
}

// mayLeave refuses a leave after which the cluster could not decide anything.
func (a *Agent) mayLeave(ctx context.Context) error {
	list, _, _, err := a.raft.Servers(ctx)
	if err != nil {
		return fmt.Errorf("leave: the voters are not known: %w", err)
	}
	others, here := 0, 0
	for _, s := range list {
		if !s.Voter || s.ID == a.id.id {
			continue
		}
		others++
		if m, ok := a.roster.member(s.ID); ok && m.Here() {
			here++
		}
	}
	switch {
	case !votes(list, a.id.id):
		return nil
	case others == 0 && a.alone():
		return fmt.Errorf("leave: this is the last member, and all sessions would go with it; stop it instead, or use -force: %w", httpapi.ErrConflict)
	case others > 0 && here < others/2+1:
		return fmt.Errorf("leave: of the %d voters that stay only %d are alive, too few to decide anything; bring the others back, or use -force: %w", others, here, httpapi.ErrConflict)
	}
	return nil
}
