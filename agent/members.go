package agent

import (
	"github.com/rondel-project/rondel/agent/catalog"
	"github.com/rondel-project/rondel/agent/gossip"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

// onMember takes what gossip says of a member.
func (a *Agent) onMember(e gossip.Event) {
	m := e.Member
	log := a.log.With("member", m.Name, "addr", m.Gossip().String())
	switch e.Kind {
	case gossip.Joined:
		log.Info("member joined")
	case gossip.Rebooted:
		log.Info("member restarted")
	case gossip.Failed:
		log.Warn("member failed")
	case gossip.Left:
		log.Info("member left")
	}
	if e.Kind == gossip.Removed {
		a.services.catalog.RemoveMember(m.ID)
	} else {
		a.services.catalog.SetMember(m.ID, m.Name, m.Addr.String(), m.Status)
	}
	a.roster.set(a.gossip.Members())
	a.engine.Alive(a.roster.alive())
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
