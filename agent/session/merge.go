package session

import (
	"cmp"
	"slices"
)

// Merge joins two states of one session that were written on two sides of a
// partition: per attribute the higher stamp wins, a tombstone absorbs
// everything, remembered operations are united. It is commutative, associative
// and idempotent on contents; the version is the higher of the two, and the
// caller stamps a new one where the result is neither. Of a named id, the state
// of the higher version counts as a whole, be it a tombstone or not.
//
// conflicts counts the attributes that both sides hold with different stamps
// and different contents.
func Merge(a, b *Record) (m *Record, conflicts int) {
	if a == nil {
		return b, 0
	}
	if b == nil {
		return a, 0
	}
	hi, lo := a, b
	if c := a.Version().Compare(b.Version()); c < 0 || c == 0 && a.Sum() < b.Sum() {
		hi, lo = b, a
	}
	n := *hi
	n.Ops = mergeOps(a.Ops, b.Ops)
	if n.ID.Named() {
		return &n, 0
	}
	n.Created = min(a.Created, b.Created)
	if a.Dead || b.Dead {
		n.Dead, n.Attrs, n.Group, n.Principal = true, nil, "", ""
		n.Rotated = max(a.Rotated, b.Rotated)
		n.seal()
		return &n, 0
	}
	n.Attrs = slices.Clone(hi.Attrs)
	for _, y := range lo.Attrs {
		i, ok := find(n.Attrs, y.Name)
		if !ok {
			n.Attrs = slices.Insert(n.Attrs, i, y)
			continue
		}
		x := n.Attrs[i]
		if x.sum == y.sum {
			continue
		}
		conflicts++
		if c := y.Stamp.Compare(x.Stamp); c > 0 || c == 0 && y.sum > x.sum {
			n.Attrs[i] = y
		}
	}
	n.seal()
	return &n, conflicts
}

// Restamp returns r under another version.
func (r *Record) Restamp(v Version) *Record {
	n := *r
	n.Gen, n.Ver = v.Gen, v.Ver
	return &n
}

// SameContent reports whether two records differ at most in version, deadlines
// and remembered operations.
func SameContent(a, b *Record) bool {
	return a.Dead == b.Dead && a.Rotated == b.Rotated && a.attrSum == b.attrSum && len(a.Attrs) == len(b.Attrs)
}

// mergeOps unites two lists of remembered operations. Of one that both sides
// did, the earlier version is the answer that was given first.
func mergeOps(a, b []Op) []Op {
	if len(a) == 0 {
		return b
	}
	out := slices.Clone(a)
	at := make(map[OpID]int, len(a)) // there may be thousands on each side
	for i := range a {
		at[a[i].ID] = i
	}
	for _, o := range b {
		if i, ok := at[o.ID]; !ok {
			at[o.ID] = len(out)
			out = append(out, o)
		} else if o.compare(&out[i]) < 0 {
			out[i] = o
		}
	}
	slices.SortFunc(out, func(x, y Op) int { return cmp.Or(cmp.Compare(x.At, y.At), slices.Compare(x.ID[:], y.ID[:])) })
	return out
}

// compare orders what two sides remember of one operation.
func (o *Op) compare(p *Op) int {
	auto := func(o *Op) int {
		if o.Auto {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(o.Ver, p.Ver), cmp.Compare(o.Body, p.Body), slices.Compare(o.Value, p.Value),
		cmp.Compare(auto(o), auto(p)), cmp.Compare(p.At, o.At))
}
