package ring

import (
	"encoding/binary"
	"math"

	"github.com/rondel-project/rondel/agent/internal/codec"
	"github.com/rondel-project/rondel/agent/member"
)

// AppendTable appends t, whole, as snapshots keep it.
func AppendTable(b []byte, t *Table) []byte {
	b = append(b, codecVersion)
	b = binary.AppendUvarint(b, uint64(t.Epoch))
	b = binary.AppendUvarint(b, uint64(t.membersChanged))
	b = appendMeta(b, &DeltaMeta{t.Cluster, t.NextNum, t.Keys, t.Settings, t.metaChanged})
	b = appendMembers(b, t.Members, t.Order)
	slots := make([]SlotChange, Slots)
	for h := range slots {
		slots[h] = SlotChange{Slot(h), t.Slots[h]}
	}
	return appendSlots(b, slots)
}

// DecodeTable is the inverse of AppendTable.
func DecodeTable(b []byte) (*Table, error) {
	r := newReader(b)
	t := &Table{Epoch: r.epoch(), membersChanged: r.epoch()}
	m := r.meta()
	t.Cluster, t.NextNum, t.Keys, t.Settings, t.metaChanged = m.Cluster, m.NextNum, m.Keys, m.Settings, m.Changed
	t.Members, t.Order = r.members()
	for _, s := range r.slots() {
		t.Slots[s.Slot] = s.State
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	return t, nil
}

// AppendChange appends c, as the Raft log keeps it.
func AppendChange(b []byte, c *Change) []byte {
	b = append(b, codecVersion, codec.Flags(c.Cluster != nil, c.Settings != nil))
	b = binary.AppendUvarint(b, uint64(c.Base))
	if c.Cluster != nil {
		b = append(b, c.Cluster[:]...)
	}
	if c.Settings != nil {
		b = appendSettings(b, c.Settings)
	}
	b = binary.AppendUvarint(b, uint64(c.NextNum))
	b = appendKeys(b, c.Keys)
	b = appendMembers(b, c.Members, c.Order)
	b = appendNums(b, c.Removed)
	return appendSlots(b, c.Slots)
}

// DecodeChange is the inverse of AppendChange.
func DecodeChange(b []byte) (*Change, error) {
	r := newReader(b)
	f := r.Flags(2)
	c := &Change{Base: r.epoch()}
	if f&1 != 0 {
		cl := r.Array16()
		c.Cluster = &cl
	}
	if f&2 != 0 {
		s := r.settings()
		c.Settings = &s
	}
	c.NextNum = r.num()
	c.Keys = r.keys()
	c.Members, c.Order = r.members()
	c.Removed = r.nums()
	c.Slots = r.slots()
	if err := r.Done(); err != nil {
		return nil, err
	}
	return c, nil
}

// AppendDelta appends d.
func AppendDelta(b []byte, d *Delta) []byte {
	b = append(b, codecVersion, codec.Flags(d.Meta != nil, d.Members != nil))
	b = binary.AppendUvarint(b, uint64(d.Base))
	b = binary.AppendUvarint(b, uint64(d.Epoch))
	if d.Meta != nil {
		b = appendMeta(b, d.Meta)
	}
	if d.Members != nil {
		b = appendMembers(b, d.Members, d.Order)
	}
	return appendSlots(b, d.Slots)
}

// DecodeDelta is the inverse of AppendDelta.
func DecodeDelta(b []byte) (*Delta, error) {
	r := newReader(b)
	d := r.delta()
	if err := r.Done(); err != nil {
		return nil, err
	}
	return d, nil
}

func (r reader) delta() *Delta {
	f := r.Flags(2)
	d := &Delta{Base: r.epoch(), Epoch: r.epoch()}
	if f&1 != 0 {
		m := r.meta()
		d.Meta = &m
	}
	if f&2 != 0 {
		d.Members, d.Order = r.members()
		if d.Members == nil { // present, and empty: not the same as unchanged
			d.Members = []Member{}
		}
	}
	d.Slots = r.slots()
	return d
}

func appendMeta(b []byte, m *DeltaMeta) []byte {
	b = append(b, m.Cluster[:]...)
	b = binary.AppendUvarint(b, uint64(m.NextNum))
	b = binary.AppendUvarint(b, uint64(m.Changed))
	b = appendKeys(b, m.Keys)
	return appendSettings(b, &m.Settings)
}

func (r reader) meta() DeltaMeta {
	return DeltaMeta{
		Cluster: r.Array16(), NextNum: r.num(), Changed: r.epoch(),
		Keys: r.keys(), Settings: r.settings(),
	}
}

func appendKeys(b []byte, keys []Key) []byte {
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for _, k := range keys {
		b = append(append(b, k.ID), k.Secret[:]...)
	}
	return b
}

func (r reader) keys() (keys []Key) {
	for range r.Count(33) {
		k := Key{ID: r.Byte()}
		copy(k.Secret[:], r.Fixed(32))
		keys = append(keys, k)
	}
	return keys
}

func appendSettings(b []byte, s *Settings) []byte {
	b = append(b, s.Replicas, s.MinCopies, codec.Flags(s.Refuse, s.Disk))
	b = binary.AppendUvarint(b, uint64(max(s.ReapAfter, 0)))
	return binary.AppendUvarint(b, uint64(max(s.StallTimeout, 0)))
}

func (r reader) settings() Settings {
	s := Settings{Replicas: r.Byte(), MinCopies: r.Byte()}
	f := r.Flags(2)
	s.Refuse, s.Disk = f&1 != 0, f&2 != 0
	s.ReapAfter, s.StallTimeout = r.duration(), r.duration()
	return s
}

func appendMembers(b []byte, members []Member, order []member.Number) []byte {
	b = binary.AppendUvarint(b, uint64(len(members)))
	for i := range members {
		m := &members[i]
		b = binary.AppendUvarint(b, uint64(m.Num))
		b = append(b, m.Boot[:]...)
		b = append(b, byte(m.State), codec.Flags(m.Witness, m.Drain, m.Discards > 0, m.Store != (Store{}), m.Placed, m.Away > 0))
		b = binary.AppendUvarint(b, uint64(m.Weight))
		b = binary.AppendUvarint(b, uint64(m.Changed))
		b = appendID(b, m.ID)
		b = codec.AppendBytes(b, m.Name)
		b = codec.AppendBytes(b, m.Addr)
		if m.Discards > 0 {
			b = binary.AppendUvarint(b, uint64(m.Discards))
		}
		if m.Store != (Store{}) {
			b = append(b, m.Store[:]...)
		}
		if m.Away > 0 {
			b = binary.AppendUvarint(b, uint64(m.Away))
		}
	}
	return appendNums(b, order)
}

func (r reader) members() (members []Member, order []member.Number) {
	for range r.Count(24) {
		m := Member{Num: r.num(), Boot: r.Array16(), State: State(r.Byte())}
		f := r.Flags(6)
		m.Witness, m.Drain, m.Placed = f&1 != 0, f&2 != 0, f&16 != 0
		m.Weight = uint16(r.UpTo(math.MaxUint16))
		m.Changed = r.epoch()
		m.ID, m.Name, m.Addr = r.id(), r.text(), r.text()
		if f&4 != 0 {
			if m.Discards = uint32(r.UpTo(math.MaxUint32)); m.Discards == 0 {
				r.Failf("no discards, and marked")
			}
		}
		if f&8 != 0 {
			if m.Store = r.Array16(); m.Store == (Store{}) {
				r.Failf("no store, and marked")
			}
		}
		if f&32 != 0 {
			if m.Away = r.duration(); m.Away == 0 {
				r.Failf("not away, and marked")
			}
		}
		if m.State < Joining || m.State > Leaving {
			r.Failf("state %d", m.State)
		}
		members = append(members, m)
	}
	return members, r.nums()
}

func appendNums(b []byte, nums []member.Number) []byte {
	b = binary.AppendUvarint(b, uint64(len(nums)))
	for _, n := range nums {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

func (r reader) nums() (nums []member.Number) {
	for range r.Count(1) {
		nums = append(nums, r.num())
	}
	return nums
}

func appendSlots(b []byte, slots []SlotChange) []byte {
	var hs holders
	for i := range slots {
		hs.add(slots[i].State.InSync...)
		hs.add(slots[i].State.Learners...)
	}
	b = hs.append(b)
	b = binary.AppendUvarint(b, uint64(len(slots)))
	for i := range slots {
		s := &slots[i].State
		b = binary.AppendUvarint(b, uint64(slots[i].Slot))
		b = append(b, codec.Flags(s.Swap, s.Lost))
		b = binary.AppendUvarint(b, uint64(s.Home))
		b = binary.AppendUvarint(b, uint64(s.Owner))
		b = binary.AppendUvarint(b, s.Re)
		b = binary.AppendUvarint(b, s.PrevRe)
		b = binary.AppendUvarint(b, uint64(s.Changed))
		b = hs.refs(b, s.InSync)
		b = hs.refs(b, s.Learners)
	}
	return b
}

func (r reader) slots() (slots []SlotChange) {
	all := r.holders()
	n := r.Count(9)
	if n > Slots {
		r.Failf("%d slots", n)
		return nil
	}
	for range n {
		c := SlotChange{Slot: r.slot()}
		s := &c.State
		f := r.Flags(2)
		s.Swap, s.Lost = f&1 != 0, f&2 != 0
		s.Home, s.Owner = r.num(), r.num()
		s.Re, s.PrevRe, s.Changed = r.Uvarint(), r.Uvarint(), r.epoch()
		s.InSync, s.Learners = r.refs(all), r.refs(all)
		slots = append(slots, c)
	}
	return slots
}
