package leader

import (
	"cmp"
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

// never is a time before all others.
const never = time.Duration(-1 << 62)

// Core is the leader's state in one term. Step it from one goroutine, with
// times that never fall; they count from any one moment, by a clock that runs
// on while the machine sleeps if there is one.
type Core struct {
	p       Params
	self    member.ID
	term    uint64
	elected time.Duration
	cluster Cluster

	table  *ring.Table
	view   map[member.ID]Seen
	order  []member.ID // of view, sorted
	runs   map[member.Number]*run
	slots  slotTimes
	shares shares
	seen   ring.Observed

	leases leases
	asked  asked
	taken  asked // what of it is in the entry that is in flight
	out    []Action

	inFlight *ring.Change
	urgent   bool // plan before the next tick
	dirty    bool // plan at the next tick
	planned  time.Duration
	downs    []time.Duration // when members were marked down, within Params.DownGap
	homes    []homeKey       // what the homes were last even for
	even     bool
	halfDead bool                 // a dead member is in a set beside one that is not known to have outlived it
	noted    map[member.Boot]bool // conflicts told of
	stores   map[member.ID]stored // what members have said of their disks
	retired  map[member.Boot]bool // runs that were taken out of the table: gossip that is late does not bring them back
}

// asked is what members and operators asked for and the next plan takes up.
type asked struct {
	adds    []*ring.AddInSync
	stops   []ring.Stop
	drains  []DrainAsked
	moves   []MoveAsked
	evens   []RebalanceAsked
	stays   []StayAsked
	answers []Answer // to be given once the entry is committed
}

// run is what the leader knows of a member's present run, in this term.
type run struct {
	holder  ring.Holder
	heard   time.Duration // last message from it
	reached time.Duration // a probe reached it
	granted time.Duration // last grant sent
	epoch   ring.Epoch    // of its table, as it said
	sent    ring.Epoch    // of the newest table sent to it
	sentAt  time.Duration
	evidence
	isolated time.Duration // since when L2b holds; never: does not
	downAt   time.Duration
	rejoin   time.Duration // not before this
	report   report
}

// stored is what a run has said of its disk.
type stored struct {
	boot  member.Boot
	store ring.Store
	sent  int64 // by the member's clock
}

// slotTimes are the leader's own clocks for each slot.
type slotTimes struct {
	since   [ring.Slots]time.Duration // owner and home unchanged
	stalled [ring.Slots]time.Duration // never: is not
	load    [ring.Slots]ring.SlotLoad
	from    [ring.Slots]ring.Holder // who reported load
	epoch   [ring.Slots]ring.Epoch  // under which it did
}

// New makes the core of one term. The driver's first event is the ViewChanged
// that it reads after the barrier: what gossip said before is of no account.
func New(o Options) *Core {
	c := &Core{
		p: o.Params, self: o.Self, term: o.Term, elected: o.Elected, cluster: o.Cluster,
		view: make(map[member.ID]Seen), runs: make(map[member.Number]*run),
		noted: make(map[member.Boot]bool), retired: make(map[member.Boot]bool), stores: make(map[member.ID]stored), planned: never, dirty: true,
	}
	c.leases.started = never
	for h := range c.slots.since {
		c.slots.since[h], c.slots.stalled[h] = o.Elected, never
	}
	c.table = &ring.Table{}
	c.adopt(o.Elected, o.Table)
	return c
}

// Table returns the table that the core plans from.
func (c *Core) Table() *ring.Table { return c.table }

// Busy reports whether an entry is in flight.
func (c *Core) Busy() bool { return c.inFlight != nil }

// Step takes one event and returns what to do about it, in order.
func (c *Core) Step(now time.Duration, ev Event) []Action {
	c.out = nil
	switch ev := ev.(type) {
	case Renewed:
		c.renewed(now, ev.Renew)
	case AddAsked:
		c.heardFrom(now, ev.From)
		c.asked.adds = append(c.asked.adds, ev.AddInSync)
		c.urgent = true
	case Reported:
		c.reported(now, ev.Report)
	case StopAsked:
		c.asked.stops = append(c.asked.stops, *ev.Stop)
		c.urgent = true
	case DrainAsked:
		c.asked.drains = append(c.asked.drains, ev)
		c.urgent = true
	case RebalanceAsked:
		c.asked.evens = append(c.asked.evens, ev)
		c.urgent = true
	case MoveAsked:
		c.asked.moves = append(c.asked.moves, ev)
		c.urgent = true
	case StayAsked:
		c.asked.stays = append(c.asked.stays, ev)
		c.urgent = true
	case ViewChanged:
		c.look(ev.Members)
	case Refused:
		c.refused(now, ev.Who)
	case Probed:
		c.probed(now, ev)
	case Opinion:
		c.opinion(now, ev)
	case Verified:
		c.verified(now, ev)
	case Proposed:
		c.proposed(now, ev)
	case Committed:
		c.adopt(now, ev.Table)
		c.publish(now)
	case Tick:
		c.urgent = c.urgent || c.dirty || now >= c.planned+c.p.Replan || len(c.verdicts(now)) > 0
	}
	switch ev.(type) {
	case Renewed, AddAsked, Reported, Probed:
		c.urgent = c.urgent || c.halfDead
	}
	c.suspect(now)
	c.judge(now)
	c.verify(now)
	if c.urgent && c.inFlight == nil {
		c.plan(now)
	}
	return c.out
}

func (c *Core) do(a Action) { c.out = append(c.out, a) }

// run returns what is known of a member's present run.
func (c *Core) run(num member.Number) *run {
	m := c.table.Member(num)
	if m == nil {
		return nil
	}
	r := c.runs[num]
	if r == nil || r.holder != m.Holder() {
		r = &run{
			holder: m.Holder(), heard: never, reached: never, granted: never, isolated: never,
			downAt: never, rejoin: never, evidence: noEvidence(), report: report{at: never},
		}
		c.runs[num] = r
	}
	return r
}

// current returns the run that h names, nil where that is not the present one.
func (c *Core) current(h ring.Holder) *run {
	if r := c.run(h.Num); r != nil && r.holder == h {
		return r
	}
	return nil
}

func (c *Core) heardFrom(now time.Duration, h ring.Holder) {
	if r := c.current(h); r != nil {
		r.heard = now
	}
}

// peer says where to reach a member's present run.
func (c *Core) peer(num member.Number) Peer {
	m := c.table.Member(num)
	if m == nil {
		return Peer{}
	}
	return Peer{Holder: m.Holder(), ID: m.ID, Addr: m.Addr}
}

func (c *Core) look(list []Seen) {
	c.view = make(map[member.ID]Seen, len(list))
	c.order = c.order[:0]
	for _, s := range list {
		if _, twice := c.view[s.ID]; !twice {
			c.order = append(c.order, s.ID)
		}
		c.view[s.ID] = s
	}
	slices.SortFunc(c.order, func(a, b member.ID) int { return cmp.Compare(a, b) })
	c.urgent = true
}

func (c *Core) proposed(now time.Duration, ev Proposed) {
	c.inFlight, c.leases.condemns = nil, nil
	if !ev.OK {
		c.even = false
		c.asked.adds = append(c.taken.adds, c.asked.adds...)
		c.asked.stops = append(c.taken.stops, c.asked.stops...)
		c.asked.drains = append(c.taken.drains, c.asked.drains...)
		c.asked.moves = append(c.taken.moves, c.asked.moves...)
		c.asked.evens = append(c.taken.evens, c.asked.evens...)
		c.asked.stays = append(c.taken.stays, c.asked.stays...)
	}
	answers := c.taken.answers
	c.taken = asked{}
	c.adopt(now, ev.Table)
	if ev.OK {
		c.publish(now)
		c.answer(answers)
	}
	c.urgent = true
}

// adopt takes over a table and starts the clocks of what changed in it.
func (c *Core) adopt(now time.Duration, t *ring.Table) {
	if t.Epoch < c.table.Epoch {
		return
	}
	old := c.table
	c.table = t
	for h := range ring.Slot(ring.Slots) {
		s, was := &t.Slots[h], &old.Slots[h]
		if s.Owner != was.Owner || s.Home != was.Home {
			c.slots.since[h] = now
		}
	}
	for i := range old.Members {
		if m := &old.Members[i]; t.Member(m.Num) == nil {
			c.retired[m.Boot] = true
			delete(c.runs, m.Num)
		}
	}
	for i := range t.Members {
		m := &t.Members[i]
		r := c.run(m.Num)
		switch {
		case m.State != ring.Down:
			r.downAt = never
		case r.downAt == never:
			r.downAt = now - m.Away // by the clocks of the leaders before
		}
	}
	c.halfDead = false
	for h := range ring.Slot(ring.Slots) {
		c.halfDead = c.halfDead || halfDead(t, h)
		switch {
		case !t.Stalled(h):
			c.slots.stalled[h] = never
		case c.slots.stalled[h] == never:
			c.slots.stalled[h] = now
		}
	}
	c.dirty = true
}

// halfDead reports whether a dead run holds h beside one that may live.
func halfDead(t *ring.Table, h ring.Slot) bool {
	dead, living := false, false
	for _, x := range t.Slots[h].InSync {
		if m := t.Member(x.Num); m != nil && m.Boot == x.Boot {
			dead, living = dead || m.State == ring.Down, living || m.State != ring.Down
		}
	}
	return dead && living
}

// publish brings the table to every member heard from.
func (c *Core) publish(now time.Duration) {
	deltas := make(map[ring.Epoch]*ring.Delta)
	for i := range c.table.Members {
		m := &c.table.Members[i]
		r := c.run(m.Num)
		// What was sent a moment ago need not be sent again; should it be lost,
		// the next Renew tells.
		has := max(r.epoch, r.sent)
		if now-r.heard > 2*c.p.Heard || has >= c.table.Epoch {
			continue
		}
		d := deltas[has]
		if d == nil {
			d = c.table.Since(has)
			deltas[has] = d
		}
		r.sent, r.sentAt = c.table.Epoch, now
		c.do(Send{c.peer(m.Num), &ring.TableUpdate{Table: d}})
	}
}
