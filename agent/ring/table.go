package ring

import (
	"slices"
	"sort"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

// Slots is the number of shares into which the session space is cut.
const Slots = 1024

// Copies is how many members hold a slot's sessions where there are as many:
// the owner and two successors.
const Copies = 3

// Slot is one share of the session space, 0 to Slots-1.
type Slot uint16

// Epoch numbers tables: the Raft index of the entry that made this one. Zero
// is the empty table, before any entry.
type Epoch uint64

// State is a member's state in the table. Unlike its status in gossip it is
// agreed, and changes only by an entry in the log.
type State uint8

// The states of a member in the table.
const (
	Joining  State = iota + 1 // filling its copies
	Up                        // in sync for all slots that want it
	Down                      // found dead
	Stopping                  // ending, will come back: SIGTERM
	Leaving                   // ending for good
)

// String returns the word that commands and the HTTP API show.
func (s State) String() string {
	switch s {
	case Joining:
		return "joining"
	case Up:
		return "up"
	case Down:
		return "down"
	case Stopping:
		return "stopping"
	case Leaving:
		return "leaving"
	}
	return "unknown"
}

// Store names what a member's disk holds. It is made anew whenever that may be
// less than the member has acknowledged; zero means that the member has no disk,
// or none that holds everything. A new run with the same store holds what the
// run before it held.
type Store = [16]byte

// Holder is one run of one member: what an in-sync set is made of, so that a
// restarted process never counts for what the one before it held.
type Holder struct {
	Num  member.Number
	Boot member.Boot
}

// Member is a member's entry in the table.
type Member struct {
	Num     member.Number
	ID      member.ID
	Name    string
	Addr    string // agent to agent, host:port
	Boot    member.Boot
	State   State
	Witness bool // votes, holds no sessions
	Drain   bool // asked to hand over all its slots, stays a member
	Placed  bool // an operator gave it its homes: they stay while all members are so marked
	Weight  uint16
	// Discards rises each time that the member was away for so long that it must
	// forget what it holds, but for slots in which it is in sync.
	Discards uint32
	Store    Store // durability = "disk": what its disk was known to hold last
	// Away is how long it has been down at least: leaders note it every now and
	// then, so that the next one counts on from there.
	Away    time.Duration
	Changed Epoch // when this entry was last changed
}

// Holder returns the member's present run.
func (m *Member) Holder() Holder { return Holder{m.Num, m.Boot} }

// SlotState is what is decided for one slot.
type SlotState struct {
	Home     member.Number
	Swap     bool   // successors in the other order, so that a dead home's load is shared
	Re       uint64 // rises by 1 at each change of Owner or InSync
	PrevRe   uint64 // the Re this state was derived from
	Owner    member.Number
	InSync   []Holder // the owner among them; sorted by number
	Learners []Holder // being filled; sorted by number
	Lost     bool     // the last copy was given up by a reset
	Changed  Epoch
}

// InSyncHas reports whether h is in the in-sync set.
func (s *SlotState) InSyncHas(h Holder) bool { return slices.Contains(s.InSync, h) }

// InSyncBoot returns the boot under which num is in sync, and whether it is.
func (s *SlotState) InSyncBoot(num member.Number) (member.Boot, bool) {
	for _, h := range s.InSync {
		if h.Num == num {
			return h.Boot, true
		}
	}
	return member.Boot{}, false
}

// Key signs session ids. Keys rotate: new ids are signed with the last one in
// the table, all are accepted.
type Key struct {
	ID     uint8
	Secret [32]byte
}

// Settings hold for the whole cluster. The first leader takes them from its
// configuration; an agent whose own differ stops.
type Settings struct {
	Replicas     uint8 // successors that hold a copy, 0 to 2
	Refuse       bool  // on_partition = "refuse"
	Disk         bool  // durability = "disk"
	MinCopies    uint8 // refuse: fewest copies in sync for a write, 1 or 2
	ReapAfter    time.Duration
	StallTimeout time.Duration
}

// Table is the agreed state of the cluster at one epoch. Treat a shared one as
// read-only.
type Table struct {
	Epoch    Epoch
	Cluster  [16]byte // made at bootstrap
	NextNum  member.Number
	Members  []Member        // sorted by number
	Order    []member.Number // ring order; members keep their position while down
	Slots    [Slots]SlotState
	Keys     []Key
	Settings Settings

	membersChanged Epoch // Members or Order
	metaChanged    Epoch // Cluster, NextNum, Keys, Settings
}

// Member returns the entry of num, or nil.
func (t *Table) Member(num member.Number) *Member {
	// Numbers are mostly given without a gap: look where it would be, then search.
	if i := int(num) - 1; i >= 0 && i < len(t.Members) && t.Members[i].Num == num {
		return &t.Members[i]
	}
	i := sort.Search(len(t.Members), func(i int) bool { return t.Members[i].Num >= num })
	if i == len(t.Members) || t.Members[i].Num != num {
		return nil
	}
	return &t.Members[i]
}

// ByID returns the entry of the member with that id, or nil.
func (t *Table) ByID(id member.ID) *Member {
	for i := range t.Members {
		if t.Members[i].ID == id {
			return &t.Members[i]
		}
	}
	return nil
}

// ByName returns the entry of the member with that name, or nil.
func (t *Table) ByName(name string) *Member {
	for i := range t.Members {
		if t.Members[i].Name == name {
			return &t.Members[i]
		}
	}
	return nil
}

// Position returns num's index in the ring order, or -1.
func (t *Table) Position(num member.Number) int { return slices.Index(t.Order, num) }

// Walk returns all members but witnesses in the order in which they are asked
// to hold h: its home, the next two in ring order (swapped where the slot says
// so), then the rest of the ring.
func (t *Table) Walk(h Slot) []member.Number {
	s := &t.Slots[h]
	n := len(t.Order)
	at := t.Position(s.Home)
	if at < 0 {
		at = 0
	}
	out := make([]member.Number, 0, n)
	for i := range n {
		num := t.Order[(at+i)%n]
		if m := t.Member(num); m != nil && !m.Witness {
			out = append(out, num)
		}
	}
	if s.Swap && len(out) > 2 && out[0] == s.Home {
		out[1], out[2] = out[2], out[1]
	}
	return out
}

// Want returns the members that shall hold h, first the one that shall own it:
// the first members of Walk that are up or joining and not draining, as many
// as the settings ask for. With every other member draining, a draining one is
// wanted all the same: data never has nowhere to go.
func (t *Table) Want(h Slot) []member.Number { return t.wantOf(t.Walk(h)) }

func (t *Table) wantOf(walk []member.Number) []member.Number {
	copies := int(t.Settings.Replicas) + 1
	out := make([]member.Number, 0, copies)
	for _, num := range walk {
		if m := t.Member(num); (m.State == Up || m.State == Joining) && !m.Drain {
			if out = append(out, num); len(out) == copies {
				return out
			}
		}
	}
	if len(out) == 0 {
		for _, num := range walk {
			if m := t.Member(num); m.State == Up || m.State == Joining {
				return append(out, num)
			}
		}
	}
	return out
}

// Short reports whether a member that shall hold h is not in sync yet.
func (t *Table) Short(h Slot) bool {
	return slices.ContainsFunc(t.Want(h), func(num member.Number) bool {
		_, ok := t.Slots[h].InSyncBoot(num)
		return !ok
	})
}

// Successors returns the in-sync members of h beside its owner, in the order in
// which they would take over.
func (t *Table) Successors(h Slot) []member.Number {
	s := &t.Slots[h]
	var out []member.Number
	for _, num := range t.Walk(h) {
		if _, ok := s.InSyncBoot(num); ok && num != s.Owner {
			out = append(out, num)
		}
	}
	return out
}

// LowerHalf returns the lower half of the slots that num owns, at least one
// where it owns any: those in which new sessions are opened, so that each
// member has slots that empty by themselves and can be given away.
func (t *Table) LowerHalf(num member.Number) []Slot {
	var own []Slot
	for h := range Slot(Slots) {
		if t.Slots[h].Owner == num {
			own = append(own, h)
		}
	}
	return own[:(len(own)+1)/2]
}
