package session

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/rondel-project/rondel/agent/member"
)

// Gen is the generation under which a record was committed: the slot's Re, and
// for what a detached member acknowledged the count of its detachments and its
// number. Compared left to right.
type Gen struct {
	Re     uint64
	Detach uint32
	Num    member.Number
}

// Compare orders generations.
func (g Gen) Compare(o Gen) int {
	return cmp.Or(cmp.Compare(g.Re, o.Re), cmp.Compare(g.Detach, o.Detach), cmp.Compare(g.Num, o.Num))
}

// Version orders the states of one session: generation first, then the count
// of changes. Two owners can never make the same version with other content,
// since a generation has one owner.
type Version struct {
	Gen Gen
	Ver uint64
}

// Compare orders versions.
func (v Version) Compare(o Version) int {
	return cmp.Or(v.Gen.Compare(o.Gen), cmp.Compare(v.Ver, o.Ver))
}

// String returns the form used in an ETag, without its quotes: "re-ver", or
// "re.detach.num-ver".
func (v Version) String() string { return string(v.Append(nil)) }

// Append appends what String returns.
func (v Version) Append(b []byte) []byte {
	b = strconv.AppendUint(b, uint64(v.Gen.Re), 10)
	if v.Gen.Detach != 0 || v.Gen.Num != 0 {
		b = strconv.AppendUint(append(b, '.'), uint64(v.Gen.Detach), 10)
		b = strconv.AppendUint(append(b, '.'), uint64(v.Gen.Num), 10)
	}
	return strconv.AppendUint(append(b, '-'), v.Ver, 10)
}

// ParseVersion reads what String writes.
func ParseVersion(s string) (v Version, err error) {
	gen, ver, ok := strings.Cut(s, "-")
	if !ok {
		return v, fmt.Errorf("version %q: want GENERATION-VERSION", s)
	}
	if v.Ver, err = strconv.ParseUint(ver, 10, 64); err != nil {
		return v, fmt.Errorf("version %q: %w", s, err)
	}
	parts := strings.Split(gen, ".")
	if len(parts) != 1 && len(parts) != 3 {
		return v, fmt.Errorf("version %q: want GENERATION-VERSION", s)
	}
	if v.Gen.Re, err = strconv.ParseUint(parts[0], 10, 64); err != nil {
		return v, fmt.Errorf("version %q: %w", s, err)
	}
	if len(parts) == 3 {
		d, err1 := strconv.ParseUint(parts[1], 10, 32)
		n, err2 := strconv.ParseUint(parts[2], 10, 32)
		if err := cmp.Or(err1, err2); err != nil {
			return v, fmt.Errorf("version %q: %w", s, err)
		}
		v.Gen.Detach, v.Gen.Num = uint32(d), member.Number(n)
	}
	return v, nil
}

// Stamp orders the writes of one attribute when both sides of a partition made
// some: a hybrid logical clock (48 bits of wall-clock milliseconds, 16 of
// counter; Kulkarni et al. 2014), then the writer's number.
type Stamp struct {
	HLC uint64
	Num member.Number
}

// Compare orders stamps.
func (s Stamp) Compare(o Stamp) int {
	return cmp.Or(cmp.Compare(s.HLC, o.HLC), cmp.Compare(s.Num, o.Num))
}

// Attr is one attribute. It is never changed once a record holds it.
type Attr struct {
	Name  string
	Value []byte
	Type  string // "" for JSON text, else the Content-Type of the bytes
	Dead  bool   // removed; kept for a while in serve mode, so that a merge does not bring it back
	Stamp Stamp
	sum   uint64
}

// NewAttr returns an attribute with its checksum.
func NewAttr(name string, value []byte, contentType string, dead bool, stamp Stamp) *Attr {
	a := &Attr{Name: name, Value: value, Type: contentType, Dead: dead, Stamp: stamp}
	var d xxhash.Digest
	d.Reset()
	var n [29]byte
	binary.LittleEndian.PutUint64(n[0:], uint64(len(name)))
	binary.LittleEndian.PutUint64(n[8:], uint64(len(contentType)))
	binary.LittleEndian.PutUint64(n[16:], stamp.HLC)
	binary.LittleEndian.PutUint32(n[24:], uint32(stamp.Num))
	if dead {
		n[28] = 1
	}
	d.Write(n[:])
	d.WriteString(name)
	d.WriteString(contentType)
	d.Write(value)
	a.sum = d.Sum64()
	return a
}

// OpID is the hash of an idempotency key with method and path. Zero is none.
type OpID [16]byte

// Op is a write that a session remembers, so that the same one sent again
// changes nothing and gets the first answer.
type Op struct {
	ID    OpID
	Body  uint64 // hash of the request's body, to tell a re-used key
	Ver   uint64
	Value []byte // of incr, append and rotate
	At    int64  // nanoseconds on the holder's own clock
	Auto  bool   // made by an agent for its own resending, not by a client
}

// How long and how many operations a record remembers.
const (
	OpsKeep    = 32
	OpsMax     = 4096 // some 130 writes a second for OpsAtLeast
	OpsAtLeast = 30 * time.Second
	OpsAtMost  = 10 * time.Minute
	OpsAuto    = 10 * time.Second
	OpsAutoMax = 512 // a resend comes within a second or two; more would make each write copy too much
)

// Record is one state of one session. It is immutable; its slices are shared
// with the states before and after it. Each attribute is a piece of memory of its
// own, so that a state which differs in one costs a pointer for each of the others
// and keeps nothing alive that was replaced.
type Record struct {
	// What a use looks at is in one line of the processor's cache.
	ID     ID
	TTL    time.Duration
	MaxAge time.Duration
	Dead   bool // tombstone: deleted, expired or rotated away
	Gen    Gen
	Ver    uint64

	Created   int64 // wall clock of the maker, Unix milliseconds; information only
	Group     string
	Principal string
	Attrs     []*Attr // sorted by name
	Ops       []Op    // oldest first
	Rotated   ID      // tombstone of a rotation: the new id
	attrSum   uint64
	size      int
	dead      int // how many attributes are
}

// Version returns the record's place in the order of its session's states.
func (r *Record) Version() Version { return Version{r.Gen, r.Ver} }

// Attr returns the living attribute of that name, or nil.
func (r *Record) Attr(name string) *Attr {
	if i, ok := r.find(name); ok && !r.Attrs[i].Dead {
		return r.Attrs[i]
	}
	return nil
}

func (r *Record) find(name string) (int, bool) {
	return find(r.Attrs, name)
}

func find(attrs []*Attr, name string) (int, bool) {
	return slices.BinarySearchFunc(attrs, name, func(a *Attr, n string) int { return strings.Compare(a.Name, n) })
}

// Size returns the bytes that count against session.max_size: names, values
// and content types of the living attributes.
func (r *Record) Size() int { return r.size }

// Sum returns the checksum of all that copies must agree on: everything but
// deadlines and remembered operations.
func (r *Record) Sum() uint64 {
	var b [64]byte
	binary.LittleEndian.PutUint64(b[0:], r.attrSum)
	binary.LittleEndian.PutUint64(b[8:], r.Gen.Re)
	binary.LittleEndian.PutUint32(b[16:], r.Gen.Detach)
	binary.LittleEndian.PutUint32(b[20:], uint32(r.Gen.Num))
	binary.LittleEndian.PutUint64(b[24:], r.Ver)
	binary.LittleEndian.PutUint64(b[32:], uint64(r.TTL))
	binary.LittleEndian.PutUint64(b[40:], uint64(r.MaxAge))
	if r.Dead {
		b[48] = 1
	}
	h := xxhash.Sum64(b[:])
	for _, s := range [...]string{string(r.ID), r.Group, r.Principal, string(r.Rotated)} {
		h = bits.RotateLeft64(h, 17) ^ xxhash.Sum64String(s)
	}
	return h
}

// seal computes what is derived from the attributes.
func (r *Record) seal() {
	r.attrSum, r.size, r.dead = 0, 0, 0
	for _, a := range r.Attrs {
		r.count(a, +1)
	}
}

// count adds to what is derived, or with -1 takes off it, what a is worth.
func (r *Record) count(a *Attr, by int) {
	r.attrSum += uint64(by) * a.sum
	if a.Dead {
		r.dead += by
	} else {
		r.size += by * a.size()
	}
}

func (a *Attr) size() int { return len(a.Name) + len(a.Value) + len(a.Type) }

// with returns the attributes of r with those of set put in their place, and
// the changed sums. Dead ones are kept only where keepDead.
func (r *Record) with(set []*Attr, keepDead bool) {
	attrs := slices.Clone(r.Attrs)
	for _, a := range set {
		i, ok := find(attrs, a.Name)
		if ok {
			r.count(attrs[i], -1)
		}
		switch {
		case a.Dead && !keepDead:
			if ok {
				attrs = slices.Delete(attrs, i, i+1)
			}
			continue
		case ok:
			attrs[i] = a
		default:
			attrs = slices.Insert(attrs, i, a)
		}
		r.count(a, +1)
	}
	r.Attrs = attrs
}

// remember returns ops with op after them. Those that need not be remembered any
// more at time now are dropped when there is no room left: a session that is
// written often so pays for copying them once in a while, not with each write.
//
// The result may share memory with ops, behind its end. A state of a session is
// followed by one other only; a change that was given up is never looked at
// again.
func remember(ops []Op, op Op, now int64) []Op {
	if len(ops) < cap(ops) {
		return append(ops, op)
	}
	out := make([]Op, 0, 2*len(ops)+2)
	if op.Auto {
		return append(pruneOps(out, ops, now, 0, 1), op)
	}
	return append(pruneOps(out, ops, now, 1, 0), op)
}

// pruneOps appends to out the operations that must be remembered at time now,
// in nanoseconds on the holder's clock, when as many of clients and of agents
// come after them as said.
func pruneOps(out, ops []Op, now int64, client, auto int) []Op {
	for i := range ops {
		if ops[i].Auto {
			auto++
		} else {
			client++
		}
	}
	for _, o := range ops {
		age := time.Duration(now - o.At)
		if o.Auto {
			if age <= OpsAuto && auto <= OpsAutoMax {
				out = append(out, o)
			}
			auto--
			continue
		}
		if client <= OpsMax && (age <= OpsAtLeast || client <= OpsKeep && age <= OpsAtMost) {
			out = append(out, o)
		}
		client--
	}
	return out
}

// FindOp returns the remembered operation of that id, or nil.
func (r *Record) FindOp(id OpID) *Op {
	for i := len(r.Ops) - 1; i >= 0; i-- {
		if r.Ops[i].ID == id {
			return &r.Ops[i]
		}
	}
	return nil
}
