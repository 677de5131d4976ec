package ring

import (
	"cmp"
	"slices"

	"github.com/rondel-project/rondel/agent/member"
)

// share is how many slots a member is home to, and how many it shall be.
type share struct {
	num             member.Number
	weight          int
	current, target int
	forced          bool // gives away busy slots too
}

// entitled returns the members that homes are given to: the ones that are up
// and not on their way out, in ring order.
func (d *Draft) entitled() []member.Number {
	var out []member.Number
	for _, num := range d.t.Order {
		if m := d.member(num); m.State == Up && !m.Witness && !m.Drain {
			out = append(out, num)
		}
	}
	return out
}

// shares computes every member's share (L9). Members that are up divide by
// weight what is left beside those that are only away or still joining, which
// keep what they have; members on their way out, and those down for too long,
// shall have none. It returns nil where nobody is there to be given any.
func (d *Draft) shares(seen *Observed) []share {
	if len(d.entitled()) == 0 {
		return nil
	}
	current := make(map[member.Number]int)
	for h := range Slot(Slots) {
		current[d.t.Slots[h].Home]++
	}
	left := Slots
	var all []share
	var dividing []int
	for _, num := range d.t.Order {
		m := d.member(num)
		s := share{num: num, weight: max(int(m.Weight), 1), current: current[num]}
		reaped := seen != nil && m.State == Down && seen.Reaped[num]
		switch {
		case m.Witness || m.Drain || m.State == Leaving || reaped:
			s.forced = true
		case m.State == Up:
			dividing = append(dividing, len(all))
		default:
			s.target = s.current
			left -= s.current
		}
		all = append(all, s)
	}
	divide(all, dividing, left)
	return all
}

// divide gives the members at the indexes their part of n slots by weight. Each
// gets its quota rounded down or up; up go first those that have more already,
// so that nothing moves for the sake of a rounding.
func divide(all []share, at []int, n int) {
	total := 0
	for _, i := range at {
		total += all[i].weight
	}
	rest := n
	var broken []int
	for _, i := range at {
		all[i].target = n * all[i].weight / total
		rest -= all[i].target
		if n*all[i].weight%total != 0 {
			broken = append(broken, i)
		}
	}
	slices.SortStableFunc(broken, func(a, b int) int {
		over := func(i int) int { return min(all[i].current-all[i].target, 1) }
		return cmp.Or(
			cmp.Compare(max(over(b), 0), max(over(a), 0)),
			cmp.Compare(n*all[b].weight%total, n*all[a].weight%total),
		)
	})
	for _, i := range broken[:rest] {
		all[i].target++
	}
}

// Homes plans which slots get another home, so that every member has its share
// (L9), and reports whether homes are then as they shall be. It moves as few as
// it can, empty slots first, then idle ones; busy ones only from members on
// their way out, or where an operator asked.
//
// Homes that an operator placed stay until a member comes or goes.
func (d *Draft) Homes(seen *Observed) (even bool) {
	shares := d.shares(seen)
	if d.placed(shares) {
		return true
	}
	d.place(false)
	room := make(map[member.Number]int)
	for _, s := range shares {
		room[s.num] = perMember
	}
	for h := range Slot(Slots) {
		if s := &d.t.Slots[h]; s.Owner != s.Home && !d.t.Stalled(h) {
			room[s.Home]--
		}
	}
	even = true
	for _, from := range shares {
		surplus := from.current - from.target
		if surplus <= 0 {
			continue
		}
		for _, h := range d.giveable(from.num, from.forced, seen) {
			if surplus == 0 {
				break
			}
			to := neediest(shares, room)
			if to == nil {
				break
			}
			d.rehome(h, to.num)
			to.current++
			room[to.num]--
			surplus--
		}
		even = even && surplus == 0
	}
	return even
}

// neediest returns the member that lacks most slots and has room for one.
func neediest(shares []share, room map[member.Number]int) (best *share) {
	for i := range shares {
		s := &shares[i]
		if s.target > s.current && room[s.num] > 0 && (best == nil || s.target-s.current > best.target-best.current) {
			best = s
		}
	}
	return best
}

// giveable returns the slots that a member can give away, best first: empty,
// idle, busy. Unless any will do, it is settled ones only, and none that is busy.
func (d *Draft) giveable(num member.Number, any bool, seen *Observed) []Slot {
	grade := func(h Slot) int {
		switch v := &seen.Slots[h]; {
		case v.Empty:
			return 0
		case v.Idle:
			return 1
		}
		return 2
	}
	var out []Slot
	for h := range Slot(Slots) {
		s := &d.t.Slots[h]
		if s.Home != num || !any && (s.Owner != num || !seen.Slots[h].Open || grade(h) == 2) {
			continue
		}
		out = append(out, h)
	}
	slices.SortStableFunc(out, func(a, b Slot) int {
		return cmp.Or(cmp.Compare(grade(a), grade(b)), cmp.Compare(b, a))
	})
	return out
}

// Rebalance plans that every member has its share at once, busy slots included,
// as an operator asked; it returns how many slots get another home. One entry
// says it all, so that no leader that comes later can forget the rest. Sessions
// follow a few slots at a time (L10).
func (d *Draft) Rebalance(seen *Observed) (moved int) {
	d.place(false)
	shares := d.shares(seen)
	room := make(map[member.Number]int)
	for _, s := range shares {
		room[s.num] = Slots
	}
	for _, from := range shares {
		for _, h := range d.giveable(from.num, true, seen) {
			to := neediest(shares, room)
			if from.current <= from.target || to == nil {
				break
			}
			d.rehome(h, to.num)
			to.current++
			from.current--
			moved++
		}
	}
	return moved
}

// MoveHomes plans that n of one member's slots get another as their home, as
// an operator asked; it returns how many there were. Homes are then left as they
// are until a member comes or goes.
func (d *Draft) MoveHomes(n int, from, to member.Number, seen *Observed) int {
	if d.member(from) == nil || d.member(to) == nil || d.member(to).Witness || from == to {
		return 0
	}
	moved := d.giveable(from, true, seen)
	moved = moved[:min(max(n, 0), len(moved))]
	for _, h := range moved {
		d.rehome(h, to)
	}
	d.place(true)
	return len(moved)
}

// place marks that an operator gave all members their homes, or takes the mark
// away.
func (d *Draft) place(on bool) {
	for i := range d.t.Members {
		d.t.Members[i].Placed = on && !d.t.Members[i].Witness
	}
}

// placed reports whether the homes are as an operator gave them, and no member
// has come or is going since.
func (d *Draft) placed(shares []share) bool {
	for _, s := range shares {
		switch m := d.member(s.num); {
		case m.Witness:
		case s.forced && s.current > 0, !s.forced && !m.Placed && m.State == Up:
			return false
		}
	}
	return len(shares) > 0
}

// moveHomes gives all homes of a member that is about to be removed to others.
func (d *Draft) moveHomes(num member.Number) {
	if num == 0 {
		return
	}
	var others []*share
	for _, state := range []bool{true, false} { // those entitled; else whoever holds sessions
		for _, other := range d.t.Order {
			m := d.member(other)
			if other != num && !m.Witness && (!state || m.State == Up && !m.Drain) {
				others = append(others, &share{num: other, weight: max(int(m.Weight), 1)})
			}
		}
		if len(others) > 0 {
			break
		}
	}
	if len(others) == 0 {
		return
	}
	for h := range Slot(Slots) {
		for _, o := range others {
			if d.t.Slots[h].Home == o.num {
				o.current++
			}
		}
	}
	for h := range Slot(Slots) {
		if d.t.Slots[h].Home != num {
			continue
		}
		to := slices.MinFunc(others, func(a, b *share) int {
			return cmp.Or(cmp.Compare((a.current+1)*b.weight, (b.current+1)*a.weight), cmp.Compare(a.num, b.num))
		})
		to.current++
		d.rehome(h, to.num)
	}
}

// rehome gives h another home, and keeps both homes' slots split evenly
// between their successors.
func (d *Draft) rehome(h Slot, to member.Number) {
	from := d.t.Slots[h].Home
	d.t.Slots[h].Home = to
	sw, plain := d.swaps(to)
	if d.t.Slots[h].Swap {
		sw--
	} else {
		plain--
	}
	d.t.Slots[h].Swap = sw < plain
	if d.t.Settings.Replicas == 2 {
		d.evenSwaps(from, false)
	}
}

func (d *Draft) swaps(home member.Number) (swapped, plain int) {
	for h := range Slot(Slots) {
		if s := &d.t.Slots[h]; s.Home == home && s.Swap {
			swapped++
		} else if s.Home == home {
			plain++
		}
	}
	return swapped, plain
}

// evenSwaps splits a home's slots between its two successors. With two replicas
// a swap moves nothing: both hold the slot either way. A fresh home alternates
// from slot to slot, so that every part of its range is split.
func (d *Draft) evenSwaps(home member.Number, fresh bool) {
	swapped, plain := d.swaps(home)
	next := false
	for h := range Slot(Slots) {
		s := &d.t.Slots[h]
		switch {
		case s.Home != home:
		case fresh:
			s.Swap, next = next, !next
		case s.Swap && swapped > plain+1:
			s.Swap = false
			swapped, plain = swapped-1, plain+1
		case !s.Swap && plain > swapped+1:
			s.Swap = true
			swapped, plain = swapped+1, plain-1
		}
	}
}
