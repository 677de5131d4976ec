package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/replicate"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// checker watches the invariants of the protocol's section 12.
type checker struct {
	w      *world
	broken []string
	active map[ring.Slot]map[uint64]ring.Holder
	ids    map[session.ID]*family
	past   replicate.Stats // of processes that have ended
	lost   bool            // a second failure took the last copy: nothing more to check
}

func (c *checker) init(w *world) {
	c.w, c.active = w, map[ring.Slot]map[uint64]ring.Holder{}
}

func (c *checker) fail(format string, args ...any) {
	if len(c.broken) < 10 {
		c.broken = append(c.broken, fmt.Sprintf("at %v: ", time.Duration(c.w.now))+fmt.Sprintf(format, args...))
		c.w.logf("BROKEN: "+format, args...)
	}
}

// over reports whether the run can end.
func (c *checker) over() bool { return c.lost || len(c.broken) > 0 }

// stepped looks at a core after each of its steps.
func (c *checker) stepped(h *host) {
	t := h.core.Table()
	if t.Epoch < h.tabled {
		c.fail("V5: the epoch of m%d fell from %d to %d", h.idx, h.tabled, t.Epoch)
	}
	h.tabled = t.Epoch
	if n := h.core.Stats.Divergence; n > h.diverged {
		h.diverged = n
		if c.w.refuse {
			c.fail("E5: m%d found copies in sync that differ", h.idx)
		}
	}
	if h.out.Table != nil && c.w.chance(0.05) {
		c.sameTable(h, t)
	}
	c.leased(h)
	if c.w.chance(0.01) || c.w.tight && c.w.chance(0.1) {
		c.bounded(h)
	}
	for i := range h.out.Answers {
		c.answered(h, h.out.Answers[i].Resp)
	}
	for i := range h.out.Sends {
		if r, ok := h.out.Sends[i].Msg.(*replicate.Reply); ok {
			c.answered(h, r.Resp)
		}
	}
}

// grant notes when a lease ends by the simulator's clock: Params.Lease after
// the true moment at which its holder asked for it.
func (c *checker) grant(h *host, g *ring.Grant) {
	asked := int64(float64(g.Sent-h.offset) / h.rate)
	h.granted = max(h.granted, asked+int64(c.w.params().Lease))
}

// leased is V3: with a lease that is over nothing is read and no write begins.
// Only refuse mode has leases. A write that was accepted with one may be
// committed after its end: whoever took the slot over has it then, or will not
// acknowledge it.
func (c *checker) leased(h *host) {
	s := &h.core.Stats
	if c.w.refuse && (s.Reads > h.reads || s.Writes > h.writes) && c.w.now > h.granted {
		c.fail("V3: m%d read or wrote %v after the end of its lease", h.idx, time.Duration(c.w.now-h.granted))
	}
	h.reads, h.writes = s.Reads, s.Writes
}

// bounded is V9. What fills while others are slow has a bound each.
func (c *checker) bounded(h *host) {
	if bad := h.core.Queues().Exceeded(c.w.params(), 4<<10); bad != "" {
		c.fail("V9: m%d has too many %s: %+v", h.idx, bad, h.core.Queues())
	}
}

// sameTable compares a member's table with the one that was committed.
func (c *checker) sameTable(h *host, t *ring.Table) {
	i, ok := slices.BinarySearchFunc(c.w.raft.history, t.Epoch, func(x *ring.Table, e ring.Epoch) int { return int(x.Epoch) - int(e) })
	if !ok {
		c.fail("m%d has table %d, which was never committed", h.idx, t.Epoch)
		return
	}
	if o := c.w.raft.history[i]; !reflect.DeepEqual(t.Members, o.Members) || !slices.Equal(t.Order, o.Order) ||
		!slices.Equal(t.Keys, o.Keys) || t.Settings != o.Settings || t.NextNum != o.NextNum || !reflect.DeepEqual(t.Slots, o.Slots) {
		c.fail("table %d of m%d is not the one that was committed", t.Epoch, h.idx)
	}
}

// answered is V2: what an owner has told of is on every copy in sync.
func (c *checker) answered(h *host, r *session.Response) {
	if !c.w.refuse && !c.w.partitions && !r.Stale && r.Status == session.OK && r.ID != "" && r.Record == nil {
		c.named(h, r)
	}
	if !c.w.refuse || r.Status != session.OK || r.Replay || r.Stale || r.Owner != h.core.Self().Num || r.ID == "" {
		return
	}
	f := c.family(r.ID)
	if f == nil || f.early {
		return
	}
	for _, x := range h.core.Table().Slots[f.slot].InSync {
		for _, o := range c.w.hosts {
			if !o.up || o.boot != x.Boot {
				continue
			}
			// It acknowledged, and then a table that the owner has yet to see had it
			// let go of the slot, or serve another owner, who may have changed more.
			if s := &o.core.Table().Slots[f.slot]; s.Re > h.core.Table().Slots[f.slot].Re || !slices.Contains(s.InSync, x) {
				continue
			}
			e := o.core.Sessions().Get(f.slot, r.ID)
			if e == nil || e.Rec.Version().Compare(r.Version) < 0 {
				c.fail("V2: m%d told of version %v of a session of family %d, which m%d, in sync at %d, does not hold", h.idx, r.Version, f.n, o.idx, h.core.Table().Slots[f.slot].Re)
			}
		}
	}
}

// named is V2 for serve mode without partitions, in which an owner may not know
// that it was replaced: whom an answer names as
// replicas, those have what it tells of. An owner that does not know yet that it
// was replaced goes by what it had, and is not looked at.
func (c *checker) named(h *host, r *session.Response) {
	f := c.family(r.ID)
	if f == nil || r.Owner != h.core.Self().Num || r.Replay || h.core.Table().Slots[f.slot].Re != c.w.raft.table.Slots[f.slot].Re {
		return
	}
	s := &h.core.Table().Slots[f.slot]
	for _, num := range r.Replicas {
		boot, _ := s.InSyncBoot(num)
		for _, o := range c.w.hosts {
			if !o.up || o.boot != boot {
				continue
			}
			if e := o.core.Sessions().Get(f.slot, r.ID); e == nil || !e.Rec.Dead && e.Rec.Version().Compare(r.Version) < 0 {
				c.fail("V2: m%d names m%d for version %v of a session of family %d, which that does not hold", h.idx, o.idx, r.Version, f.n)
			}
		}
	}
}

func (c *checker) family(id session.ID) *family {
	if f := c.ids[id]; f != nil {
		return f
	}
	c.ids = map[session.ID]*family{}
	for _, f := range c.w.load.all {
		for _, x := range f.ids {
			c.ids[x] = f
		}
	}
	return c.ids[id]
}

// told is V4: one member at most is open under each configuration of a slot.
func (c *checker) told(h *host, m ring.Message) {
	r, ok := m.(*ring.Renew)
	if !ok {
		return
	}
	for _, s := range r.Owned {
		if !s.Open {
			continue
		}
		re := h.core.Table().Slots[s.Slot].Re
		if c.active[s.Slot] == nil {
			c.active[s.Slot] = map[uint64]ring.Holder{}
		}
		if was, ok := c.active[s.Slot][re]; ok && was != r.From {
			c.fail("V4: slot %d is open at %v and %v under %d", s.Slot, was, r.From, re)
		}
		c.active[s.Slot][re] = r.From
	}
}

// committed is V5 of the table.
func (c *checker) committed(old, t *ring.Table) {
	if t.Epoch <= old.Epoch {
		c.fail("V5: epoch %d after %d", t.Epoch, old.Epoch)
	}
	for h := range ring.Slot(ring.Slots) {
		a, b := &old.Slots[h], &t.Slots[h]
		if b.Re < a.Re || b.Re > a.Re+1 || b.Re != a.Re && b.PrevRe != a.Re {
			c.fail("V5: slot %d goes from %d to %d, derived from %d", h, a.Re, b.Re, b.PrevRe)
		}
		if b.Re == a.Re && (b.Owner != a.Owner || !slices.Equal(a.InSync, b.InSync)) {
			c.fail("slot %d changed without a new re", h)
		}
		if b.Lost && !a.Lost {
			c.lost = true
			if c.w.disk {
				c.fail("the copies of slot %d are given up: %v", h, a.InSync)
			}
		}
		if _, ok := b.InSyncBoot(b.Owner); !ok && b.Re > 0 {
			c.fail("the owner of slot %d is not in sync", h)
		}
	}
	if c.w.log > 0 {
		s := t.Slots[c.w.load.slots[0]]
		c.w.logf("table %d: slot %d re %d owner %d insync %v learners %v", t.Epoch, c.w.load.slots[0], s.Re, s.Owner, s.InSync, s.Learners)
	}
}

// ended keeps the counters of a process that ends.
func (c *checker) ended(h *host) {
	s := h.core.Stats
	c.past.Divergence += s.Divergence
	c.past.Degraded += s.Degraded
	c.past.MergeConflicts += s.MergeConflicts
}

// atRest is V8: what is not yet as it must be some time after the last fault;
// "" when all is.
func (c *checker) atRest() string {
	w := c.w
	t := w.raft.table
	for h := range ring.Slot(ring.Slots) {
		s := &t.Slots[h]
		if s.Re == 0 && !w.whole {
			continue
		}
		want := t.Want(h)
		if len(want) != min(int(t.Settings.Replicas)+1, len(w.hosts)) || len(t.Members) != len(w.hosts) {
			return fmt.Sprintf("slot %d wants %v", h, want)
		}
		var in []member.Number
		for _, x := range s.InSync {
			in = append(in, x.Num)
		}
		slices.Sort(want)
		slices.Sort(in)
		if !slices.Equal(want, in) {
			return fmt.Sprintf("slot %d: in sync %v, wanted %v, owner %d, learners %v", h, in, want, s.Owner, s.Learners)
		}
		if s.Owner != t.Want(h)[0] {
			return fmt.Sprintf("slot %d is owned by %d, wanted %v", h, s.Owner, t.Want(h))
		}
		if bad := c.copies(h, s); bad != "" {
			return bad
		}
	}
	return ""
}

func (c *checker) copies(h ring.Slot, s *ring.SlotState) string {
	var sum uint64
	first := true
	for _, o := range c.w.hosts {
		if !o.up {
			return fmt.Sprintf("m%d is not up", o.idx)
		}
		store := o.core.Sessions()
		if !s.InSyncHas(o.core.Self()) {
			if n := store.Count(h); n > 0 {
				return fmt.Sprintf("m%d holds %d records of slot %d, for which it is not wanted", o.idx, n, h)
			}
			continue
		}
		if first {
			sum, first = store.Sum(h), false
		} else if store.Sum(h) != sum {
			return fmt.Sprintf("the copies of slot %d differ: %s", h, c.differences(h, s))
		}
	}
	return ""
}

func (c *checker) differences(h ring.Slot, s *ring.SlotState) (text string) {
	for _, o := range c.w.hosts {
		if s.InSyncHas(o.core.Self()) {
			text += fmt.Sprintf("\n    m%d:", o.idx)
			var lines []string
			o.core.Sessions().Each(h, func(e *session.Entry) bool {
				lines = append(lines, fmt.Sprintf(" %s@%v dead=%v sum=%x unsettled=%v", e.Rec.ID[12:16], e.Rec.Version(), e.Rec.Dead, e.Rec.Sum()&0xffff, e.Unsettled))
				return true
			})
			slices.Sort(lines)
			for _, l := range lines {
				text += l
			}
		}
	}
	return text
}

// final checks what must hold once all is at rest.
func (c *checker) final() {
	w := c.w
	for _, h := range w.hosts {
		c.ended(h)
	}
	for k, n := range map[string]uint64{"degraded": c.past.Degraded, "conflicts": c.past.MergeConflicts, "divergence": c.past.Divergence} {
		w.stats[k] += int(n)
	}
	for _, f := range w.load.all {
		c.finalFamily(f)
	}
	for _, x := range w.load.crowds {
		x.final()
	}
	for _, f := range w.load.all {
		if f.early || !w.refuse && (w.partitions || f.tainted || f.unknown > 0 && c.past.Degraded > 0) {
			w.stats["unchecked"]++
			continue
		}
		w.stats["checked"]++
		c.versions(f)
		switch r, ops := linearizable(f); r {
		case porcupine.Illegal:
			c.fail("V1: the history of family %d (slot %d) is not linearizable%s", f.n, f.slot, describe(f, ops))
		case porcupine.Unknown:
			w.stats["undecided"]++
		}
	}
}

// versions checks that what clients are shown never goes back (D-19): an
// operation that begins after another's answer gets no lower version, a change
// a higher one.
func (c *checker) versions(f *family) {
	var ok []*op
	for _, o := range f.ops {
		if o.state == done && o.version.Ver > 0 && !o.replay && !o.out.differs && !o.out.exists {
			ok = append(ok, o)
		}
	}
	for _, b := range ok {
		for _, a := range ok {
			if a.in.id != b.in.id || a.ret >= b.call {
				continue
			}
			if d := b.version.Compare(a.version); d < 0 || d == 0 && b.changes() {
				c.fail("family %d: version %v (%v) after %v (%v)", f.n, b.version, b.in.kind, a.version, a.in.kind)
				return
			}
		}
	}
}

// keepers are the runs that had a write when it was answered.
type keepers []member.Boot

func (k keepers) alive(w *world) bool {
	return slices.ContainsFunc(w.hosts, func(h *host) bool { return h.up && slices.Contains(k, h.boot) })
}

// couldBe reports whether the counter and the list are what some of the
// family's increments and appends make, applied to 100 and [] or to nothing. In
// refuse mode nothing is in the list twice (V11); in serve mode an operation
// that comes to both sides of a partition may be done by both, and then the
// later stamp wins.
func (f *family) couldBe(g attrs) bool {
	if g.n != "" {
		n, err := strconv.Atoi(g.n)
		if err != nil || n%3 != 0 && n%3 != 100%3 {
			return false
		}
	}
	added := map[string]int{}
	for _, x := range f.ops {
		if x.in.kind == appendTo {
			added[x.in.set.l]++
		}
	}
	for _, x := range strings.Split(strings.Trim(g.l, "[]"), ",") {
		if x == "" {
			continue
		}
		if added[x] == 0 {
			return false
		}
		if f.once {
			added[x]--
		}
	}
	return true
}

// finalFamily is V6 and V10: deleted stays deleted, and what is there was
// written by someone.
func (c *checker) finalFamily(f *family) {
	o := c.w.raft.table.Slots[f.slot].Owner
	owner := c.w.hosts[c.w.byID[c.w.raft.table.Member(o).ID]]
	wrote := map[string]bool{"": true, "100": true, "[]": true}
	ended := map[int]bool{}
	for _, x := range f.ops {
		wrote[x.in.set.a], wrote[x.in.set.b] = true, true
		// In serve mode the answer names who has it: fewer than all, or one member
		// alone. It is promised as long as one of these lives, who offers it to the
		// owner until that has it (S6). It is not promised beyond T_tomb: what a
		// member kept to itself for longer is forgotten (E2).
		full := c.w.refuse || x.copies > 0 && x.replicas >= x.copies || x.keepers.alive(c.w) && !c.w.hermit
		if full && x.state == done && x.out.found && !x.out.differs && (x.in.kind == del || x.in.kind == rotate) {
			ended[x.in.id] = true
		}
	}
	for i, id := range f.ids {
		e := owner.core.Sessions().Get(f.slot, id)
		if e == nil || e.Rec.Dead {
			continue
		}
		if ended[i] && !f.early {
			c.fail("V6: session %d of family %d was ended and is there", i, f.n)
		}
		if g := got(e.Rec); !wrote[g.a] || !wrote[g.b] || !f.couldBe(g) {
			c.fail("V10: family %d holds %+v, which nobody wrote", f.n, g)
		}
	}
}

// describe prints a history, what certainly did not happen included.
func describe(f *family, _ []porcupine.Operation) (text string) {
	for _, o := range f.ops {
		end := fmt.Sprintf("%12.6f", float64(o.ret)/1e9)
		if o.state != done {
			end = [...]string{"running", "", "failed", "unknown"}[o.state]
		}
		text += fmt.Sprintf("\n    client %d  %12.6f .. %-12s %d tries  %-7v id %d to %d %v", o.client, float64(o.call)/1e9, end, o.tries, o.in.kind, o.in.id, o.in.to, o.in.set)
		if o.state == done {
			text += fmt.Sprintf(" -> %v at %v", o.out, o.version)
		}
	}
	return text
}
