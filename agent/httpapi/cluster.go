package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/api"
)

func (s *Server) ringShow(w http.ResponseWriter, r *request) error {
	if err := s.await(w, r, s.o.Ring); err != nil {
		return err
	}
	return r.answer(w, s.ringInfo())
}

func (s *Server) ringInfo() api.RingInfo {
	t := s.o.Ring.Table()
	sessions := make(map[string]int)
	for _, m := range s.o.Members.Members() {
		sessions[m.Name] = m.Sessions
	}
	slots, owned, copies := make(map[member.Number]int), make(map[member.Number]int), make(map[member.Number]int)
	moving, short := 0, 0
	for h := range ring.Slot(ring.Slots) {
		state := &t.Slots[h]
		slots[state.Home]++
		owned[state.Owner]++
		for _, in := range state.InSync {
			if in.Num != state.Owner {
				copies[in.Num]++
			}
		}
		if want := t.Want(h); len(want) > 0 && want[0] != state.Owner {
			moving++
		}
		if t.Short(h) {
			short++
		}
	}
	out := api.RingInfo{Epoch: uint64(t.Epoch), Leader: s.o.Ring.Leader(), Moving: moving, Short: short, Members: []api.RingMember{}}
	for i, num := range t.Order {
		m := t.Member(num)
		if m == nil {
			continue
		}
		out.Members = append(out.Members, api.RingMember{
			Name:     m.Name,
			Position: i,
			State:    stateOf(m, owned[num], copies[num]),
			Draining: m.Drain,
			Slots:    slots[num],
			Owned:    owned[num],
			Copies:   copies[num],
			Sessions: sessions[m.Name],
		})
		if owned[num] == 0 {
			out.Members[len(out.Members)-1].Sessions = 0 // gossip has yet to tell
		}
	}
	return out
}

func (s *Server) ringLocate(w http.ResponseWriter, r *request) error {
	if r.params[0] == "" {
		return failure(http.StatusBadRequest, api.CodeBadName, "the key is empty")
	}
	t := s.o.Ring.Table()
	if t.Epoch == 0 {
		return failure(http.StatusServiceUnavailable, api.CodeNoLeader, "this agent has no table yet: the cluster has no leader, or it has not been reached")
	}
	slot, err := s.o.Ring.Locate(r.params[0])
	if err != nil {
		return err
	}
	state := &t.Slots[slot]
	out := api.RingLocate{
		Slot:       int(slot),
		Home:       memberName(t, state.Home),
		Owner:      memberName(t, state.Owner),
		Successors: []string{},
	}
	for _, num := range t.Successors(slot) {
		out.Successors = append(out.Successors, memberName(t, num))
	}
	return r.answer(w, out)
}

func memberName(t *ring.Table, num member.Number) string {
	if m := t.Member(num); m != nil {
		return m.Name
	}
	return ""
}

func (s *Server) catalogServices(w http.ResponseWriter, r *request) error {
	if err := s.await(w, r, s.o.Catalog); err != nil {
		return err
	}
	return r.answer(w, s.services())
}

// services groups all instances by service.
func (s *Server) services() []api.CatalogService {
	out := []api.CatalogService{}
	for _, in := range s.instances() {
		if n := len(out); n == 0 || out[n-1].Name != in.Name {
			out = append(out, api.CatalogService{Name: in.Name, Tags: []string{}})
		}
		svc := &out[len(out)-1]
		svc.Instances = append(svc.Instances, in)
		if passing(in) {
			svc.Passing++
		}
		for _, tag := range in.Tags {
			if i, ok := slices.BinarySearch(svc.Tags, tag); !ok {
				svc.Tags = slices.Insert(svc.Tags, i, tag)
			}
		}
	}
	return out
}

// instances returns all instances, sorted by service, member and id.
func (s *Server) instances() []api.CatalogInstance {
	out := slices.Clone(s.o.Catalog.Instances())
	slices.SortFunc(out, func(a, b api.CatalogInstance) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Member, b.Member), strings.Compare(a.ID, b.ID))
	})
	for i := range out {
		out[i].Tags = list(out[i].Tags)
	}
	return out
}

// passing leaves out warnings, as Consul's parameter of that name does.
func passing(in api.CatalogInstance) bool { return !in.Maintenance && in.Health == "passing" }

// catalogService answers an empty list for a service that nobody registered,
// as Consul does: it may come any moment.
func (s *Server) catalogService(w http.ResponseWriter, r *request) error {
	only, err := r.flag("passing")
	if err != nil {
		return err
	}
	if err := s.await(w, r, s.o.Catalog); err != nil {
		return err
	}
	out := slices.DeleteFunc(s.instances(), func(in api.CatalogInstance) bool {
		return in.Name != r.params[0] || only && !passing(in)
	})
	return r.answer(w, list(out))
}

func (s *Server) statusLeader(w http.ResponseWriter, r *request) error {
	c, err := s.o.Raft.Configuration(r.Context())
	if err != nil {
		return err
	}
	leader := ""
	for _, server := range c.Servers {
		if server.Leader {
			leader = server.Address
		}
	}
	return r.answer(w, leader)
}

func (s *Server) statusPeers(w http.ResponseWriter, r *request) error {
	c, err := s.o.Raft.Configuration(r.Context())
	if err != nil {
		return err
	}
	out := []string{}
	for _, server := range c.Servers {
		out = append(out, server.Address)
	}
	slices.Sort(out)
	return r.answer(w, out)
}

func (s *Server) raftConfiguration(w http.ResponseWriter, r *request) error {
	c, err := s.o.Raft.Configuration(r.Context())
	if err != nil {
		return err
	}
	c.Servers = list(slices.Clone(c.Servers))
	slices.SortFunc(c.Servers, func(a, b api.RaftServer) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.ID, b.ID))
	})
	return r.answer(w, c)
}
