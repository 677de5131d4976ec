package leader

import (
	"errors"
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

// homeKey is what a member's share of homes depends on. While it stays as it
// was when homes were last even, they are left alone.
type homeKey struct {
	num     member.Number
	up, out bool
	weight  uint16
}

// plan puts all changes that are ready into one entry.
func (c *Core) plan(now time.Duration) {
	c.urgent, c.dirty, c.planned = false, false, now
	if len(c.table.Members) == 0 {
		c.first()
		return
	}
	c.observe(now)
	d := ring.NewDraft(c.table)
	d.Outlived = func(living, dead member.Number) bool { return c.outlived(now, living, dead) }
	c.takeAdds(now, d)
	c.joins(now, d)
	c.noteStores(d)
	c.noteAway(now, d)
	for _, s := range c.asked.stops {
		if c.current(s.From) == nil {
			continue
		}
		if s.Leave {
			d.Leave(s.From.Num)
		} else {
			d.Stop(s.From.Num)
		}
	}
	downs := c.markDown(now, d)
	if c.halfDead {
		d.Settle()
	}
	c.dropSlow(now, d)
	c.resets(now, d)
	c.removals(now, d)
	answers := c.wishes(d)
	c.settleHomes(d)
	d.Learners(func(owner, num member.Number) bool { return c.heldBack(now, owner, num) })
	d.Moves(&c.seen)
	d.Shrink(&c.seen)
	d.Retire(c.mayGo)
	c.taken = c.asked
	c.taken.answers = answers
	c.asked = asked{}
	c.propose(d.Change(), downs)
}

func (c *Core) propose(ch *ring.Change, downs map[member.Number]bool) {
	if ch.Empty() {
		c.answer(c.taken.answers)
		c.taken = asked{}
		return
	}
	c.inFlight = ch
	c.leases.condemns = downs
	c.do(Propose{ch})
}

// first plans the table out of nothing, once enough members are alive (L0).
func (c *Core) first() {
	var list []ring.Candidacy
	holders := 0
	for _, id := range c.order {
		if s := c.view[id]; s.Status == member.Alive {
			list = append(list, s.Candidacy)
			if !s.Witness {
				holders++
			}
		}
	}
	if holders == 0 || len(list) < c.cluster.Expect {
		return
	}
	d := ring.NewDraft(c.table)
	d.First(c.cluster.ID, c.cluster.Settings, c.cluster.Keys, list)
	c.propose(d.Change(), nil)
}

// observe turns reports and clocks into what the planner asks for.
func (c *Core) observe(now time.Duration) {
	c.seen.Reaped = make(map[member.Number]bool)
	for i := range c.table.Members {
		m := &c.table.Members[i]
		r := c.run(m.Num)
		reap := c.table.Settings.ReapAfter
		c.seen.Reaped[m.Num] = m.State == ring.Down && reap > 0 && r.downAt != never && now-r.downAt >= reap
	}
	for h := range ring.Slot(ring.Slots) {
		s := &c.table.Slots[h]
		v := &c.seen.Slots[h]
		*v = ring.SlotView{Stable: now-c.slots.since[h] >= c.p.Stable}
		if o := c.table.Member(s.Owner); o == nil || c.slots.from[h] != o.Holder() {
			continue
		}
		l := c.slots.load[h]
		v.Open = l.Open && c.slots.epoch[h] >= s.Changed
		v.Empty = v.Open && l.Sessions == 0
		v.Idle = v.Open && l.Idle
	}
}

// takeAdds answers who wants copies to count as in sync (L6): No at once, where
// that is for good, Yes by the table.
func (c *Core) takeAdds(now time.Duration, d *ring.Draft) {
	for _, a := range c.asked.adds {
		var no []ring.Candidate
		for _, cand := range a.Slots {
			if d.AddInSync(a.From, cand) == ring.VerdictRefused {
				no = append(no, cand)
			}
		}
		r := c.current(a.From)
		if len(no) > 0 {
			to := Peer{Holder: a.From}
			if r != nil {
				to = c.peer(a.From.Num)
			}
			c.do(Send{to, &ring.AddInSyncNo{Slots: no}})
		}
		if r == nil {
			continue
		}
		// A table that was sent a moment ago need not be sent again.
		if has := max(r.epoch, r.sent); has < c.table.Epoch {
			r.sent, r.sentAt = c.table.Epoch, now
			c.do(Send{c.peer(a.From.Num), &ring.TableUpdate{Table: c.table.Since(has)}})
		}
	}
}

// joins plans who gossip shows alive into the table (L3).
func (c *Core) joins(now time.Duration, d *ring.Draft) {
	for _, id := range c.order {
		s := c.view[id]
		if s.Status != member.Alive && s.Status != member.Suspect || c.retired[s.Boot] {
			continue
		}
		m := c.table.ByID(id)
		said := c.stores[id]
		if c.table.Settings.Disk && (m == nil || m.Boot != s.Boot) {
			if said.boot != s.Boot {
				continue // its Renew tells in a moment what its disk holds
			}
			s.Store = said.store
		}
		if m != nil && m.Boot == s.Boot {
			r := c.run(m.Num)
			if m.State == ring.Down && (s.Status != member.Alive || !c.backAgain(now, m, r)) {
				continue
			}
			if m.State != ring.Down && m.Addr == s.Addr && m.Name == s.Name && m.Witness == s.Witness {
				continue
			}
		}
		if m != nil && m.Boot != s.Boot && m.Addr != s.Addr && m.State != ring.Down && id == c.self && c.leaseGone(now, c.run(m.Num)) {
			d.Down(m.Num) // nobody else can tell that the run before this one is gone
		}
		err := d.Join(s.Candidacy)
		returns := m != nil && m.State == ring.Down && (m.Boot == s.Boot || c.table.Settings.Disk)
		if err == nil && returns && now-c.run(m.Num).downAt >= c.p.DownMax {
			d.Discard(m.Num)
		}
		if errors.Is(err, ring.ErrNameConflict) && !c.noted[s.Boot] {
			c.noted[s.Boot] = true
			c.do(Note{Kind: NoteConflict, Name: s.Name, Why: err.Error()})
		}
	}
}

// noteStores plans that the table names what the members' disks hold now.
func (c *Core) noteStores(d *ring.Draft) {
	for i := range c.table.Members {
		m := &c.table.Members[i]
		if said := c.stores[m.ID]; said.boot == m.Boot && said.store != m.Store {
			if now := d.Table().Member(m.Num); now != nil && now.Boot == m.Boot {
				d.Store(m.Num, said.store)
			}
		}
	}
}

// noteAway plans that the table says how long members have been down, so that a
// leader that comes after this one knows: an entry in each eighth of the shortest
// time that matters, until none does any more.
func (c *Core) noteAway(now time.Duration, d *ring.Draft) {
	first, last := c.p.DownMax, c.p.DownMax
	if reap := c.table.Settings.ReapAfter; reap > 0 {
		first, last = min(first, reap), max(last, reap)
	}
	for i := range c.table.Members {
		m := &c.table.Members[i]
		if m.State != ring.Down || m.Away >= last {
			continue
		}
		if away := now - c.run(m.Num).downAt; away-m.Away >= first/8 {
			d.Away(m.Num, min(away, last))
		}
	}
}

// backAgain reports whether a member that was marked down proved to be alive:
// it spoke to the leader, knowing that it is down. Gossip that has not yet
// noticed a death proves nothing.
func (c *Core) backAgain(now time.Duration, m *ring.Member, r *run) bool {
	return now-r.heard <= c.p.Heard && r.epoch >= m.Changed && now >= r.rejoin
}

func (c *Core) markDown(now time.Duration, d *ring.Draft) map[member.Number]bool {
	downs := make(map[member.Number]bool)
	for _, v := range c.verdicts(now) {
		m := d.Table().Member(v.num)
		r := c.run(v.num)
		if m == nil || m.Holder() != r.holder || (v.limited && !c.mayMark(now)) {
			continue // replaced in this very plan, or too many at once
		}
		if v.limited {
			c.downs = append(c.downs, now)
		}
		if v.hold {
			r.rejoin = now + c.p.Stable
		}
		downs[v.num] = true
		d.Down(v.num)
		c.do(Note{Kind: NoteDown, Num: v.num, Name: m.Name, Why: v.why})
	}
	return downs
}

// resets plans L4: in serve mode a slot whose copies are all gone does not wait
// for ever.
func (c *Core) resets(now time.Duration, d *ring.Draft) {
	wait := c.table.Settings.StallTimeout
	if c.table.Settings.Refuse || wait <= 0 {
		return
	}
	n := 0
	for h := range ring.Slot(ring.Slots) {
		if at := c.slots.stalled[h]; at != never && now-at >= wait && d.Reset(h) {
			n++
		}
	}
	if n > 0 {
		c.do(Note{Kind: NoteReset, Count: n})
	}
}

// mayGo reports whether a member that leaves has said that its requests are
// done: the others listen to nobody whom the table does not name.
func (c *Core) mayGo(num member.Number) bool {
	return slices.ContainsFunc(c.asked.stops, func(s ring.Stop) bool {
		return s.Leave && s.Done && s.From.Num == num && c.current(s.From) != nil
	})
}

// removals plans that members which left for good are out of the table.
func (c *Core) removals(now time.Duration, d *ring.Draft) {
	for i := range c.table.Members {
		m := &c.table.Members[i]
		s, ok := c.view[m.ID]
		r := c.run(m.Num)
		if ok && s.Status == member.Left && s.Boot == m.Boot && now-r.heard > c.p.Heard && c.leaseGone(now, r) {
			d.Remove(m.Num)
		}
	}
}

// settleHomes plans L9 while homes are not as they shall be.
func (c *Core) settleHomes(d *ring.Draft) {
	var keys []homeKey
	t := d.Table()
	for _, num := range t.Order {
		m := t.Member(num)
		keys = append(keys, homeKey{
			num: num, up: m.State == ring.Up, weight: m.Weight,
			out: m.Drain || m.Witness || m.State == ring.Leaving || c.seen.Reaped[num],
		})
	}
	if !slices.Equal(keys, c.homes) {
		c.homes, c.even = keys, false
	}
	if !c.even {
		c.even = d.Homes(&c.seen)
	}
}
