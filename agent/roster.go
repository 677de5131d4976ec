package agent

import (
	"sync"

	"github.com/rondel-project/rondel/agent/gossip"
	"github.com/rondel-project/rondel/agent/leader"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/wire"
)

// roster is the member list as gossip last told it, for those who must not wait
// for gossip.
type roster struct {
	mu      sync.Mutex // guards all
	list    []gossip.Member
	byID    map[member.ID]gossip.Member
	pruned  map[member.ID]member.Boot // made to leave, and not in list any more
	index   uint64
	changed chan struct{}
	avoided map[member.ID]bool // refused a connection a moment ago
}

func newRoster() *roster {
	return &roster{byID: map[member.ID]gossip.Member{}, avoided: map[member.ID]bool{}, changed: make(chan struct{}), index: 1}
}

// avoid marks a member as avoided; false where it is already.
func (r *roster) avoid(id member.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.avoided[id]
	r.avoided[id] = true
	return !was
}

// trust ends what avoid began.
func (r *roster) trust(id member.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.avoided, id)
}

// set takes a newer list, and who was pruned from it.
func (r *roster) set(list []gossip.Member, pruned map[member.ID]member.Boot) {
	byID := make(map[member.ID]gossip.Member, len(list))
	for _, m := range list {
		byID[m.ID] = m
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list, r.byID, r.pruned = list, byID, pruned
	r.index++
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *roster) members() []gossip.Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list
}

func (r *roster) member(id member.ID) (gossip.Member, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.byID[id]
	return m, ok
}

// cluster returns the cluster that the members here are in; zero where none of
// them is in one yet.
func (r *roster) cluster() [16]byte {
	for _, m := range r.members() {
		if m.Here() && m.Cluster != ([16]byte{}) {
			return m.Cluster
		}
	}
	return [16]byte{}
}

// peer returns where to reach a member's present run.
func (r *roster) peer(id member.ID) (wire.Peer, bool) {
	m, ok := r.member(id)
	if !ok || !m.Addr.IsValid() {
		return wire.Peer{}, false
	}
	return wire.Peer{ID: m.ID, Boot: m.Boot, Addr: m.RPC().String()}, true
}

// watchIndex is Watch of httpapi.Watcher.
func (r *roster) watchIndex() (uint64, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.index, r.changed
}

// Watch implements leader.Gossip. Who was pruned has left, as far as the leader
// goes: nobody else would take it out of the table.
func (r *roster) Watch() ([]leader.Seen, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := make([]leader.Seen, 0, len(r.list))
	for _, m := range r.list {
		seen = append(seen, leader.Seen{
			Candidacy: ring.Candidacy{ID: m.ID, Name: m.Name, Addr: m.RPC().String(), Boot: m.Boot, Witness: m.Witness},
			Status:    m.Status,
		})
	}
	for id, boot := range r.pruned {
		if _, listed := r.byID[id]; !listed {
			seen = append(seen, leader.Seen{Candidacy: ring.Candidacy{ID: id, Boot: boot}, Status: member.Left})
		}
	}
	return seen, r.changed
}

// alive returns the runs that gossip sees alive.
func (r *roster) alive() map[member.ID]member.Boot {
	out := map[member.ID]member.Boot{}
	for _, m := range r.members() {
		if m.Here() {
			out[m.ID] = m.Boot
		}
	}
	return out
}
