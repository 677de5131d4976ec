package ring

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rondel-project/rondel/agent/member"
)

var (
	// ErrStale means that a change was planned from another table than the
	// one it met: plan again.
	ErrStale = errors.New("planned from another epoch")
	// ErrGap means that a delta starts after the table it met: ask for more.
	ErrGap = errors.New("delta does not reach back to this epoch")
)

// Change is one entry of the log: the table at Base becomes a new one. What is
// nil or empty stays as it was; members and slots named are replaced whole.
type Change struct {
	Base     Epoch
	Cluster  *[16]byte
	NextNum  member.Number // 0: as it was
	Members  []Member
	Removed  []member.Number
	Order    []member.Number
	Slots    []SlotChange
	Keys     []Key
	Settings *Settings
}

// SlotChange replaces the state of one slot.
type SlotChange struct {
	Slot  Slot
	State SlotState
}

// Empty reports whether the change changes nothing.
func (c *Change) Empty() bool {
	return c.Cluster == nil && c.NextNum == 0 && len(c.Members) == 0 && len(c.Removed) == 0 &&
		len(c.Order) == 0 && len(c.Slots) == 0 && len(c.Keys) == 0 && c.Settings == nil
}

// Apply returns the table that the change makes of t at the given epoch. It
// returns ErrStale, and no table, when the change was planned from another one.
func (t *Table) Apply(c *Change, at Epoch) (*Table, error) {
	if c.Base != t.Epoch {
		return nil, fmt.Errorf("base %d, table %d: %w", c.Base, t.Epoch, ErrStale)
	}
	n := *t
	n.Epoch = at
	if c.Cluster != nil || c.NextNum != 0 || len(c.Keys) > 0 || c.Settings != nil {
		n.metaChanged = at
	}
	if c.Cluster != nil {
		n.Cluster = *c.Cluster
	}
	if c.NextNum != 0 {
		n.NextNum = c.NextNum
	}
	if len(c.Keys) > 0 {
		n.Keys = slices.Clone(c.Keys)
	}
	if c.Settings != nil {
		n.Settings = *c.Settings
	}
	if len(c.Members) > 0 || len(c.Removed) > 0 || len(c.Order) > 0 {
		n.membersChanged = at
		n.Members = slices.DeleteFunc(slices.Clone(t.Members), func(m Member) bool {
			return slices.Contains(c.Removed, m.Num)
		})
		for _, m := range c.Members {
			m.Changed = at
			n.putMember(m)
		}
	}
	if len(c.Order) > 0 {
		n.Order = slices.Clone(c.Order)
	}
	for _, s := range c.Slots {
		if s.Slot >= Slots {
			return nil, fmt.Errorf("slot %d: there are %d", s.Slot, Slots)
		}
		s.State.Changed = at
		n.Slots[s.Slot] = s.State
	}
	return &n, nil
}

func (t *Table) putMember(m Member) {
	i, ok := slices.BinarySearchFunc(t.Members, m.Num, func(m Member, n member.Number) int {
		return int(m.Num) - int(n)
	})
	if ok {
		t.Members[i] = m
	} else {
		t.Members = slices.Insert(t.Members, i, m)
	}
}

// Delta is what changed in a table since an epoch: enough to bring any table
// at Base or later to Epoch.
type Delta struct {
	Base, Epoch Epoch
	Meta        *DeltaMeta
	Members     []Member        // all of them, where any changed; nil otherwise
	Order       []member.Number // goes with Members
	Slots       []SlotChange
}

// DeltaMeta holds the parts of a table that hardly ever change.
type DeltaMeta struct {
	Cluster  [16]byte
	NextNum  member.Number
	Keys     []Key
	Settings Settings
	Changed  Epoch
}

// Since returns what changed after epoch e; with e = 0 the whole table.
func (t *Table) Since(e Epoch) *Delta {
	d := &Delta{Base: e, Epoch: t.Epoch}
	if t.metaChanged > e {
		d.Meta = &DeltaMeta{t.Cluster, t.NextNum, t.Keys, t.Settings, t.metaChanged}
	}
	if t.membersChanged > e {
		d.Members, d.Order = t.Members, t.Order
	}
	for h := range Slot(Slots) {
		if t.Slots[h].Changed > e {
			d.Slots = append(d.Slots, SlotChange{h, t.Slots[h]})
		}
	}
	return d
}

// Merge returns t brought to the delta's epoch. A delta that is not newer
// returns t itself; one that does not reach back far enough returns ErrGap.
func (t *Table) Merge(d *Delta) (*Table, error) {
	if d.Epoch <= t.Epoch {
		return t, nil
	}
	if d.Base > t.Epoch {
		return nil, fmt.Errorf("delta from %d, table %d: %w", d.Base, t.Epoch, ErrGap)
	}
	n := *t
	n.Epoch = d.Epoch
	if m := d.Meta; m != nil {
		n.Cluster, n.NextNum, n.Keys, n.Settings, n.metaChanged = m.Cluster, m.NextNum, m.Keys, m.Settings, m.Changed
	}
	if d.Members != nil {
		n.Members, n.Order, n.membersChanged = d.Members, d.Order, d.Epoch
	}
	for _, s := range d.Slots {
		if s.Slot >= Slots {
			return nil, fmt.Errorf("slot %d: there are %d", s.Slot, Slots)
		}
		n.Slots[s.Slot] = s.State
	}
	return &n, nil
}
