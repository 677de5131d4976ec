package ring

import (
	"cmp"
	"slices"

	"github.com/rondel-project/rondel/agent/member"
)

// Draft is a table being planned: the rules of the leader change it one after
// the other, and Change says what all of them together changed. Re is not the
// rules' business: Change raises it by exactly 1 for each slot whose owner or
// in-sync set came out different.
//
// A Draft is for one goroutine and one plan.
type Draft struct {
	// Outlived, if set, reports whether one member was heard of after the other
	// was dead.
	Outlived func(living, dead member.Number) bool

	base *Table
	t    Table // own copy of Members and Order; slots' sets are replaced, never written to
	meta Change
	lost map[Slot]bool

	walks map[walkKey][]member.Number
}

type walkKey struct {
	home member.Number
	swap bool
}

// NewDraft starts a plan from t, which stays as it is.
func NewDraft(t *Table) *Draft {
	d := &Draft{base: t, t: *t, lost: make(map[Slot]bool)}
	d.t.Members = slices.Clone(t.Members)
	d.t.Order = slices.Clone(t.Order)
	return d
}

// Table returns the table as planned so far, with Re not yet raised. It is
// valid until the next rule runs and must not be changed.
func (d *Draft) Table() *Table { return &d.t }

// Change returns what the plan changed, to be applied to the table it started
// from.
func (d *Draft) Change() *Change {
	c := d.meta
	c.Base = d.base.Epoch
	if d.t.NextNum != d.base.NextNum {
		c.NextNum = d.t.NextNum
	}
	for i := range d.t.Members {
		m := d.t.Members[i]
		if old := d.base.Member(m.Num); old == nil || *old != m {
			c.Members = append(c.Members, m)
		}
	}
	for i := range d.base.Members {
		if num := d.base.Members[i].Num; d.t.Member(num) == nil {
			c.Removed = append(c.Removed, num)
		}
	}
	if !slices.Equal(d.t.Order, d.base.Order) {
		c.Order = d.t.Order
	}
	for h := range Slot(Slots) {
		old, now := &d.base.Slots[h], d.t.Slots[h]
		now.Re, now.PrevRe, now.Lost, now.Changed = old.Re, old.PrevRe, old.Lost, old.Changed
		if now.Owner != old.Owner || !slices.Equal(now.InSync, old.InSync) {
			now.Re, now.PrevRe = old.Re+1, old.Re
			now.Lost = d.lost[h]
		}
		if now.Re != old.Re || now.Home != old.Home || now.Swap != old.Swap ||
			!slices.Equal(now.Learners, old.Learners) {
			c.Slots = append(c.Slots, SlotChange{h, now})
		}
	}
	return &c
}

// walk is Table.Walk, remembered: slots of one home share it.
func (d *Draft) walk(h Slot) []member.Number {
	k := walkKey{d.t.Slots[h].Home, d.t.Slots[h].Swap}
	w, ok := d.walks[k]
	if !ok {
		w = d.t.Walk(h)
		if d.walks == nil {
			d.walks = make(map[walkKey][]member.Number)
		}
		d.walks[k] = w
	}
	return w
}

// want is Table.Want over the remembered walk.
func (d *Draft) want(h Slot) []member.Number { return d.t.wantOf(d.walk(h)) }

// member returns the entry to be written to. Who changes the order or adds or
// removes members calls reordered after it.
func (d *Draft) member(num member.Number) *Member { return d.t.Member(num) }

func (d *Draft) reordered() { d.walks = nil }

// runs reports whether h is the present run of a member that may still answer.
func (d *Draft) runs(h Holder) bool {
	m := d.member(h.Num)
	return m != nil && m.Boot == h.Boot && m.State != Down
}

// setInSync replaces a slot's in-sync set, sorted, and drops its members from
// the learners.
func (d *Draft) setInSync(h Slot, set []Holder) {
	s := &d.t.Slots[h]
	s.InSync = sorted(set)
	d.setLearners(h, slices.DeleteFunc(slices.Clone(s.Learners), func(l Holder) bool {
		return slices.Contains(s.InSync, l)
	}))
}

func (d *Draft) setLearners(h Slot, set []Holder) {
	if len(set) == 0 {
		set = nil
	}
	d.t.Slots[h].Learners = sorted(set)
}

func sorted(set []Holder) []Holder {
	slices.SortFunc(set, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(a.Num, b.Num), slices.Compare(a.Boot[:], b.Boot[:]))
	})
	return set
}

// heir returns the in-sync run that shall own h: the first in Walk order that
// is up, else joining, else one on its way out. Without any that runs, false.
func (d *Draft) heir(h Slot, except member.Number) (member.Number, bool) {
	s := &d.t.Slots[h]
	for _, states := range [][]State{{Up}, {Joining}, {Leaving, Stopping}} {
		for _, num := range d.walk(h) {
			boot, ok := s.InSyncBoot(num)
			if !ok || num == except || !d.runs(Holder{num, boot}) {
				continue
			}
			if slices.Contains(states, d.member(num).State) {
				return num, true
			}
		}
	}
	return 0, false
}

// Settle plans again what a dead member's slots wait for: that one of those that
// hold them beside it is known to be alive.
func (d *Draft) Settle() { d.settle() }

// settle puts every slot in order after members went, came back or were
// replaced: runs that are gone leave the sets as long as one that has outlived
// them remains, and an owner that is gone is replaced by the heir. A slot all of
// whose copies are gone keeps its set and is stalled; one whose last copy can
// never come back is reset.
func (d *Draft) settle() {
	for h := range Slot(Slots) {
		s := &d.t.Slots[h]
		if s.Re == 0 {
			continue
		}
		running, possible := 0, 0
		for _, in := range s.InSync {
			if d.runs(in) {
				running++
			}
			if d.mayReturn(in) {
				possible++
			}
		}
		switch {
		case running > 0 && running < len(s.InSync):
			d.keep(h, func(in Holder) bool { return d.runs(in) || d.mayReturn(in) && !d.outlived(h, in) })
		case running == 0 && possible == 0:
			d.reset(h)
		case running == 0 && possible < len(s.InSync):
			d.keep(h, d.mayReturn)
		}
		if _, ok := s.InSyncBoot(s.Owner); !ok {
			if num, ok := d.heir(h, 0); ok {
				s.Owner = num
			} else if len(s.InSync) > 0 {
				s.Owner = s.InSync[0].Num
			}
		}
		if slices.ContainsFunc(s.Learners, func(l Holder) bool { return !d.runs(l) }) {
			d.setLearners(h, slices.DeleteFunc(slices.Clone(s.Learners), func(l Holder) bool { return !d.runs(l) }))
		}
	}
}

// mayReturn reports whether a run is still its member's last one: what it holds
// is not gone yet.
func (d *Draft) mayReturn(x Holder) bool {
	m := d.member(x.Num)
	return m != nil && m.Boot == x.Boot
}

// outlived reports whether a run that holds h beside a dead one is known to have
// lived when that was dead. Those of which nothing is known may have died with it,
// and lost what it has not.
func (d *Draft) outlived(h Slot, dead Holder) bool {
	return d.Outlived == nil || slices.ContainsFunc(d.t.Slots[h].InSync, func(x Holder) bool {
		return d.runs(x) && d.Outlived(x.Num, dead.Num)
	})
}

func (d *Draft) keep(h Slot, which func(Holder) bool) {
	set := slices.DeleteFunc(slices.Clone(d.t.Slots[h].InSync), func(x Holder) bool { return !which(x) })
	if len(set) < len(d.t.Slots[h].InSync) {
		d.setInSync(h, set)
	}
}

// reset gives up what the slot's last copy held. Without a member to take the
// slot it stays as it is.
//
// With copies on disk the first choice is a member whose last run held the slot:
// what it has found of that on its disk is the best there is.
func (d *Draft) reset(h Slot) bool {
	if d.t.Settings.Disk {
		for _, num := range d.walk(h) {
			if m := d.member(num); m.State != Down && slices.ContainsFunc(d.t.Slots[h].InSync, func(x Holder) bool { return x.Num == num }) {
				d.takeOver(h, m)
				return true
			}
		}
	}
	for _, states := range [][]State{{Up}, {Joining}, {Leaving, Stopping}} {
		for _, num := range d.walk(h) {
			m := d.member(num)
			if slices.Contains(states, m.State) {
				d.takeOver(h, m)
				return true
			}
		}
	}
	return false
}

func (d *Draft) takeOver(h Slot, m *Member) {
	d.setInSync(h, []Holder{m.Holder()})
	d.t.Slots[h].Owner = m.Num
	d.lost[h] = true
}

// Stalled reports whether no run that is in sync for h may answer: nobody can
// serve it until one returns or the slot is reset.
func (t *Table) Stalled(h Slot) bool {
	s := &t.Slots[h]
	if s.Re == 0 {
		return false
	}
	for _, in := range s.InSync {
		if m := t.Member(in.Num); m != nil && m.Boot == in.Boot && m.State != Down {
			return false
		}
	}
	return true
}
