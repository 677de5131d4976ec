package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/internal/codec"
	"github.com/rondel-project/rondel/agent/member"
)

// Bounds of what a decoder accepts. They are far above what the limits of a
// configuration allow, and keep a broken frame from costing memory.
const (
	maxID    = 4 << 10
	maxName  = 64 << 10
	maxValue = 1 << 30
)

// ErrBase means that an update starts from another version than the record
// that it met: the whole record is needed.
var ErrBase = errors.New("update starts from another version")

// Update is a new state of a session on its way to a copy: either the whole
// record, or what changed since Base.
type Update struct {
	ID   ID
	Full *Record
	Base Version
	Next Version
	Set  []*Attr
	Op   *Op
	Left time.Duration // until it expires if nobody uses it
	Age  time.Duration // since it was created
}

// Version returns the version that the update leads to.
func (u *Update) Version() Version {
	if u.Full != nil {
		return u.Full.Version()
	}
	return u.Next
}

// ApplyTo returns the record that the update makes of rec. It returns ErrBase
// where rec is not what the update starts from. now is the holder's clock.
func (u *Update) ApplyTo(rec *Record, keepDead bool, now int64) (*Record, error) {
	if u.Full != nil {
		return u.Full, nil
	}
	if rec == nil || rec.Version() != u.Base || rec.Dead {
		return nil, ErrBase
	}
	n := *rec
	n.Gen, n.Ver = u.Next.Gen, u.Next.Ver
	n.with(u.Set, keepDead)
	if u.Op != nil {
		n.Ops = remember(n.Ops, *u.Op, now)
	}
	return &n, nil
}

func appendVersion(b []byte, v Version) []byte {
	b = binary.AppendUvarint(b, v.Gen.Re)
	b = binary.AppendUvarint(b, uint64(v.Gen.Detach))
	b = binary.AppendUvarint(b, uint64(v.Gen.Num))
	return binary.AppendUvarint(b, v.Ver)
}

func readVersion(r *codec.Reader) (v Version) {
	v.Gen.Re = r.Uvarint()
	v.Gen.Detach = readUint32(r)
	v.Gen.Num = readNumber(r)
	v.Ver = r.Uvarint()
	return v
}

func readUint32(r *codec.Reader) uint32 {
	v := r.Uvarint()
	if v > math.MaxUint32 {
		r.Fail(fmt.Errorf("number %d over 32 bits: %w", v, codec.ErrMalformed))
		return 0
	}
	return uint32(v)
}

func readNumber(r *codec.Reader) member.Number { return member.Number(readUint32(r)) }

// AppendVersion appends the encoding of v.
func AppendVersion(b []byte, v Version) []byte { return appendVersion(b, v) }

// ReadVersion reads what AppendVersion wrote.
func ReadVersion(r *codec.Reader) Version { return readVersion(r) }

func appendAttr(b []byte, a *Attr) []byte {
	b = codec.AppendBytes(b, a.Name)
	b = codec.AppendBytes(b, a.Type)
	b = codec.AppendBool(b, a.Dead)
	b = binary.AppendUvarint(b, a.Stamp.HLC)
	b = binary.AppendUvarint(b, uint64(a.Stamp.Num))
	return codec.AppendBytes(b, a.Value)
}

func readAttr(r *codec.Reader) *Attr {
	a := readPlainAttr(r)
	return NewAttr(a.Name, a.Value, a.Type, a.Dead, a.Stamp)
}

// readPlainAttr reads an attribute that no record holds: it needs no checksum.
func readPlainAttr(r *codec.Reader) Attr {
	return Attr{
		Name: r.String(maxName), Type: r.String(maxName), Dead: r.Bool(), Stamp: Stamp{HLC: r.Uvarint(), Num: readNumber(r)},
		Value: slices.Clone(r.Bytes(maxValue)),
	}
}

const attrMin = 6 // bytes of the smallest attribute

func appendAttrs(b []byte, attrs []*Attr) []byte {
	b = binary.AppendUvarint(b, uint64(len(attrs)))
	for _, a := range attrs {
		b = appendAttr(b, a)
	}
	return b
}

func readAttrs(r *codec.Reader) []*Attr {
	n := r.Count(attrMin)
	if n == 0 {
		return nil
	}
	attrs := make([]*Attr, 0, n)
	for range n {
		attrs = append(attrs, readAttr(r))
	}
	return attrs
}

// sorted fails the reader unless the attributes are in strict order of name,
// as every record has them.
func sorted(r *codec.Reader, attrs []*Attr) {
	for i := 1; i < len(attrs); i++ {
		if attrs[i-1].Name >= attrs[i].Name {
			r.Fail(fmt.Errorf("attributes out of order: %w", codec.ErrMalformed))
			return
		}
	}
}

func appendOp(b []byte, o *Op, now int64) []byte {
	b = append(b, o.ID[:]...)
	b = binary.LittleEndian.AppendUint64(b, o.Body)
	b = binary.AppendUvarint(b, o.Ver)
	b = codec.AppendBool(b, o.Auto)
	b = binary.AppendUvarint(b, uint64(max(0, now-o.At)))
	return codec.AppendBytes(b, o.Value)
}

func readOp(r *codec.Reader, now int64) (o Op) {
	copy(o.ID[:], r.Fixed(16))
	o.Body = r.Uint64()
	o.Ver = r.Uvarint()
	o.Auto = r.Bool()
	o.At = now - int64(min(r.Uvarint(), uint64(OpsAtMost)))
	o.Value = slices.Clone(r.Bytes(maxID))
	return o
}

// AppendRecord appends the encoding of a whole record. now is the sender's
// clock: ages of operations travel, not times.
func AppendRecord(b []byte, rec *Record, now int64) []byte {
	b = codec.AppendBytes(b, rec.ID)
	b = appendVersion(b, rec.Version())
	b = binary.AppendVarint(b, rec.Created)
	b = binary.AppendUvarint(b, uint64(rec.TTL))
	b = binary.AppendUvarint(b, uint64(rec.MaxAge))
	b = codec.AppendBytes(b, rec.Group)
	b = codec.AppendBytes(b, rec.Principal)
	b = codec.AppendBool(b, rec.Dead)
	b = codec.AppendBytes(b, rec.Rotated)
	b = appendAttrs(b, rec.Attrs)
	b = binary.AppendUvarint(b, uint64(len(rec.Ops)))
	for i := range rec.Ops {
		b = appendOp(b, &rec.Ops[i], now)
	}
	return b
}

// ReadRecord reads what AppendRecord wrote; now is the receiver's clock.
func ReadRecord(r *codec.Reader, now int64) *Record {
	rec := &Record{ID: ID(r.String(maxID))}
	v := readVersion(r)
	rec.Gen, rec.Ver = v.Gen, v.Ver
	rec.Created = r.Varint()
	rec.TTL, rec.MaxAge = readDuration(r), readDuration(r)
	rec.Group, rec.Principal = r.String(maxName), r.String(maxName)
	rec.Dead = r.Bool()
	rec.Rotated = ID(r.String(maxID))
	rec.Attrs = readAttrs(r)
	sorted(r, rec.Attrs)
	for range r.Count(28) {
		rec.Ops = append(rec.Ops, readOp(r, now))
	}
	if rec.ID == "" || rec.Dead && len(rec.Attrs) > 0 {
		r.Fail(fmt.Errorf("a record without an id, or a tombstone with contents: %w", codec.ErrMalformed))
	}
	rec.seal()
	return rec
}

func readDuration(r *codec.Reader) time.Duration {
	d := time.Duration(r.Uvarint())
	if d < 0 {
		r.Fail(fmt.Errorf("a negative duration: %w", codec.ErrMalformed))
	}
	return d
}

// AppendUpdate appends the encoding of u; now is the sender's clock.
func AppendUpdate(b []byte, u *Update, now int64) []byte {
	b = codec.AppendBool(b, u.Full != nil)
	b = binary.AppendVarint(b, int64(u.Left))
	b = binary.AppendVarint(b, int64(u.Age))
	if u.Full != nil {
		return AppendRecord(b, u.Full, now)
	}
	b = codec.AppendBytes(b, u.ID)
	b = appendVersion(b, u.Base)
	b = appendVersion(b, u.Next)
	b = appendAttrs(b, u.Set)
	b = codec.AppendBool(b, u.Op != nil)
	if u.Op != nil {
		b = appendOp(b, u.Op, now)
	}
	return b
}

// ReadUpdate reads what AppendUpdate wrote; now is the receiver's clock.
func ReadUpdate(r *codec.Reader, now int64) *Update {
	full := r.Bool()
	both := &struct { // most have an operation: one piece of memory for both
		Update
		op Op
	}{}
	u := &both.Update
	u.Left, u.Age = time.Duration(r.Varint()), time.Duration(r.Varint())
	if full {
		u.Full = ReadRecord(r, now)
		u.ID = u.Full.ID
		return u
	}
	u.ID = ID(r.String(maxID))
	u.Base, u.Next = readVersion(r), readVersion(r)
	u.Set = readAttrs(r)
	sorted(r, u.Set)
	if r.Bool() {
		both.op = readOp(r, now)
		u.Op = &both.op
	}
	return u
}
