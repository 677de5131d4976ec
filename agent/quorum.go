package agent

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/rondel-project/rondel/agent/consensus"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/api"
)

func breaksQuorum(why string) error {
	return &api.Error{StatusCode: http.StatusConflict, Code: api.CodeQuorum, Message: why}
}

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
		return fmt.Errorf("the voters are not known: %w", err)
	}
	others, here := 0, 0
	table := a.engine.View().Table
	for _, s := range list {
		if !s.Voter || s.ID == a.id.id {
			continue
		}
		others++
		// The table knows of a killed process before gossip does.
		e := table.ByID(s.ID)
		if m, ok := a.roster.member(s.ID); ok && m.Here() && e != nil && e.State != ring.Down {
			here++
		}
	}
	switch {
	case !votes(list, a.id.id):
		return nil
	case others == 0 && a.alone():
		return breaksQuorum("this is the last member, and all sessions would go with it; stop it instead, or use -force")
	case others > 0 && here < others/2+1:
		return breaksQuorum(fmt.Sprintf("of the %d voters that stay only %d are alive, too few to decide anything; bring the others back, or use -force", others, here))
	}
	return nil
}
