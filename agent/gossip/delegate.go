package gossip

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"

	"github.com/rondel-project/rondel/agent/member"
)

// delegate is what memberlist calls, mostly with its own lock held: it takes
// notes under g.mu and wakes a loop, and never calls memberlist.
type delegate struct{ g *Gossip }

var errBarred = errors.New("it was said to have left")

// foreign reports whether two cluster ids belong to two clusters.
func foreign(a, b [16]byte) bool {
	return a != b && a != [16]byte{} && b != [16]byte{}
}

// clusterLocked is the cluster of this agent or, before it has one, the one
// that the members it knows have: it must not lead two clusters together.
func (g *Gossip) clusterLocked() [16]byte {
	if g.meta.Cluster != ([16]byte{}) {
		return g.meta.Cluster
	}
	for _, m := range g.list.byName {
		if m.Cluster != ([16]byte{}) && m.Here() {
			return m.Cluster
		}
	}
	return [16]byte{}
}

func nodeAddr(n *memberlist.Node) netip.AddrPort {
	a, _ := netip.AddrFromSlice(n.Addr)
	return netip.AddrPortFrom(a.Unmap(), n.Port)
}

func (d delegate) NodeMeta(int) []byte {
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	b, err := d.g.meta.MarshalBinary()
	if err != nil {
		panic(err) // New has checked the id, and nobody can change it
	}
	return b
}

func (d delegate) NotifyJoin(n *memberlist.Node)   { d.here(n) }
func (d delegate) NotifyUpdate(n *memberlist.Node) { d.here(n) }

func (d delegate) here(n *memberlist.Node) {
	var meta member.Meta
	if err := meta.UnmarshalBinary(n.Meta); err != nil {
		return // NotifyAlive lets none through
	}
	g := d.g
	g.mu.Lock()
	g.list.here(n.Name, nodeAddr(n), meta, time.Now())
	g.followLocked(meta.ID, meta.Boot)
	g.countLocked()
	g.mu.Unlock()
	g.wakeAll()
}

func (d delegate) NotifyLeave(n *memberlist.Node) {
	g := d.g
	g.mu.Lock()
	g.list.gone(n.Name, time.Now())
	g.countLocked()
	g.mu.Unlock()
	g.wakeAll()
}

func (g *Gossip) wakeAll() {
	wake(g.wakeEvents)
	wake(g.wakeFetch)
	wake(g.wakePeers)
}

func (g *Gossip) countLocked() {
	n := 0
	for _, m := range g.list.byName {
		if m.Here() {
			n++
		}
	}
	g.others.Store(int32(n))
}

// NotifyAlive is asked before any news of a living member is believed.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	var meta member.Meta
	if err := meta.UnmarshalBinary(n.Meta); err != nil {
		return err
	}
	g := d.g
	g.mu.Lock()
	stranger := n.Name != g.opts.Name && foreign(meta.Cluster, g.clusterLocked())
	barred := meta.ID != g.meta.ID && g.list.barred(meta.ID, meta.Boot) && !g.hereLocked(meta.ID)
	g.mu.Unlock()
	switch {
	case stranger:
		g.quiet.say(hclog.Warn, "stranger "+n.Name+nodeAddr(n).String(), "ignored a member of another cluster", "member", n.Name, "addr", nodeAddr(n))
		return ErrOtherCluster
	case barred:
		return errBarred
	}
	return nil
}

func (g *Gossip) hereLocked(id member.ID) bool {
	m := g.list.byID(id)
	return m != nil && m.Here()
}

// NotifyMerge is asked before the members of another agent are taken over.
func (d delegate) NotifyMerge(peers []*memberlist.Node) error {
	g := d.g
	g.mu.Lock()
	ours := g.clusterLocked()
	g.mu.Unlock()
	for _, n := range peers {
		var meta member.Meta
		if meta.UnmarshalBinary(n.Meta) == nil && foreign(meta.Cluster, ours) {
			return fmt.Errorf("%s at %s: %w", n.Name, nodeAddr(n), ErrOtherCluster)
		}
	}
	return nil
}

// NotifyConflict hears of two members with one name. Whether this agent is the
// one that has to go, it asks the others.
func (d delegate) NotifyConflict(existing, other *memberlist.Node) {
	g := d.g
	if existing.Name == g.opts.Name {
		wake(g.wakeDial)
		return
	}
	g.quiet.say(hclog.Warn, "conflict "+existing.Name, "two agents have one node name, the later one is ignored",
		"member", existing.Name, "addr", nodeAddr(existing), "ignored", nodeAddr(other))
}

// NotifyMsg gets a broadcast. The buffer is not ours.
func (d delegate) NotifyMsg(b []byte) {
	if len(b) == 0 {
		return
	}
	switch b[0] {
	case msgDelta, msgNotice:
		d.g.takeDelta(append([]byte(nil), b...))
	case msgNote:
		d.g.takeNote(append([]byte(nil), b...))
	}
}

func (d delegate) GetBroadcasts(overhead, limit int) [][]byte {
	d.g.flush()
	return d.g.queue.GetBroadcasts(overhead, limit)
}

func (d delegate) LocalState(join bool) []byte {
	d.g.flush()
	return d.g.encodeState(join)
}

func (d delegate) MergeRemoteState(b []byte, _ bool) { d.g.mergeState(b) }

// AckPayload rides on each answer to a probe: the version of this agent's
// entry, so that a lost broadcast is noticed by the next probe.
func (d delegate) AckPayload() []byte {
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	return delta{id: d.g.own.id, boot: d.g.own.boot, to: d.g.own.version, notice: true}.encode()
}

func (d delegate) NotifyPingComplete(n *memberlist.Node, _ time.Duration, payload []byte) {
	if len(payload) > 0 && payload[0] == msgNotice {
		d.g.takeDelta(payload)
	}
}

// broadcast is one message in the queue of user messages.
type broadcast []byte

func (b broadcast) Invalidates(memberlist.Broadcast) bool { return false }
func (b broadcast) Message() []byte                       { return b }
func (b broadcast) Finished()                             {}
func (b broadcast) UniqueBroadcast()                      {}
