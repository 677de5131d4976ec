package replicate

import (
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// Use is a Touch of which nobody waits for the answer, by one who tells of the
// session's use every so often. That of a session which this member serves makes
// no call: with very many sessions in use there is one for most requests that a
// proxy passes on.
func (n *Node) Use(t Time, handle uint64, id session.ID, every time.Duration, out *Out) {
	n.begin(t, out)
	if h, ok := id.Slot(); !ok || !n.useHere(h, n.store.Get(h, id), t.Mono, every) {
		n.callUse(handle, id, every)
	}
	n.end()
}

// uses are those of sessions, by their ids and slots, since a moment.
type uses struct {
	since int64 // the first of them
	ids   []session.ID
	slots []ring.Slot
	found []*session.Entry // for Node.Uses, as long as ids
}

// Uses is Use for many sessions, as if all had come with the first of them: nothing
// that has become true since then comes before them, be it that a session has ended,
// or that this member may not speak for it any more. There must have been no other
// step since. How long a session lives on counts from t: nobody knows which use was
// the last. Those that make calls have handles from handle on.
func (n *Node) Uses(t Time, handle uint64, u *uses, every time.Duration, out *Out) {
	at := max(min(u.since, t.Mono), n.now.Mono)
	n.begin(Time{Mono: at, Wall: t.Wall - (t.Mono-at)/int64(time.Millisecond)}, out)
	n.store.Find(u.slots, u.ids, u.found)
	for i, e := range u.found {
		if n.useHere(u.slots[i], e, t.Mono, every) {
			u.ids[i] = "" // nothing is left to be done
		}
	}
	for i, id := range u.ids { // apart: a call may change what was found
		if id != "" {
			n.callUse(handle+uint64(i), id, every)
		}
	}
	n.end()
}

func (n *Node) callUse(handle uint64, id session.ID, every time.Duration) {
	n.startCall(&call{
		handle: handle, deadline: n.now.Mono + int64(n.p.OpBudget),
		req: &session.Request{Kind: session.Touch, ID: id, TTL: every},
	})
}

// useHere notes the use if a Touch would be served at once, as serve and perform
// have it, and reports whether it did. The idle time starts anew at from.
func (n *Node) useHere(h ring.Slot, e *session.Entry, from int64, every time.Duration) bool {
	if e == nil || e.Rec.Dead || n.ended(e) || !n.owns(h) || !n.open(h) || n.leaseOver() {
		return false
	}
	if n.ending(h, e.Rec.ID) || !n.refuse && n.wakeup.dozing || len(n.slots[h].gone) > 0 {
		return false
	}
	n.Stats.Reads++
	n.used(e, from, every)
	return true
}
