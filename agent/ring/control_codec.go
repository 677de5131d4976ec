package ring

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/rondel-project/rondel/agent/internal/codec"
)

// Kind tells control messages apart on the wire. Numbers are never used again.
type Kind byte

// The control messages.
const (
	_ Kind = iota + 1 // Renew, as it was without Renew.Store
	KindGrant
	KindNotLeader
	KindTableUpdate
	_ // AddInSync and
	_ // AddInSyncNo, as they were without Candidate.Changed
	KindReport
	KindStop
	KindAddInSync
	KindAddInSyncNo
	KindRenew
)

// Message is a control message: *Renew, *Grant, *NotLeader, *TableUpdate,
// *AddInSync, *AddInSyncNo, *Report or *Stop.
type Message interface {
	Kind() Kind
	append(b []byte) []byte
}

// Kind returns KindRenew.
func (*Renew) Kind() Kind { return KindRenew }

// Kind returns KindGrant.
func (*Grant) Kind() Kind { return KindGrant }

// Kind returns KindNotLeader.
func (*NotLeader) Kind() Kind { return KindNotLeader }

// Kind returns KindTableUpdate.
func (*TableUpdate) Kind() Kind { return KindTableUpdate }

// Kind returns KindAddInSync.
func (*AddInSync) Kind() Kind { return KindAddInSync }

// Kind returns KindAddInSyncNo.
func (*AddInSyncNo) Kind() Kind { return KindAddInSyncNo }

// Kind returns KindReport.
func (*Report) Kind() Kind { return KindReport }

// Kind returns KindStop.
func (*Stop) Kind() Kind { return KindStop }

// AppendMessage appends m: version, kind, contents.
func AppendMessage(b []byte, m Message) []byte {
	return m.append(append(b, codecVersion, byte(m.Kind())))
}

// DecodeMessage is the inverse of AppendMessage.
func DecodeMessage(b []byte) (Message, error) {
	r := newReader(b)
	kind := Kind(r.Byte())
	decode, ok := decoders[kind]
	if !ok {
		r.Failf("kind %d", kind)
		return nil, r.Err()
	}
	m := decode(r)
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("control message %d: %w", kind, err)
	}
	return m, nil
}

var decoders = map[Kind]func(reader) Message{
	KindRenew: func(r reader) Message {
		m := &Renew{From: r.holder(), ID: r.id(), Sent: int64(r.Uvarint()), Epoch: r.epoch()}
		if r.Flags(1) != 0 {
			if m.Store = r.Array16(); m.Store == (Store{}) {
				r.Failf("no store, and marked")
			}
		}
		for range r.Count(3) {
			s := SlotLoad{Slot: r.slot()}
			f := r.Flags(2)
			s.Open, s.Idle = f&1 != 0, f&2 != 0
			s.Sessions = uint32(r.UpTo(math.MaxUint32))
			m.Owned = append(m.Owned, s)
		}
		return m
	},
	KindGrant: func(r reader) Message {
		return &Grant{
			To: r.holder(), Sent: int64(r.Uvarint()), Leader: r.num(), Term: r.Uvarint(),
			Table: r.optionalDelta(),
		}
	},
	KindNotLeader:   func(r reader) Message { return &NotLeader{Hint: r.id()} },
	KindTableUpdate: func(r reader) Message { return &TableUpdate{Table: r.optionalDelta()} },
	KindAddInSync: func(r reader) Message {
		return &AddInSync{From: r.holder(), Slots: r.candidates()}
	},
	KindAddInSyncNo: func(r reader) Message { return &AddInSyncNo{Slots: r.candidates()} },
	KindReport: func(r reader) Message {
		m := &Report{From: r.holder()}
		if slow := r.holders(); len(slow) > 0 {
			m.Slow = slow
		}
		for range r.Count(18) {
			m.Unreachable = append(m.Unreachable, Unreachable{r.holder(), r.Flags(1) != 0})
		}
		return m
	},
	KindStop: func(r reader) Message {
		m := &Stop{From: r.holder()}
		f := r.Flags(2)
		m.Leave, m.Done = f&1 != 0, f&2 != 0
		return m
	},
}

func (m *Renew) append(b []byte) []byte {
	b = appendHolder(b, m.From)
	b = appendID(b, m.ID)
	b = binary.AppendUvarint(b, uint64(m.Sent))
	b = binary.AppendUvarint(b, uint64(m.Epoch))
	if b = append(b, codec.Flags(m.Store != (Store{}))); m.Store != (Store{}) {
		b = append(b, m.Store[:]...)
	}
	b = binary.AppendUvarint(b, uint64(len(m.Owned)))
	for _, s := range m.Owned {
		b = binary.AppendUvarint(b, uint64(s.Slot))
		b = append(b, codec.Flags(s.Open, s.Idle))
		b = binary.AppendUvarint(b, uint64(s.Sessions))
	}
	return b
}

func (m *Grant) append(b []byte) []byte {
	b = appendHolder(b, m.To)
	b = binary.AppendUvarint(b, uint64(m.Sent))
	b = binary.AppendUvarint(b, uint64(m.Leader))
	b = binary.AppendUvarint(b, m.Term)
	return appendOptionalDelta(b, m.Table)
}

func (m *NotLeader) append(b []byte) []byte   { return appendID(b, m.Hint) }
func (m *TableUpdate) append(b []byte) []byte { return appendOptionalDelta(b, m.Table) }

func (m *AddInSync) append(b []byte) []byte {
	return appendCandidates(appendHolder(b, m.From), m.Slots)
}

func (m *AddInSyncNo) append(b []byte) []byte { return appendCandidates(b, m.Slots) }

func (m *Report) append(b []byte) []byte {
	b = appendHolder(b, m.From)
	b = binary.AppendUvarint(b, uint64(len(m.Slow)))
	for _, h := range m.Slow {
		b = appendHolder(b, h)
	}
	b = binary.AppendUvarint(b, uint64(len(m.Unreachable)))
	for _, u := range m.Unreachable {
		b = append(appendHolder(b, u.Who), codec.Flags(u.Refused))
	}
	return b
}

func (m *Stop) append(b []byte) []byte {
	return append(appendHolder(b, m.From), codec.Flags(m.Leave, m.Done))
}

func appendOptionalDelta(b []byte, d *Delta) []byte {
	if d == nil {
		return append(b, 0)
	}
	return AppendDelta(append(b, 1), d)
}

func (r reader) optionalDelta() *Delta {
	if r.Flags(1) == 0 {
		return nil
	}
	if v := r.Byte(); v != codecVersion {
		r.Failf("delta version %d, this agent reads %d", v, codecVersion)
		return nil
	}
	return r.delta()
}

func appendCandidates(b []byte, list []Candidate) []byte {
	var hs holders
	for i := range list {
		hs.add(list[i].Cand)
	}
	b = hs.append(b)
	b = binary.AppendUvarint(b, uint64(len(list)))
	for i := range list {
		b = binary.AppendUvarint(b, uint64(list[i].Slot))
		b = binary.AppendUvarint(b, list[i].Re)
		b = binary.AppendUvarint(b, uint64(list[i].Changed))
		b = binary.AppendUvarint(b, hs.index[list[i].Cand])
	}
	return b
}

func (r reader) candidates() (list []Candidate) {
	all := r.holders()
	for range r.Count(4) {
		c := Candidate{Slot: r.slot(), Re: r.Uvarint(), Changed: r.epoch()}
		i := r.Uvarint()
		if i >= uint64(len(all)) {
			r.Failf("holder %d of %d", i, len(all))
			return nil
		}
		c.Cand = all[i]
		list = append(list, c)
	}
	return list
}
