package replicate

import (
	"slices"
	"sync"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// clocks is what a member knows of other members' wall clocks. Where its own
// is far from theirs it corrects its stamps: a clock that is ahead would win all
// merges, one that is behind would lose them (S4).
type clocks struct {
	ahead  map[ring.Holder]int64 // ms: their wall clock less this member's Mono
	offset int64                 // ms, added to Wall in stamps
	tuneAt int64
}

// clockBound is how far a clock may be off before its stamps are corrected.
const clockBound = 1000

// PeerClock takes what a greeting has just shown of another member's wall clock:
// how far it is ahead of this one's.
func (n *Node) PeerClock(t Time, who ring.Holder, ahead time.Duration, out *Out) {
	n.begin(t, out)
	if m := n.t.Member(who.Num); m != nil && m.Holder() == who && who != n.self {
		if n.clocks.ahead == nil {
			n.clocks.ahead = map[ring.Holder]int64{}
		}
		// A step of this member's own clock shows, since it does not move Mono.
		n.clocks.ahead[who] = ahead.Milliseconds() + n.now.Wall - n.now.Mono/1e6
		n.tune()
	}
	n.end()
}

// ClockOffset returns by how much this member corrects its wall clock in stamps;
// 0 while it agrees with those of most members.
func (n *Node) ClockOffset() time.Duration { return time.Duration(n.clocks.offset) * time.Millisecond }

func (n *Node) tickClocks() {
	if n.clocks.tuneAt <= n.now.Mono {
		n.clocks.tuneAt = n.now.Mono + 1e9
		n.tune()
	}
}

// tune takes the median of all clocks, this member's among them; of two in the
// middle the one nearer to its own, so that of two members neither follows the
// other.
func (n *Node) tune() {
	offsets := []int64{0}
	for i := range n.t.Members {
		m := &n.t.Members[i]
		if ahead, ok := n.clocks.ahead[m.Holder()]; ok && m.State != ring.Down && m.Num != n.self.Num {
			offsets = append(offsets, ahead-(n.now.Wall-n.now.Mono/1e6))
		}
	}
	for who := range n.clocks.ahead {
		if m := n.t.Member(who.Num); m == nil || m.Holder() != who {
			delete(n.clocks.ahead, who)
		}
	}
	slices.Sort(offsets)
	low, high := offsets[(len(offsets)-1)/2], offsets[len(offsets)/2]
	median := low
	if max(high, -high) < max(low, -low) {
		median = high
	}
	n.clocks.offset = 0
	if median > clockBound || median < -clockBound {
		n.clocks.offset = median
	}
}

// stamp returns the next stamp of the hybrid logical clock (S4).
func (n *Node) stamp() session.Stamp {
	n.hlc = max(n.hlc+1, uint64(max(0, n.now.Wall+n.clocks.offset))<<16)
	return session.Stamp{HLC: n.hlc, Num: n.self.Num}
}

// see advances the clock past the stamps of a record that came in (S4).
func (n *Node) see(attrs []*session.Attr) {
	for _, a := range attrs {
		n.hlc = max(n.hlc, a.Stamp.HLC)
	}
}

// greetings remembers which greetings an engine has heard of: what they
// measured counts once, since a clock may have been set since.
type greetings struct {
	mu sync.Mutex // guards of
	of map[member.ID]*recent
}

// recent is the last greetings of one member; it has few connections at a time.
type recent struct {
	list [8]greeting
	next int
}

type greeting struct {
	boot  member.Boot
	wall  int64
	ahead time.Duration
}

func (g *greetings) fresh(id member.ID, x greeting) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of == nil {
		g.of = map[member.ID]*recent{}
	}
	r := g.of[id]
	if r == nil {
		r = &recent{}
		g.of[id] = r
	}
	if slices.Contains(r.list[:], x) {
		return false
	}
	r.list[r.next%len(r.list)] = x
	r.next++
	return true
}

// lose forgets a member of which the table does not know yet, so that its
// greeting counts when it does, and those that the table names no more.
func (g *greetings) lose(id member.ID, t *ring.Table) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for x := range g.of {
		if x == id || t.ByID(x) == nil {
			delete(g.of, x)
		}
	}
}

// PeerClock takes what a greeting has shown of a member's wall clock: its time
// then, and how far that was ahead of this agent's. It may be called with each
// message of the connection.
func (e *Engine) PeerClock(id member.ID, boot member.Boot, theirs time.Time, ahead time.Duration) {
	if !e.greetings.fresh(id, greeting{boot, theirs.UnixNano(), ahead}) {
		return
	}
	e.step(func(now Time, out *Out) {
		if m := e.node.t.ByID(id); m != nil && m.Boot == boot {
			e.node.PeerClock(now, m.Holder(), ahead, out)
		} else {
			e.greetings.lose(id, e.node.t)
		}
	})
}

// tick lets the core's time pass.
func (e *Engine) tick() {
	var offset time.Duration
	e.step(func(now Time, out *Out) {
		e.node.Tick(now, out)
		offset = e.node.ClockOffset()
	})
	switch far := (offset - e.offset).Abs() > time.Second; {
	case far && offset != 0:
		e.log.Warn("clock differs from those of most members, stamps of changes are corrected", "offset", offset)
		e.offset = offset
	case far:
		e.log.Info("clock agrees with those of most members again")
		e.offset = 0
	}
}
