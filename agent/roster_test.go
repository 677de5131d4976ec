package agent

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/rondel-project/rondel/agent/gossip"
	"github.com/rondel-project/rondel/agent/member"
)

func seen(id, name string, s member.Status, boot byte) gossip.Member {
	return gossip.Member{
		Name: name, Addr: netip.MustParseAddr("10.0.0.1"), Status: s,
		ID: member.ID(id), Boot: member.Boot{boot}, RPCPort: 8702,
	}
}

func TestRoster(t *testing.T) {
	t.Parallel()
	r := newRoster()
	index, changed := r.watchIndex()
	if _, ok := r.peer("a"); ok {
		t.Error("an empty roster knows a peer")
	}
	r.set([]gossip.Member{
		seen("a", "web1", member.Failed, 1), seen("b", "web1", member.Alive, 2), seen("c", "web2", member.Left, 3), seen("d", "web3", member.Suspect, 4),
	}, map[member.ID]member.Boot{"e": {5}, "b": {9}})
	select {
	case <-changed:
	default:
		t.Error("nobody was told of the change")
	}
	if after, _ := r.watchIndex(); after <= index {
		t.Errorf("the index went from %d to %d", index, after)
	}
	p, ok := r.peer("b")
	if !ok || p.Addr != "10.0.0.1:8702" || p.Boot != (member.Boot{2}) {
		t.Errorf("peer b is %+v, %v", p, ok)
	}
	if got := slices.Sorted(maps.Keys(r.alive())); !slices.Equal(got, []member.ID{"b", "d"}) {
		t.Errorf("alive are %v", got)
	}
	list, _ := r.Watch()
	if len(list) != 5 || list[0].Addr != "10.0.0.1:8702" || list[4].ID != "e" || list[4].Boot != (member.Boot{5}) || list[4].Status != member.Left {
		t.Errorf("the leader sees %+v", list)
	}
}

func TestRoster_cluster(t *testing.T) {
	t.Parallel()
	r := newRoster()
	if c := r.cluster(); c != ([16]byte{}) {
		t.Errorf("an empty roster is in cluster %x", c)
	}
	gone, here := seen("a", "m1", member.Left, 1), seen("b", "m2", member.Alive, 2)
	gone.Cluster, here.Cluster = [16]byte{1}, [16]byte{2}
	r.set([]gossip.Member{gone, seen("c", "m3", member.Alive, 3), here}, nil)
	if c := r.cluster(); c != ([16]byte{2}) {
		t.Errorf("the cluster is %x, not that of who is here", c)
	}
}
