package ring

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

// defaultWeight is the weight of a member that gives none.
const defaultWeight = 100

var (
	// ErrNameConflict means that another member has the name, or the member's
	// own entry may still be running elsewhere: nobody guesses who is right.
	ErrNameConflict = errors.New("another member has this name or id")
	// ErrUnknownMember means that the table has no member of that number.
	ErrUnknownMember = errors.New("no such member")
)

// Candidacy is what is known of a run that wants to be in the table.
type Candidacy struct {
	ID      member.ID
	Name    string
	Addr    string
	Boot    member.Boot
	Witness bool
	Weight  uint16
	Store   Store // what the run has found on its disk, whole
}

// First plans the first table (L0) for the members given: numbers and order by
// name, homes even, every home the owner, everybody wanted in sync.
func (d *Draft) First(cluster [16]byte, s Settings, keys []Key, list []Candidacy) {
	d.meta.Cluster, d.meta.Settings, d.meta.Keys = &cluster, &s, keys
	d.t.Cluster, d.t.Settings, d.t.Keys = cluster, s, keys
	d.t.NextNum = max(d.t.NextNum, 1)
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Candidacy) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	for _, c := range list {
		d.t.Members = append(d.t.Members, c.entry(d.t.NextNum, Up))
		d.t.Order = append(d.t.Order, d.t.NextNum)
		d.t.NextNum++
	}
	d.reordered()
	d.assignHomes()
}

// assignHomes gives out all slots and fills the sets, where no slot has a home.
func (d *Draft) assignHomes() {
	shares := d.shares(nil)
	if len(shares) == 0 {
		return
	}
	h := 0
	for _, s := range shares {
		for range s.target {
			d.t.Slots[h].Home = s.num
			h++
		}
	}
	for _, s := range shares {
		d.evenSwaps(s.num, true)
	}
	for h := range Slot(Slots) {
		d.t.Slots[h].Owner = d.t.Slots[h].Home
		var set []Holder
		for _, num := range d.want(h) {
			set = append(set, d.member(num).Holder())
		}
		d.setInSync(h, set)
	}
}

func (c Candidacy) entry(num member.Number, s State) Member {
	w := c.Weight
	if w == 0 {
		w = defaultWeight
	}
	return Member{
		Num: num, ID: c.ID, Name: c.Name, Addr: c.Addr, Boot: c.Boot,
		State: s, Witness: c.Witness, Weight: w, Store: c.Store,
	}
}

// Join plans that a run heard of is in the table (L3): a new member at the end
// of the order, a new run in the place of the one before, or a run heard again.
// It returns ErrNameConflict where the old run may still be alive.
func (d *Draft) Join(c Candidacy) error {
	if m := d.t.ByID(c.ID); m != nil {
		return d.rejoin(m, c)
	}
	if m := d.t.ByName(c.Name); m != nil {
		if m.State != Down && m.Addr != c.Addr {
			return fmt.Errorf("%q at %s, asked for by %s: %w", c.Name, m.Addr, c.Addr, ErrNameConflict)
		}
		d.succeed(m.Num, c)
		return nil
	}
	d.t.NextNum = max(d.t.NextNum, 1)
	num := d.t.NextNum
	d.t.NextNum++
	d.t.Members = append(d.t.Members, c.entry(num, Joining))
	d.t.Order = append(d.t.Order, num)
	d.reordered()
	return nil
}

// rejoin handles a run of a member that the table knows by its id.
func (d *Draft) rejoin(m *Member, c Candidacy) error {
	if other := d.t.ByName(c.Name); other != nil && other.Num != m.Num {
		return fmt.Errorf("%q is the name of member %d: %w", c.Name, other.Num, ErrNameConflict)
	}
	same := m.Boot == c.Boot
	// A new run at the same address proves that the old one ended. At another
	// one the old run may still serve, by a lease that it has.
	if !same && m.State != Down && m.Addr != c.Addr {
		return fmt.Errorf("%q at %s, asked for by %s: %w", c.Name, m.Addr, c.Addr, ErrNameConflict)
	}
	next := c.entry(m.Num, m.State)
	next.Drain, next.Placed, next.Discards, next.Changed = m.Drain, m.Placed, m.Discards, m.Changed
	if !same || m.State == Down {
		next.State = Joining
	}
	if same {
		next.Store = m.Store
	}
	witness := m.Witness != next.Witness
	old, kept := m.Holder(), !same && m.Store != (Store{}) && m.Store == next.Store
	*m = next
	if kept {
		d.replace(old, next.Holder())
	}
	if witness {
		d.reordered()
	}
	d.settle()
	return nil
}

// replace puts a member's new run where the one before is in sync: the same
// store holds the same copies. Re rises there, so that the slot's owner compares
// them before anybody is served.
func (d *Draft) replace(old, run Holder) {
	for h := range Slot(Slots) {
		if s := &d.t.Slots[h]; s.InSyncHas(old) {
			set := slices.Clone(s.InSync)
			set[slices.Index(set, old)] = run
			d.setInSync(h, set)
		}
	}
}

// Store plans that the table names what a member's disk holds.
func (d *Draft) Store(num member.Number, s Store) {
	if m := d.member(num); m != nil {
		m.Store = s
	}
}

// Away plans that the table says how long a member has been down.
func (d *Draft) Away(num member.Number, away time.Duration) {
	if m := d.member(num); m != nil && m.State == Down {
		m.Away = away
	}
}

// Discard plans that a member which returns forgets what it holds before it is
// filled (E2): it was away for longer than deletions are certain to be
// remembered.
func (d *Draft) Discard(num member.Number) {
	if m := d.member(num); m != nil {
		m.Discards++
	}
}

// succeed puts a member with a new id into the place of the one that had its
// name: a machine whose disk was replaced. It gets a number of its own, the
// old one's position and its homes.
func (d *Draft) succeed(old member.Number, c Candidacy) {
	num := d.t.NextNum
	d.t.NextNum++
	before := *d.member(old)
	d.t.Members = slices.DeleteFunc(d.t.Members, func(m Member) bool { return m.Num == old })
	e := c.entry(num, Joining)
	e.Drain, e.Placed = before.Drain, before.Placed
	d.t.Members = append(d.t.Members, e)
	d.t.Order[slices.Index(d.t.Order, old)] = num
	for h := range Slot(Slots) {
		if s := &d.t.Slots[h]; s.Home == old && !c.Witness {
			s.Home = num
		}
	}
	d.reordered()
	d.settle()
}

// Down plans the effect of L2: the members keep position and homes, leave all
// sets, and what they owned goes to the first successor in sync, all in one
// entry.
func (d *Draft) Down(nums ...member.Number) {
	for _, num := range nums {
		if m := d.member(num); m != nil {
			m.State, m.Away = Down, 0
		}
	}
	d.settle()
}

// Reset plans that h gives up its last copy (L4). It does nothing unless h is
// stalled and a member is there to take it.
func (d *Draft) Reset(h Slot) bool { return d.t.Stalled(h) && d.reset(h) }

// Stop plans that a member ends and will come back: its slots go to others at
// once (L7), where one is in sync for them.
func (d *Draft) Stop(num member.Number) {
	m := d.member(num)
	if m == nil || m.State == Down {
		return
	}
	m.State = Stopping
	for h := range Slot(Slots) {
		if d.t.Slots[h].Owner != num {
			continue
		}
		if heir, ok := d.heir(h, num); ok && d.member(heir).State != Stopping {
			d.t.Slots[h].Owner = heir
		}
	}
}

// Leave plans that a member ends for good: it is wanted nowhere from now on,
// and is removed by Retire when nothing is left with it.
func (d *Draft) Leave(num member.Number) {
	if m := d.member(num); m != nil && m.State != Down {
		m.State = Leaving
	}
}

// Stay plans that a member that was leaving remains after all.
func (d *Draft) Stay(num member.Number) {
	if m := d.member(num); m != nil && m.State == Leaving {
		m.State = Joining // Learners says when it has what it shall have
	}
}

// Drain plans that a member hands over all its slots, or ends that.
func (d *Draft) Drain(num member.Number, on bool) error {
	m := d.member(num)
	if m == nil {
		return fmt.Errorf("member %d: %w", num, ErrUnknownMember)
	}
	m.Drain, m.Placed = on, false
	return nil
}

// Remove plans that a member is out of the table. Its homes go to others in
// the same entry; what only it held is lost.
func (d *Draft) Remove(num member.Number) {
	if d.member(num) == nil || len(d.t.Members) == 1 {
		return
	}
	d.moveHomes(num)
	d.t.Members = slices.DeleteFunc(d.t.Members, func(m Member) bool { return m.Num == num })
	d.t.Order = slices.DeleteFunc(d.t.Order, func(n member.Number) bool { return n == num })
	d.reordered()
	d.settle()
}

// Retire removes the leaving members with which nothing is left: no home, no
// copy. Of these it leaves those that may not go yet; nil: all may.
func (d *Draft) Retire(may func(num member.Number) bool) {
	for _, m := range slices.Clone(d.t.Members) {
		if m.State == Leaving && !d.holds(m.Num) && (may == nil || may(m.Num)) {
			d.Remove(m.Num)
		}
	}
}

func (d *Draft) holds(num member.Number) bool {
	for h := range Slot(Slots) {
		s := &d.t.Slots[h]
		if _, in := s.InSyncBoot(num); in || s.Owner == num || s.Home == num {
			return true
		}
	}
	return false
}
