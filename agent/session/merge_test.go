package session

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// merged is what Merge promises to be the same whatever the order: the content,
// the version, and the set of remembered operations.
func merged(r *Record) string {
	var b strings.Builder
	fmt.Fprintln(&b, r.Version(), r.Dead, r.Rotated, r.Created, r.TTL, r.MaxAge, r.Group, r.Principal, r.Sum())
	for _, a := range r.Attrs {
		fmt.Fprintf(&b, "%q %q %q %v %v\n", a.Name, a.Value, a.Type, a.Dead, a.Stamp)
	}
	ops := slices.Clone(r.Ops)
	slices.SortFunc(ops, func(x, y Op) int { return slices.Compare(x.ID[:], y.ID[:]) })
	for _, o := range ops {
		fmt.Fprintf(&b, "op %x %d %d %q %v\n", o.ID, o.Body, o.Ver, o.Value, o.Auto)
	}
	return b.String()
}

// genStates draws n states of one session as they can meet: one version has
// one content, since a generation has one owner, and one stamp on one
// attribute one value, since each writer's stamps rise.
func genStates(n int) *rapid.Generator[[]*Record] {
	return rapid.Custom(func(t *rapid.T) []*Record {
		out := make([]*Record, n)
		for i := range out {
			r := genRecord("s").Draw(t, "record")
			for _, o := range out[:i] {
				if o.Version() == r.Version() {
					r = o
				}
			}
			out[i] = r
		}
		return out
	})
}

func TestMerge_laws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := genStates(3).Draw(t, "states")
		a, b, c := s[0], s[1], s[2]
		m := func(x, y *Record) *Record { r, _ := Merge(x, y); return r }
		if got, want := merged(m(b, a)), merged(m(a, b)); got != want {
			t.Fatalf("not commutative:\n%s\n%s", got, want)
		}
		if got, want := merged(m(m(a, b), c)), merged(m(a, m(b, c))); got != want {
			t.Fatalf("not associative:\n%s\n%s", got, want)
		}
		if got := merged(m(a, a)); got != merged(a) {
			t.Fatalf("not idempotent:\n%s\n%s", got, merged(a))
		}
		ab := m(a, b)
		if got := merged(m(ab, b)); got != merged(ab) {
			t.Fatalf("merging again changed it:\n%s\n%s", got, merged(ab))
		}
		if (a.Dead || b.Dead) != ab.Dead || ab.Dead && len(ab.Attrs) > 0 {
			t.Fatal("a tombstone must absorb everything")
		}
		if _, x := Merge(a, b); x != 0 {
			if _, y := Merge(b, a); x != y {
				t.Fatalf("%d conflicts one way, %d the other", x, y)
			}
		}
		checkDerived(t, ab)
	})
}

func TestMerge_nil(t *testing.T) {
	t.Parallel()
	r := &Record{ID: "s"}
	if m, n := Merge(nil, r); m != r || n != 0 {
		t.Error("nil must be the neutral element on the left")
	}
	if m, n := Merge(r, nil); m != r || n != 0 {
		t.Error("nil must be the neutral element on the right")
	}
}

func TestMerge_picksTheHigherStampOfEachAttribute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := genStates(2).Draw(t, "states")
		a, b := s[0], s[1]
		if a.Dead || b.Dead {
			return
		}
		m, conflicts := Merge(a, b)
		want := map[string]*Attr{}
		differ := 0
		for _, x := range append(slices.Clone(a.Attrs), b.Attrs...) {
			old, ok := want[x.Name]
			if ok && old.sum != x.sum {
				differ++
			}
			if !ok || x.Stamp.Compare(old.Stamp) > 0 || x.Stamp == old.Stamp && x.sum > old.sum {
				want[x.Name] = x
			}
		}
		if len(m.Attrs) != len(want) {
			t.Fatalf("%d attributes, want %d", len(m.Attrs), len(want))
		}
		for _, x := range m.Attrs {
			if !reflect.DeepEqual(x, want[x.Name]) {
				t.Fatalf("%q: got %+v, want %+v", x.Name, x, want[x.Name])
			}
		}
		if conflicts != differ {
			t.Fatalf("%d conflicts, want %d", conflicts, differ)
		}
	})
}

// TestMerge_changesNoInput: records are immutable once made.
func TestMerge_changesNoInput(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := genStates(2).Draw(t, "states")
		a, b := merged(s[0]), merged(s[1])
		Merge(s[0], s[1])
		if merged(s[0]) != a || merged(s[1]) != b {
			t.Fatal("an input was changed")
		}
	})
}

// checkDerived compares what a record carries along with what its attributes
// say.
func checkDerived(t *rapid.T, r *Record) {
	n := *r
	n.seal()
	if n.attrSum != r.attrSum || n.size != r.size {
		t.Fatalf("derived values are off: sum %x size %d, want %x and %d", r.attrSum, r.size, n.attrSum, n.size)
	}
	if !slices.IsSortedFunc(r.Attrs, func(a, b *Attr) int { return strings.Compare(a.Name, b.Name) }) {
		t.Fatal("attributes out of order")
	}
}

// TestMergeOps_thousands: sessions that were written often on two sides are
// merged without comparing each operation with all others.
func TestMergeOps_thousands(t *testing.T) {
	t.Parallel()
	const n = 4096
	var a, b []Op
	for i := range n {
		a = append(a, Op{ID: opID(i), Ver: 2, At: testNow + int64(i)})
		b = append(b, Op{ID: opID(i + n/2), Ver: 1, At: testNow + int64(i+n/2)})
	}
	out := mergeOps(a, b)
	if len(out) != n+n/2 {
		t.Fatalf("%d operations", len(out))
	}
	for i, o := range out {
		want := uint64(2)
		if i >= n/2 {
			want = 1 // of both, what was answered first
		}
		if o.ID != opID(i) || o.Ver != want {
			t.Fatalf("operation %d: %+v", i, o)
		}
	}
}
