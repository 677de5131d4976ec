package leader

import (
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

// report is the last word of a member on others. since holds for how long it
// has named each slow one without a gap.
type report struct {
	at          time.Duration
	slow        []slowOne
	unreachable []ring.Holder
	held        []slowOne // dropped from its slots: since when
}

type slowOne struct {
	who   ring.Holder
	since time.Duration
}

func find(list []slowOne, who ring.Holder) (slowOne, bool) {
	i := slices.IndexFunc(list, func(s slowOne) bool { return s.who == who })
	if i < 0 {
		return slowOne{}, false
	}
	return list[i], true
}

func (c *Core) reported(now time.Duration, m *ring.Report) {
	r := c.current(m.From)
	if r == nil {
		return
	}
	r.heard = now
	next := report{at: now, held: r.report.held}
	for _, who := range m.Slow {
		one := slowOne{who, now}
		if before, ok := find(r.report.slow, who); ok && now-r.report.at <= c.p.Fresh {
			one.since = before.since
		}
		next.slow = append(next.slow, one)
	}
	for _, u := range m.Unreachable {
		next.unreachable = append(next.unreachable, u.Who)
		about := c.current(u.Who)
		if about == nil || !u.Refused || about == r {
			continue
		}
		if c.isSelf(r.holder.Num) {
			about.refused, c.urgent = now, true
		} else if c.within(now, r) {
			about.refusedOf, c.urgent = now, true
		}
	}
	r.report = next
}

// accusation is what the reports, taken together, say.
type accusation struct {
	isolated map[member.Number]bool // owners that reach nobody, or are reached by nobody (L2b)
	slow     [][2]member.Number     // owner, and who holds up its writes (L11)
}

// accuse weighs the reports. An owner that finds all others slow is itself the
// slow one. Where more than half of the owners are accused the network as a
// whole is in trouble, and taking slots away would make it worse.
func (c *Core) accuse(now time.Duration) accusation {
	a := accusation{isolated: make(map[member.Number]bool)}
	if !c.anyReport(now) {
		return a
	}
	owners, partners := c.sharing()
	accused := make(map[member.Number]bool)
	cannot := make(map[member.Number]int)
	for i := range c.table.Members {
		num := c.table.Members[i].Num
		r := c.run(num)
		if now-r.report.at > c.p.Fresh || len(r.report.slow)+len(r.report.unreachable) == 0 {
			continue
		}
		lasting := 0
		for _, s := range r.report.slow {
			about := c.current(s.who)
			if about != nil && partners[num][s.who.Num] && now-s.since >= c.p.SlowFor && c.within(now, about) {
				lasting++
			}
		}
		if n := len(partners[num]); n > 1 && lasting == n {
			a.isolated[num], accused[num] = true, true
			continue
		}
		for _, s := range r.report.slow {
			if c.current(s.who) == nil || !partners[num][s.who.Num] {
				continue
			}
			accused[s.who.Num] = true
			// Only while its owner is there to say so: an owner that has died since
			// would be left alone with what the slow one holds too.
			if r.report.at-s.since >= c.p.SlowFor && now-r.report.at <= c.p.Heard/5 {
				a.slow = append(a.slow, [2]member.Number{num, s.who.Num})
			}
		}
		for _, who := range r.report.unreachable {
			if about := c.current(who); about != nil && who.Num != num && owners[who.Num] && c.within(now, about) {
				cannot[who.Num]++
			}
		}
	}
	for i := range c.table.Members {
		if num := c.table.Members[i].Num; cannot[num] >= 2 {
			a.isolated[num], accused[num] = true, true
		}
	}
	n := 0
	for num := range accused {
		if owners[num] {
			n++
		}
	}
	if 2*n > len(owners) {
		return accusation{}
	}
	return a
}

// shares says who owns slots in a table, and with whom in sync.
type shares struct {
	of       *ring.Table
	owners   map[member.Number]bool
	partners map[member.Number]map[member.Number]bool
}

// sharing returns the owners of slots, and for each with whom it shares them.
func (c *Core) sharing() (owners map[member.Number]bool, partners map[member.Number]map[member.Number]bool) {
	if s := &c.shares; s.of != c.table {
		*s = shares{c.table, make(map[member.Number]bool), make(map[member.Number]map[member.Number]bool)}
		for h := range ring.Slot(ring.Slots) {
			slot := &c.table.Slots[h]
			if slot.Owner == 0 {
				continue
			}
			with := s.partners[slot.Owner]
			if with == nil {
				with = make(map[member.Number]bool)
				s.owners[slot.Owner], s.partners[slot.Owner] = true, with
			}
			for _, in := range slot.InSync {
				if in.Num != slot.Owner {
					with[in.Num] = true
				}
			}
		}
	}
	return c.shares.owners, c.shares.partners
}

func (c *Core) anyReport(now time.Duration) bool {
	for i := range c.table.Members {
		r := &c.run(c.table.Members[i].Num).report
		if now-r.at <= c.p.Fresh && len(r.slow)+len(r.unreachable) > 0 {
			return true
		}
	}
	return false
}

// judge starts and ends the time after which an isolated owner is treated as
// down. Until then it gets no lease.
func (c *Core) judge(now time.Duration) {
	a := c.accuse(now)
	for i := range c.table.Members {
		num := c.table.Members[i].Num
		r := c.run(num)
		switch {
		case !a.isolated[num]:
			r.isolated = never
		case r.isolated == never:
			r.isolated = now
		}
	}
	for _, pair := range a.slow {
		r := c.run(pair[0])
		if _, held := find(r.report.held, c.run(pair[1]).holder); !held && c.inSyncWith(pair[0], pair[1]) {
			c.urgent = true
		}
	}
}

func (c *Core) inSyncWith(owner, num member.Number) bool {
	for h := range ring.Slot(ring.Slots) {
		s := &c.table.Slots[h]
		if _, in := s.InSyncBoot(num); in && s.Owner == owner {
			return true
		}
	}
	return false
}

// dropSlow plans L11, and holds the slow ones back for a while.
func (c *Core) dropSlow(now time.Duration, d *ring.Draft) {
	for _, pair := range c.accuse(now).slow {
		owner, slow := c.run(pair[0]), c.run(pair[1])
		if !c.inSyncWith(pair[0], pair[1]) {
			continue
		}
		d.DropSlow(pair[0], pair[1])
		owner.report.held = slices.DeleteFunc(owner.report.held, func(s slowOne) bool { return s.who == slow.holder })
		owner.report.held = append(owner.report.held, slowOne{slow.holder, now})
		c.do(Note{Kind: NoteSlow, Num: pair[1], Name: c.table.Member(pair[1]).Name})
	}
}

// heldBack reports whether a member is not to be filled for an owner yet.
func (c *Core) heldBack(now time.Duration, owner, num member.Number) bool {
	o, m := c.run(owner), c.run(num)
	if o == nil || m == nil {
		return false
	}
	s, ok := find(o.report.held, m.holder)
	return ok && now-s.since < c.p.SlowHold
}
