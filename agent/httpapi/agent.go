package httpapi

import (
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/rondel-project/rondel/api"
)

func (s *Server) agentSelf(w http.ResponseWriter, r *request) error {
	return r.answer(w, s.o.Process.Self())
}

func (s *Server) agentMembers(w http.ResponseWriter, r *request) error {
	if err := s.await(w, r, s.o.Members); err != nil {
		return err
	}
	return r.answer(w, s.members())
}

// members returns the members sorted by name.
func (s *Server) members() []api.Member {
	out := list(slices.Clone(s.o.Members.Members()))
	slices.SortFunc(out, func(a, b api.Member) int { return strings.Compare(a.Name, b.Name) })
	for i := range out {
		if out[i].Tags == nil {
			out[i].Tags = map[string]string{}
		}
	}
	return out
}

// bare refuses a request that carries a body: whoever sends one to an endpoint
// that changes the agent means something that would be ignored.
func (r *request) bare() error {
	if n, _ := io.ReadFull(r.Body, make([]byte, 1)); n > 0 {
		return badRequest("this endpoint takes no body, only what stands in the URL")
	}
	return nil
}

func (s *Server) agentJoin(w http.ResponseWriter, r *request) error {
	if err := r.bare(); err != nil {
		return err
	}
	if err := checkName("address", r.params[0]); err != nil {
		return err
	}
	if err := s.o.Members.Join(r.Context(), r.params[0]); err != nil {
		return err
	}
	return r.done(w)
}

func (s *Server) agentLeave(w http.ResponseWriter, r *request) error {
	if err := r.bare(); err != nil {
		return err
	}
	force, err := r.flag("force")
	if err != nil {
		return err
	}
	if err := s.o.Process.Leave(r.Context(), force); err != nil {
		return err
	}
	return r.done(w)
}

func (s *Server) agentForceLeave(w http.ResponseWriter, r *request) error {
	if err := r.bare(); err != nil {
		return err
	}
	prune, err := r.flag("prune")
	if err != nil {
		return err
	}
	if err := s.o.Members.ForceLeave(r.Context(), r.params[0], prune); err != nil {
		return err
	}
	return r.done(w)
}

func (s *Server) agentReload(w http.ResponseWriter, r *request) error {
	if err := r.bare(); err != nil {
		return err
	}
	out, err := s.o.Process.Reload(r.Context())
	if err != nil {
		return err
	}
	out.Changed, out.NeedsRestart = list(out.Changed), list(out.NeedsRestart)
	return r.answer(w, out)
}

func (s *Server) healthAgent(w http.ResponseWriter, r *request) error {
	serving, err := r.flag("serving")
	if err != nil {
		return err
	}
	ask := s.o.Process.Unready
	if serving {
		ask = s.o.Process.Unserving
	}
	if why := ask(); len(why) > 0 {
		return failure(http.StatusServiceUnavailable, api.CodeUnhealthy, "%s", strings.Join(why, "; "))
	}
	return r.answer(w, api.AgentHealth{Healthy: true, Reasons: []string{}})
}
