package agent

import (
	"context"
	"net/netip"
	"time"

	"github.com/rondel-project/rondel/agent/catalog"
	"github.com/rondel-project/rondel/agent/gossip"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/wire"
)

// onMember takes what gossip says of a member, and has logged.
func (a *Agent) onMember(e gossip.Event) {
	m := e.Member
	if e.Kind == gossip.Removed {
		a.services.catalog.RemoveMember(m.ID)
	} else {
		a.services.catalog.SetMember(m.ID, m.Name, m.Addr.String(), m.Status)
	}
	a.roster.set(a.gossip.Members(), a.gossip.Pruned())
}

// followAlive tells the engine who is alive, again with each table: it knows a
// run only once a table has named it.
func (a *Agent) followAlive(ctx context.Context) error {
	for {
		_, table := ringBackend{a}.Watch()
		_, list := a.roster.watchIndex()
		a.engine.Alive(a.roster.alive())
		a.missDead()
		select {
		case <-ctx.Done():
			return nil
		case <-table:
		case <-list:
		}
	}
}

// missDead lets gossip list the dead members that only the table knows, so that
// an operator sees them and can make them leave.
func (a *Agent) missDead() {
	t := a.engine.View().Table
	for i := range t.Members {
		m := &t.Members[i]
		if _, listed := a.roster.member(m.ID); listed || m.State != ring.Down {
			continue
		}
		if at, err := netip.ParseAddrPort(m.Addr); err == nil {
			a.gossip.Miss(m.Name, m.ID, m.Boot, at, m.Witness)
		}
	}
}

// onUnreachable takes what connections to other members show. It is told many
// times a second of a member that is gone, by goroutines that must not wait.
func (a *Agent) onUnreachable(u wire.Unreachable) {
	// Where another run answers, the one that we know has ended.
	refused := u.Reason == wire.Refused || u.Reason == wire.WrongBoot
	a.engine.PeerDown(u.Peer.ID, u.Peer.Boot, refused)
	if !refused {
		return
	}
	if m := a.engine.View().Table.ByID(u.Peer.ID); m != nil && m.Boot == u.Peer.Boot {
		a.leader.Refused(m.Holder())
	}
	a.avoid(u.Peer)
}

// avoidFor is how long a refused connection keeps traffic from a member's
// instances, unless gossip finds the member dead meanwhile.
const avoidFor = 3 * time.Second

// avoid takes a member's instances out of service at once: an application whose
// agent is gone has lost its sessions' door, long before gossip is sure.
func (a *Agent) avoid(p wire.Peer) {
	m, ok := a.roster.member(p.ID)
	if !ok || m.Boot != p.Boot || m.Status != member.Alive {
		return
	}
	if !a.roster.avoid(p.ID) {
		return // is avoided already
	}
	a.services.catalog.SetMember(m.ID, m.Name, m.Addr.String(), member.Failed)
	time.AfterFunc(avoidFor, func() {
		a.roster.trust(p.ID)
		if now, ok := a.roster.member(p.ID); ok {
			a.services.catalog.SetMember(now.ID, now.Name, now.Addr.String(), now.Status)
		}
	})
}

// role is what this member does in the cluster.
func (a *Agent) role() string {
	switch {
	case a.leader.Leading():
		return "leader"
	case a.cfg.Load().Node.Witness:
		return "witness"
	case a.votes.Load():
		return "voter"
	}
	return "nonvoter"
}

// memberRecord is what this member tells the others of itself.
func (a *Agent) memberRecord() catalog.MemberRecord {
	r := catalog.MemberRecord{
		Load: a.services.load.Load(), Sessions: a.engine.Figures().Owned, Role: a.role(), Leader: a.control.leaderID(),
	}
	_, r.Term = a.engine.Leader()
	return r
}

// onTable follows a newer table. The engine calls it in order, outside its lock.
func (a *Agent) onTable(t *ring.Table) {
	a.gossip.UpdateMeta(func(m *member.Meta) { m.Cluster, m.Epoch = t.Cluster, uint64(t.Epoch) })
	a.tableMu.Lock()
	close(a.tableChanged)
	a.tableChanged = make(chan struct{})
	a.tableMu.Unlock()
	a.feedTable(t)
	if t.Cluster != [16]byte{} {
		a.checkSettings(t)
	}
}
