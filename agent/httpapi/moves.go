package httpapi

import (
	"net/http"
	"strconv"

	"github.com/rondel-project/rondel/agent/ring"
)

func (s *Server) agentDrain(w http.ResponseWriter, r *request) error {
	if err := r.bare(); err != nil {
		return err
	}
	if !r.query.Has("enable") {
		return badRequest("?enable=true or ?enable=false is missing")
	}
	on, err := r.flag("enable")
	if err != nil {
		return err
	}
	node := r.query.Get("node")
	if r.query.Has("node") && node == "" {
		return badRequest("?node= is empty: name a member, or leave it out for this agent")
	}
	out, err := s.o.Moves.Drain(r.Context(), node, on)
	if err != nil {
		return err
	}
	return r.answer(w, out)
}

func (s *Server) ringRebalance(w http.ResponseWriter, r *request) error {
	if err := r.bare(); err != nil {
		return err
	}
	out, err := s.o.Moves.Rebalance(r.Context())
	if err != nil {
		return err
	}
	out.Joining = list(out.Joining)
	return r.answer(w, out)
}

func (s *Server) ringMove(w http.ResponseWriter, r *request) error {
	if err := r.bare(); err != nil {
		return err
	}
	slots, err := strconv.Atoi(r.query.Get("slots"))
	if err != nil || slots < 1 || slots > ring.Slots {
		return badRequest("?slots=%q: want how many slots to move, 1 to %d", r.query.Get("slots"), ring.Slots)
	}
	from, to := r.query.Get("from"), r.query.Get("to")
	switch {
	case from == "" || to == "":
		return badRequest("?from= and ?to= name the members that give and get the slots; one is missing")
	case from == to:
		return badRequest("?from= and ?to= are the same member")
	}
	out, err := s.o.Moves.Move(r.Context(), slots, from, to)
	if err != nil {
		return err
	}
	out.Joining = list(out.Joining)
	return r.answer(w, out)
}

// stateOf says what a member is doing with its slots. Down, joining and the like
// say more of a member than that it also drains.
func stateOf(m *ring.Member, owned, copies int) string {
	switch {
	case !m.Drain || m.State != ring.Up:
		return m.State.String()
	case owned+copies > 0:
		return "draining"
	}
	return "drained"
}
