package ring

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/rondel-project/rondel/agent/internal/codec"
	"github.com/rondel-project/rondel/agent/member"
)

// codecVersion starts every encoded value. A reader that meets another one
// refuses it: a cluster is upgraded by teaching agents to read the next version
// before any writes it.
const codecVersion = 1

// ErrMalformed means that bytes are not what this package writes.
var ErrMalformed = codec.ErrMalformed

// holders collects the runs named in one value, so that each boot is written
// once and slots refer to it by a small number.
type holders struct {
	list  []Holder
	index map[Holder]uint64
}

func (hs *holders) add(list ...Holder) {
	for _, h := range list {
		if _, ok := hs.index[h]; !ok {
			if hs.index == nil {
				hs.index = make(map[Holder]uint64)
			}
			hs.index[h] = uint64(len(hs.list))
			hs.list = append(hs.list, h)
		}
	}
}

func (hs *holders) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(hs.list)))
	for _, h := range hs.list {
		b = appendHolder(b, h)
	}
	return b
}

func (hs *holders) refs(b []byte, list []Holder) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, h := range list {
		b = binary.AppendUvarint(b, hs.index[h])
	}
	return b
}

func appendHolder(b []byte, h Holder) []byte {
	b = binary.AppendUvarint(b, uint64(h.Num))
	return append(b, h.Boot[:]...)
}

// appendID writes 16 bytes for a well-formed id and the text of any other, so
// that nothing is lost on the way.
func appendID(b []byte, id member.ID) []byte {
	raw := id.Bytes()
	if member.IDFromBytes(raw) == id {
		return append(append(b, 1), raw[:]...)
	}
	return codec.AppendBytes(append(b, 0), id)
}

// reader takes an encoded value apart.
type reader struct{ *codec.Reader }

func newReader(b []byte) reader {
	r := reader{codec.NewReader(b)}
	if v := r.Byte(); r.Err() == nil && v != codecVersion {
		r.Failf("version %d, this agent reads %d", v, codecVersion)
	}
	return r
}

func (r reader) text() string { return r.String(math.MaxInt) }

func (r reader) num() member.Number { return member.Number(r.UpTo(math.MaxUint32)) }
func (r reader) slot() Slot         { return Slot(r.UpTo(Slots - 1)) }
func (r reader) epoch() Epoch       { return Epoch(r.Uvarint()) }
func (r reader) holder() Holder     { return Holder{r.num(), r.Array16()} }
func (r reader) duration() time.Duration {
	return time.Duration(r.UpTo(math.MaxInt64))
}

func (r reader) id() member.ID {
	switch r.Byte() {
	case 0:
		return member.ID(r.text())
	case 1:
		return member.IDFromBytes(r.Array16())
	}
	r.Failf("bad id")
	return ""
}

func (r reader) holders() []Holder {
	n := r.Count(17)
	out := make([]Holder, 0, n)
	for range n {
		out = append(out, r.holder())
	}
	return out
}

func (r reader) refs(all []Holder) []Holder {
	n := r.Count(1)
	if n == 0 {
		return nil
	}
	out := make([]Holder, 0, n)
	for range n {
		i := r.Uvarint()
		if i >= uint64(len(all)) {
			r.Failf("holder %d of %d", i, len(all))
			return nil
		}
		out = append(out, all[i])
	}
	return out
}
