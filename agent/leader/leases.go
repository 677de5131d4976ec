package leader

import (
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

// leases holds the Renews on their way to a Grant (L1).
type leases struct {
	waiting  []*ring.Renew // arrived since the last quorum round started
	batch    []*ring.Renew // covered by the round that is running
	number   uint64
	running  bool
	started  time.Duration
	condemns map[member.Number]bool // in an entry that marks them down
}

func (c *Core) renewed(now time.Duration, m *ring.Renew) {
	r := c.current(m.From)
	// One that comes late must not bring back the name of a disk that has failed.
	if was := c.stores[m.ID]; was.boot != m.From.Boot || was.sent <= m.Sent {
		c.stores[m.ID] = stored{m.From.Boot, m.Store, m.Sent}
		c.urgent = c.urgent || was.boot != m.From.Boot || was.store != m.Store
	}
	if r == nil {
		c.stranger(m)
		return
	}
	r.heard, r.epoch = now, m.Epoch
	if m.Epoch < r.sent && now-r.sentAt > c.p.Lease/5 {
		r.sent = m.Epoch // it got lost
	}
	c.learn(m)
	if c.table.Member(m.From.Num).State == ring.Down {
		c.tell(m)
		c.dirty = true
		return
	}
	for i, w := range c.leases.waiting {
		if w.From == m.From {
			c.leases.waiting[i] = m
			return
		}
	}
	c.leases.waiting = append(c.leases.waiting, m)
}

// stranger answers a run that the table does not name: it gets the table, and
// finds itself in it or not.
func (c *Core) stranger(m *ring.Renew) { c.tell(m) }

func (c *Core) tell(m *ring.Renew) {
	if m.Epoch >= c.table.Epoch {
		return
	}
	to := Peer{Holder: m.From, ID: m.ID}
	if s, ok := c.view[m.ID]; ok {
		to.Addr = s.Addr
	}
	c.do(Send{to, &ring.TableUpdate{Table: c.table.Since(m.Epoch)}})
}

// learn takes what an owner tells of its slots.
func (c *Core) learn(m *ring.Renew) {
	for _, l := range m.Owned {
		if l.Slot >= ring.Slots || c.table.Slots[l.Slot].Owner != m.From.Num {
			continue
		}
		was := c.slots.load[l.Slot]
		fresh := c.slots.from[l.Slot] != m.From || c.slots.epoch[l.Slot] < c.table.Slots[l.Slot].Changed
		if fresh || was.Open != l.Open || was.Idle != l.Idle || (was.Sessions == 0) != (l.Sessions == 0) {
			c.dirty = true
		}
		c.slots.load[l.Slot], c.slots.from[l.Slot], c.slots.epoch[l.Slot] = l, m.From, m.Epoch
	}
}

// verify starts a quorum round for the Renews that wait, at most one at a time.
func (c *Core) verify(now time.Duration) {
	l := &c.leases
	if l.running || len(l.waiting) == 0 || now < l.started+c.p.VerifyGap {
		return
	}
	l.number++
	l.running, l.started = true, now
	l.batch, l.waiting = l.waiting, nil
	c.do(Verify{l.number})
}

// verified grants what the finished round covers. Who is about to be marked
// down, or is to lose its lease first, gets nothing.
func (c *Core) verified(now time.Duration, ev Verified) {
	l := &c.leases
	if !l.running || ev.Batch != l.number {
		return
	}
	l.running = false
	batch := l.batch
	l.batch = nil
	if !ev.OK {
		return
	}
	for _, m := range batch {
		r := c.current(m.From)
		if r == nil || c.table.Member(m.From.Num).State == ring.Down || c.withheld(now, r) {
			continue
		}
		g := &ring.Grant{To: m.From, Sent: m.Sent, Term: c.term}
		if self := c.table.ByID(c.self); self != nil {
			g.Leader = self.Num
		}
		if m.Epoch < c.table.Epoch {
			g.Table = c.table.Since(m.Epoch)
		}
		r.granted = now
		c.do(Send{c.peer(m.From.Num), g})
	}
}

// withheld reports whether a run gets no lease though it is not down yet.
func (c *Core) withheld(now time.Duration, r *run) bool {
	num := r.holder.Num
	return c.leases.condemns[num] || r.isolated != never || c.dead(now, r)
}

// leaseGone reports whether a member's lease is certainly over, by its own
// clock: always, as far as serve mode is concerned.
func (c *Core) leaseGone(now time.Duration, r *run) bool {
	if !c.table.Settings.Refuse {
		return true
	}
	since := max(r.granted, c.elected)
	return now > since+c.p.leaseOver()
}
