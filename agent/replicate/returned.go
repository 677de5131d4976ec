package replicate

import (
	"maps"
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// returnedFor is how long after a member is heard again that had been found
// dead the owners ask it for sessions before they serve them. What it has not
// offered by then is older than nearly all that is used.
const returnedFor = time.Minute

// askingReturned is how long a request waits for the answer.
const askingReturned = time.Second

// returnedSession is a session for which members are asked that have come back:
// they may have served it detached. A request that came before what they
// acknowledged would change an older record, and its later stamp would win over
// all that was done meanwhile (S6).
type returnedSession struct {
	slot    ring.Slot
	id      session.ID
	asked   []ring.Holder // that have not answered
	askedAt int64
	sentAt  int64
	ready   bool
	waiting []*op
}

// noteGone remembers the copies of a slot that the leader has found dead. They
// may only be cut off.
func (n *Node) noteGone(h ring.Slot, old, s *ring.SlotState) {
	sl := &n.slots[h]
	here := func(x ring.Holder) *ring.Member {
		if m := n.t.Member(x.Num); m != nil && m.Boot == x.Boot && x != n.self && !n.refuse {
			return m
		}
		return nil
	}
	sl.gone = slices.DeleteFunc(sl.gone, func(x ring.Holder) bool { return here(x) == nil })
	for _, x := range old.InSync {
		if m := here(x); m != nil && m.State == ring.Down && !s.InSyncHas(x) && !slices.Contains(sl.gone, x) {
			sl.gone = append(sl.gone, x)
		}
	}
}

// noteStates follows who is found dead, and who is back.
func (n *Node) noteStates(old *ring.Table) {
	if n.refuse {
		return
	}
	for i := range n.t.Members {
		m := &n.t.Members[i]
		was := old.Member(m.Num)
		switch {
		case was == nil || was.Boot != m.Boot || was.State == m.State:
		case m.State == ring.Down:
			n.peer(m.Num).back = 0
		case was.State == ring.Down:
			n.isBack(m.Holder())
		}
	}
}

// isBack notes that a member is heard that had been found dead.
func (n *Node) isBack(x ring.Holder) {
	p := n.peer(x.Num)
	if p.back != 0 {
		return
	}
	p.back = n.now.Mono
	for h := range ring.Slot(ring.Slots) {
		if slices.Contains(n.slots[h].gone, x) {
			n.endReturned(h) // it may know more of sessions for which others were asked
		}
	}
}

// waitsForReturned keeps o until members that are back have said what they hold
// of its session; false if there is nothing to wait for.
func (n *Node) waitsForReturned(h ring.Slot, o *op) bool {
	sl := &n.slots[h]
	if len(sl.gone) == 0 {
		return false
	}
	s := sl.returned[o.req.ID]
	if s == nil {
		if s = n.askReturned(h, o.req.ID); s == nil {
			return false
		}
	}
	if s.ready {
		w := sl.writes[s.id]
		if o.req.Kind.Mutates() || w == nil || w.op == nil || w.op.merge == nil || len(w.after) >= n.p.MaxWaiting {
			return false
		}
		w.after = append(w.after, o) // what they hold is being merged
		return true
	}
	if len(s.waiting) >= n.p.MaxWaiting {
		n.finish(o, unavailable("overloaded", "too many requests wait for members that have come back to be asked for this session; try again"))
		return true
	}
	s.waiting = append(s.waiting, o)
	return true
}

// askReturned asks the members for a session; nil where none is back.
func (n *Node) askReturned(h ring.Slot, id session.ID) *returnedSession {
	sl := &n.slots[h]
	s := &returnedSession{slot: h, id: id, askedAt: n.now.Mono}
	sl.gone = slices.DeleteFunc(sl.gone, func(x ring.Holder) bool {
		p := n.peer(x.Num)
		over := p.back != 0 && n.now.since(p.back) > returnedFor
		if p.back != 0 && !over {
			s.asked = append(s.asked, x)
		}
		return over
	})
	if len(sl.gone) == 0 {
		sl.returned = nil
	}
	if len(s.asked) == 0 {
		return nil
	}
	if sl.returned == nil {
		sl.returned = map[session.ID]*returnedSession{}
	}
	sl.returned[id] = s
	n.returned = append(n.returned, s)
	n.sendReturned(s)
	return s
}

func (n *Node) sendReturned(s *returnedSession) {
	s.sentAt = n.now.Mono
	for _, x := range s.asked {
		n.send(x, &Fetch{SlotRe{s.slot, n.t.Slots[s.slot].Re}, repairTag, []session.ID{s.id}})
	}
}

// returnedRecords takes the answer of a member that is back, after what it holds
// has gone on its way into the owner's record.
func (n *Node) returnedRecords(from ring.Holder, m *Records) {
	for _, id := range m.Asked {
		if s := n.slots[m.Slot].returned[id]; s != nil && !s.ready {
			s.asked = slices.DeleteFunc(s.asked, func(x ring.Holder) bool { return x == from })
			if len(s.asked) == 0 {
				n.readyReturned(s)
			}
		}
	}
}

func (n *Node) readyReturned(s *returnedSession) {
	s.ready = true
	waiting := s.waiting
	s.waiting = nil
	for _, o := range waiting {
		n.serve(s.slot, o)
	}
}

// endReturned begins anew with a slot's sessions.
func (n *Node) endReturned(h ring.Slot) {
	all := n.slots[h].returned
	n.slots[h].returned = nil
	for _, id := range slices.Sorted(maps.Keys(all)) {
		n.readyReturned(all[id])
	}
}

// tickReturned asks again, and goes on without those that do not answer.
func (n *Node) tickReturned() {
	all := n.returned
	n.returned = nil
	for _, s := range all {
		switch {
		case s.ready:
		case n.now.since(s.askedAt) > askingReturned:
			n.readyReturned(s)
		default:
			if n.now.since(s.sentAt) >= n.p.Resend {
				n.sendReturned(s)
			}
			n.returned = append(n.returned, s)
		}
	}
}
