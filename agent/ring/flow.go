package ring

import (
	"slices"

	"github.com/rondel-project/rondel/agent/member"
)

// perMember is how many slots may be on their way to one member at a time
// (L10): enough to keep it busy, few enough that users of the others wait for
// nobody.
const perMember = 32

// Observed is what the leader knows of the slots beyond the table. What it has
// not heard of yet is the zero value, and then nothing is done that could wait.
type Observed struct {
	Slots  [Slots]SlotView
	Reaped map[member.Number]bool // down longer than Settings.ReapAfter
}

// SlotView is what the leader knows of one slot.
type SlotView struct {
	Open   bool // its owner serves it under the present Re
	Empty  bool // no sessions
	Idle   bool // no request for a while
	Stable bool // owner and home unchanged for T_stable
}

// Verdict says what becomes of a candidate.
type Verdict uint8

// The verdicts on candidates.
const (
	VerdictOpen    Verdict = iota // not now: its owner gets the table, and asks again or finds its answer there
	VerdictTaken                  // counts as in sync with this plan
	VerdictRefused                // never, on what was asked
)

// AddInSync plans that a candidate counts as in sync (L6): only where the slot
// still is as its owner from saw it. It is refused where it is no learner of the
// slot any more under the same Re. That is for good: should it become one again
// the slot has changed, and no request from before is taken. Where the Re is
// another one the candidate may have been taken meanwhile, so that the table
// alone is the answer.
func (d *Draft) AddInSync(from Holder, c Candidate) Verdict {
	if c.Slot >= Slots {
		return VerdictOpen
	}
	now, base := &d.t.Slots[c.Slot], &d.base.Slots[c.Slot]
	if o := d.member(base.Owner); base.Re != c.Re || base.Changed < c.Changed || o == nil || o.Holder() != from || o.State == Down {
		return VerdictOpen
	}
	if !slices.Contains(base.Learners, c.Cand) {
		return VerdictRefused
	}
	m := d.member(c.Cand.Num)
	if base.Changed != c.Changed || m == nil || m.Holder() != c.Cand || m.State == Down ||
		now.Owner != base.Owner || !now.InSyncHas(from) || !slices.Contains(now.Learners, c.Cand) {
		return VerdictOpen
	}
	d.setInSync(c.Slot, append(slices.Clone(now.InSync), c.Cand))
	return VerdictTaken
}

// Learners plans who is being filled (L5): whoever is wanted and not in sync,
// but for those that skip holds back from a slot's owner. A joining member for
// which nothing is left to fill becomes up.
func (d *Draft) Learners(skip func(owner, num member.Number) bool) {
	unfilled := make(map[member.Number]bool)
	for h := range Slot(Slots) {
		s := &d.t.Slots[h]
		if s.Re == 0 && len(s.InSync) == 0 {
			continue
		}
		var set []Holder
		stalled := d.t.Stalled(h)
		for _, num := range d.want(h) {
			run := d.member(num).Holder()
			if s.InSyncHas(run) {
				continue
			}
			if !stalled {
				unfilled[num] = true
			}
			if skip == nil || !skip(s.Owner, num) {
				set = append(set, run)
			}
		}
		if set = sorted(set); !slices.Equal(set, s.Learners) {
			d.setLearners(h, set)
		}
	}
	for i := range d.t.Members {
		if m := &d.t.Members[i]; m.State == Joining && !unfilled[m.Num] {
			m.State = Up
		}
	}
}

// Moves plans that slots go to the member that is wanted as their owner (L7),
// where that one is up and in sync: settled ones only, at most 32 on their way
// to one member. Empty slots and those of a member on its way out do not wait
// to have settled.
func (d *Draft) Moves(seen *Observed) {
	room := make(map[member.Number]int)
	for _, num := range d.t.Order {
		room[num] = perMember
	}
	for h := range Slot(Slots) {
		if !seen.Slots[h].Open {
			room[d.t.Slots[h].Owner]--
		}
	}
	rehoming := d.entitled()
	for h := range Slot(Slots) {
		s, v := &d.t.Slots[h], seen.Slots[h]
		want := d.want(h)
		if len(want) == 0 || want[0] == s.Owner || !v.Open || room[want[0]] <= 0 || s.Owner != d.base.Slots[h].Owner {
			continue
		}
		to, from := d.member(want[0]), d.member(s.Owner)
		if from == nil || from.State == Down || to.State != Up || !s.InSyncHas(to.Holder()) {
			continue
		}
		out := from.Drain || from.State == Leaving || from.State == Stopping
		if out && s.Home == from.Num && from.State != Stopping && len(rehoming) > 0 {
			continue // its home moves first, so that its sessions move once
		}
		if v.Stable || v.Empty || out {
			s.Owner = to.Num
			room[to.Num]--
		}
	}
}

// Shrink plans that copies which nobody wants any more leave the in-sync set
// (L8), once all that are wanted are in it and the owner serves. A stopping
// member stays: its successor asks it for exact deadlines.
func (d *Draft) Shrink(seen *Observed) {
	for h := range Slot(Slots) {
		s := &d.t.Slots[h]
		if !seen.Slots[h].Open || s.Owner != d.base.Slots[h].Owner {
			continue
		}
		want := d.want(h)
		keep := make([]Holder, 0, len(s.InSync))
		for _, in := range s.InSync {
			m := d.member(in.Num)
			if in.Num == s.Owner || slices.Contains(want, in.Num) || (m != nil && m.State == Stopping) {
				keep = append(keep, in)
			}
		}
		if len(keep) == len(s.InSync) {
			continue
		}
		all := true
		for _, num := range want {
			all = all && s.InSyncHas(d.member(num).Holder())
		}
		if all {
			d.setInSync(h, keep)
		}
	}
}

// DropSlow plans that a member leaves the in-sync sets of another's slots,
// because it holds up their writes (L11).
func (d *Draft) DropSlow(owner, slow member.Number) {
	if owner == slow {
		return
	}
	for h := range Slot(Slots) {
		s := &d.t.Slots[h]
		if _, in := s.InSyncBoot(slow); s.Owner == owner && in && len(s.InSync) > 1 {
			d.setInSync(h, slices.DeleteFunc(slices.Clone(s.InSync), func(x Holder) bool { return x.Num == slow }))
		}
	}
}
