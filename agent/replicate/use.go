package replicate

import (
	"time"

	"github.com/rondel-project/rondel/agent/session"
)

// Use is a Touch of which nobody waits for the answer, by one who tells of the
// session's use every so often. That of a session which this member serves makes
// no call: with very many sessions in use there is one for most requests that a
// proxy passes on.
func (n *Node) Use(t Time, handle uint64, id session.ID, every time.Duration, out *Out) {
	n.begin(t, out)
	if !n.useHere(id, every) {
		n.startCall(&call{
			handle: handle, deadline: n.now.Mono + int64(n.p.OpBudget),
			req: &session.Request{Kind: session.Touch, ID: id, TTL: every},
		})
	}
	n.end()
}

// useHere notes the use if a Touch would be served at once, as serve and perform
// have it, and reports whether it did.
func (n *Node) useHere(id session.ID, every time.Duration) bool {
	h, ok := id.Slot()
	if !ok {
		return false
	}
	e := n.store.Get(h, id)
	if e == nil || e.Rec.Dead || n.ended(e) || !n.owns(h) || !n.open(h) || n.leaseOver() {
		return false
	}
	if !n.refuse && n.wakeup.dozing || len(n.slots[h].gone) > 0 {
		return false
	}
	n.Stats.Reads++
	n.used(e, every)
	return true
}

// used starts the session's idle time anew, with what the asker leaves out.
func (n *Node) used(e *session.Entry, every time.Duration) {
	n.touch(e)
	if every > 0 && e.Rec.TTL > 0 {
		n.store.Extend(e, n.now.Mono+int64(e.Rec.TTL+every))
	}
}
