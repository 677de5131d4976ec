package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

// codecVersion starts every encoded value. A reader that meets another one
// refuses it: a cluster is upgraded by teaching agents to read the next version
// before any writes it.
const codecVersion = 1

// ErrMalformed means that bytes are not what this package writes.
var ErrMalformed = errors.New("malformed ring message")

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

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// appendID writes 16 bytes for a well-formed id and the text of any other, so
// that nothing is lost on the way.
func appendID(b []byte, id member.ID) []byte {
	raw := id.Bytes()
	if member.IDFromBytes(raw) == id {
		return append(append(b, 1), raw[:]...)
	}
	return appendString(append(b, 0), string(id))
}

func flags(bits ...bool) (f byte) {
	for i, on := range bits {
		if on {
			f |= 1 << i
		}
	}
	return f
}

// reader takes an encoded value apart. The first error sticks, and after it
// every read returns zero, so that callers check once at the end.
type reader struct {
	b   []byte
	err error
}

func newReader(b []byte) *reader {
	r := &reader{b: b}
	if v := r.byte(); r.err == nil && v != codecVersion {
		r.fail("version %d, this agent reads %d", v, codecVersion)
	}
	return r
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format+": %w", append(args, ErrMalformed)...)
		r.b = nil
	}
}

// end returns the error of the whole read; bytes left over are one.
func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes too many", len(r.b))
	}
	return r.err
}

func (r *reader) bytes(n int) []byte {
	if n > len(r.b) {
		r.fail("cut short")
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// flags reads a byte of which only the lowest n bits may be set.
func (r *reader) flags(n int) byte {
	f := r.byte()
	if f>>n != 0 {
		r.fail("flags %#x", f)
		return 0
	}
	return f
}

func (r *reader) uint() uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("bad number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) upTo(limit uint64) uint64 {
	v := r.uint()
	if v > limit {
		r.fail("number %d over %d", v, limit)
		return 0
	}
	return v
}

// count reads the length of a list whose elements take at least size bytes
// each: what cannot be there is refused before anything is allocated for it.
func (r *reader) count(size int) int {
	n := r.uint()
	if n > uint64(len(r.b)/size) {
		r.fail("list of %d in %d bytes", n, len(r.b))
		return 0
	}
	return int(n)
}

func (r *reader) string() string { return string(r.bytes(r.count(1))) }

func (r *reader) array16() (a [16]byte) {
	copy(a[:], r.bytes(16))
	return a
}

func (r *reader) num() member.Number { return member.Number(r.upTo(math.MaxUint32)) }
func (r *reader) slot() Slot         { return Slot(r.upTo(Slots - 1)) }
func (r *reader) epoch() Epoch       { return Epoch(r.uint()) }
func (r *reader) holder() Holder     { return Holder{r.num(), r.array16()} }
func (r *reader) duration() time.Duration {
	return time.Duration(r.upTo(math.MaxInt64))
}

func (r *reader) id() member.ID {
	switch r.byte() {
	case 0:
		return member.ID(r.string())
	case 1:
		return member.IDFromBytes(r.array16())
	}
	r.fail("bad id")
	return ""
}

func (r *reader) holders() []Holder {
	n := r.count(17)
	out := make([]Holder, 0, n)
	for range n {
		out = append(out, r.holder())
	}
	return out
}

func (r *reader) refs(all []Holder) []Holder {
	n := r.count(1)
	if n == 0 {
		return nil
	}
	out := make([]Holder, 0, n)
	for range n {
		i := r.uint()
		if i >= uint64(len(all)) {
			r.fail("holder %d of %d", i, len(all))
			return nil
		}
		out = append(out, all[i])
	}
	return out
}
