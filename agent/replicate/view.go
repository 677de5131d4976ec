package replicate

import (
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// View is what the proxy and the API look up for every request, worked out once
// for each table. It is read without a lock.
type View struct {
	Table *ring.Table
	Keys  *session.Keyring
	Self  ring.Holder

	owners   [ring.Slots]member.ID
	since    [ring.Slots]time.Time // when the owner last changed, as this agent saw it
	nexts    [ring.Slots][]member.ID
	lower    map[member.ID][]ring.Slot
	anyLower []ring.Slot
	round    *atomic.Uint32
}

func newView(old *View, n *Node, now time.Time) *View {
	v := &View{Table: n.t, Keys: n.keys, Self: n.self, lower: map[member.ID][]ring.Slot{}, round: &atomic.Uint32{}}
	if old != nil {
		v.round = old.round
	}
	ids := map[member.Number]member.ID{}
	var draining []ring.Slot
	for i := range n.t.Members {
		m := &n.t.Members[i]
		ids[m.Num] = m.ID
		half := n.t.LowerHalf(m.Num)
		switch {
		case m.Drain:
			draining = append(draining, half...)
			continue // takes no new sessions
		case m.State == ring.Up:
			v.anyLower = append(v.anyLower, half...)
		}
		v.lower[m.ID] = half
	}
	if len(v.anyLower) == 0 {
		v.anyLower = draining // nobody else is there
	}
	for h := range ring.Slot(ring.Slots) {
		owner := n.t.Slots[h].Owner
		v.owners[h] = ids[owner]
		switch {
		case old == nil || old.owners[h] == "":
			// The first table: whoever owns the slot may have owned it for long.
		case old.owners[h] == v.owners[h]:
			v.since[h] = old.since[h]
		default:
			v.since[h] = now
		}
		if old != nil && old.Table.Slots[h].Changed == n.t.Slots[h].Changed && n.t.Slots[h].Changed != 0 {
			v.nexts[h] = old.nexts[h]
			continue
		}
		for _, num := range n.t.Successors(h) {
			v.nexts[h] = append(v.nexts[h], ids[num])
		}
	}
	return v
}

// View returns the present view.
func (e *Engine) View() *View { return e.view.Load() }

// Locate returns the slot's owner, the members that would take over from it,
// and for how long it has owned the slot.
func (v *View) Locate(h ring.Slot, now time.Time) (owner member.ID, next []member.ID, settled time.Duration) {
	settled = time.Duration(1<<63 - 1)
	if at := v.since[h]; !at.IsZero() {
		settled = now.Sub(at)
	}
	return v.owners[h], v.nexts[h], settled
}

// Owns reports whether the table names this member as the slot's owner.
func (v *View) Owns(h ring.Slot) bool { return v.Self.Num != 0 && v.Table.Slots[h].Owner == v.Self.Num }

// Mint makes an id in a slot that the member opens sessions in, or where it has
// none in one of any member that is up; false without a table.
func (v *View) Mint(near member.ID, now time.Time) (session.ID, bool) {
	slots := v.lower[near]
	if len(slots) == 0 {
		slots = v.anyLower
	}
	if v.Keys.Empty() || len(slots) == 0 {
		return "", false
	}
	// In turn: as many sessions in each slot as in the others.
	h := slots[int(v.round.Add(1))%len(slots)]
	return v.Keys.Mint(h, now), true
}

// touchFilter lets one use of a session through in a while. It is a fixed table
// of the last uses by hash; a collision lets one through too often.
type touchFilter struct {
	every time.Duration
	pairs [1 << 12][2]atomic.Uint64 // 24 bits of hash, 40 of milliseconds
}

func (f *touchFilter) due(id session.ID, now time.Time) bool {
	h := xxhash.Sum64String(string(id))
	pair := &f.pairs[h%uint64(len(f.pairs))]
	const low = 1<<40 - 1
	ms := uint64(now.UnixMilli()) & low
	first, second := pair[0].Load(), pair[1].Load()
	cell := &pair[0] // its own, or else the older one
	switch {
	case first>>40 == h>>40:
	case second>>40 == h>>40, ms-second&low > ms-first&low:
		first, cell = second, &pair[1]
	}
	if first>>40 == h>>40 && ms-first&low < uint64(f.every.Milliseconds()) {
		return false
	}
	cell.Store(h>>40<<40 | ms)
	return true
}
