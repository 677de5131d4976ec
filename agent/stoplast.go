package agent

import (
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

// lastWait is how long nobody may stay before a member that stops takes that for
// the end: another one may be on its way back.
const lastWait = time.Second

// lookout is what a member that stops has seen of the others since it began to.
type lookout struct {
	here     map[member.ID]bool   // they were alive
	stopping map[member.Boot]bool // these runs are ending, or have
}

func newLookout() *lookout {
	return &lookout{here: map[member.ID]bool{}, stopping: map[member.Boot]bool{}}
}

// look reports whether another member could take over what is here: one that is
// not stopping itself. Who was alive counts until then, since a connection may
// come back; who was not is unreached. A run that the table had as stopping never
// returns: the leader marks it down once it is gone, while gossip still takes it
// for alive.
func (l *lookout) look(a *Agent) (stays, unreached bool) {
	v := a.engine.View()
	for i := range v.Table.Members {
		m := &v.Table.Members[i]
		if m.Num == v.Self.Num || m.Witness {
			continue
		}
		if m.State == ring.Stopping {
			l.stopping[m.Boot] = true
		}
		known, ok := a.roster.member(m.ID)
		if ok && known.Here() {
			l.here[m.ID] = true
		}
		switch {
		case ok && (known.Status == member.Left || l.stopping[known.Boot]):
		case l.here[m.ID]:
			stays = true
		default:
			unreached = true
		}
	}
	return stays, unreached
}

// sayLast says what becomes of the sessions here when nobody takes them over.
func (a *Agent) sayLast(peers *lookout) {
	_, unreached := peers.look(a)
	switch n := a.engine.Figures().Held; {
	case n == 0:
	case a.store != nil:
		a.log.Info("no other member stays to take over: the sessions here stay on disk", "sessions", n)
	case unreached:
		a.log.Info("no other member is reached to take over: sessions that only this one holds are lost", "sessions", n)
	default:
		a.log.Info("no other member stays to take over: the sessions here are lost", "sessions", n)
	}
}
