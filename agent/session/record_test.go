package session

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestVersion_isATotalOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := genVersion.Draw(t, "a"), genVersion.Draw(t, "b"), genVersion.Draw(t, "c")
		if a.Compare(b) != -b.Compare(a) || (a.Compare(b) == 0) != (a == b) {
			t.Fatalf("%v and %v: %d, %d", a, b, a.Compare(b), b.Compare(a))
		}
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
			t.Fatalf("%v ≤ %v ≤ %v, yet not %[1]v ≤ %[3]v", a, b, c)
		}
		if a.Gen.Re != b.Gen.Re && a.Compare(b) != a.Gen.Compare(Gen{Re: b.Gen.Re, Detach: b.Gen.Detach, Num: b.Gen.Num}) {
			t.Fatal("the generation comes first")
		}
		if a.Gen == b.Gen && (a.Ver < b.Ver) != (a.Compare(b) < 0) {
			t.Fatal("within a generation the count decides")
		}
	})
}

func TestVersion_text(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := genVersion.Draw(t, "version")
		got, err := ParseVersion(v.String())
		if err != nil || got != v {
			t.Fatalf("%v came back as %v, %v", v, got, err)
		}
	})
	for _, bad := range []string{"", "-", "1", "1-", "-1", "1.2-3", "1.2.3.4-5", "a-1", "1-b", "1.-1.0-2", "1.4294967296.0-2", "18446744073709551616-1", " 1-1", "1-1 "} {
		if v, err := ParseVersion(bad); err == nil {
			t.Errorf("ParseVersion(%q) = %v, want an error", bad, v)
		}
	}
}

func TestSum_ignoresDeadlinesAndOperations(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := genRecord("s").Draw(t, "record")
		n := *r
		n.Ops, n.Created = genOps.Draw(t, "ops"), n.Created+5
		if n.Sum() != r.Sum() || !SameContent(&n, r) {
			t.Fatal("operations must not count")
		}
		v := genVersion.Draw(t, "other")
		if m := r.Restamp(v); (m.Sum() == r.Sum()) != (v == r.Version()) || !SameContent(m, r) {
			t.Fatal("the version counts in Sum, not in SameContent")
		}
		if r.Dead {
			return
		}
		n = *r
		set := genAttr.Draw(t, "set")
		n.with([]*Attr{set}, true)
		anew := n
		if anew.seal(); anew.attrSum != n.attrSum || anew.size != n.size || anew.dead != n.dead {
			t.Fatalf("changed %+v, worked out anew %+v", n, anew)
		}
		i, was := r.find(set.Name)
		same := was && r.Attrs[i].sum == set.sum
		if (n.Sum() == r.Sum()) != same || SameContent(&n, r) != same {
			t.Fatal("every attribute counts")
		}
		n = *r
		n.Dead = true
		if n.Sum() == r.Sum() || SameContent(&n, r) {
			t.Fatal("death counts")
		}
		n = *r
		n.Principal += "x"
		if n.Sum() == r.Sum() {
			t.Fatal("the principal counts")
		}
	})
}

func TestNewAttr_fieldsDoNotRunIntoEachOther(t *testing.T) {
	t.Parallel()
	seen := map[uint64]int{}
	for i, a := range []*Attr{
		NewAttr("ab", []byte("c"), "", false, Stamp{}), NewAttr("a", []byte("bc"), "", false, Stamp{}),
		NewAttr("a", []byte("c"), "b", false, Stamp{}), NewAttr("", []byte("abc"), "", false, Stamp{}),
		NewAttr("", nil, "", true, Stamp{}), NewAttr("", nil, "", false, Stamp{}),
		NewAttr("", nil, "", false, Stamp{HLC: 1}), NewAttr("", nil, "", false, Stamp{Num: 1}),
	} {
		if k, ok := seen[a.sum]; ok {
			t.Errorf("attributes %d and %d have one checksum", k, i)
		}
		seen[a.sum] = i
	}
}

// TestPruneOps_window adds operations at random times and compares what is
// remembered with the rule as written: the last 32 and all of the last 30 s,
// at most OpsMax, none older than 10 minutes; the agents' own for 10 s. Between two
// prunings a record may remember more, and never twice as much.
func TestPruneOps_window(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := testNow
		rec := &Record{ID: "s", TTL: time.Hour}
		rec.seal()
		var all []Op
		steps := rapid.IntRange(1, 60).Draw(t, "steps")
		burst := rapid.SampledFrom([]int{1, 1, 8, 40}).Draw(t, "burst")
		for range steps {
			now += int64(rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, 9 * time.Second, 29 * time.Second, 5 * time.Minute}).Draw(t, "pause"))
			auto := rapid.IntRange(0, 2).Draw(t, "auto") == 0
			for range burst {
				env := testEnv()
				env.Now = now
				req := &Request{Kind: Patch, ID: "s", Attrs: []Attr{jsonAttr("a", "1")}, Op: opID(len(all)), AutoOp: auto}
				rec, _ = apply2(t, rec, req, env)
				all = append(all, Op{ID: req.Op, At: now, Auto: auto})
			}
			checkOps(t, rec.Ops, all, now, false)
			if limit := 2 * (OpsMax + OpsAutoMax + 1); len(rec.Ops) > limit {
				t.Fatalf("%d operations are remembered, more than %d", len(rec.Ops), limit)
			}
		}
		now += int64(rapid.SampledFrom([]time.Duration{0, 10*time.Second + 1, 31 * time.Second, 10*time.Minute + 1}).Draw(t, "idle"))
		checkOps(t, pruneOps(nil, rec.Ops, now, 0, 0), all, now, true)
	})
}

func apply2(t *rapid.T, rec *Record, req *Request, env Env) (*Record, *Response) {
	c, resp := Apply(rec, req, env)
	if c == nil {
		t.Fatalf("refused: %+v", resp)
	}
	return c.Next, resp
}

// checkOps fails when an operation that must be remembered is not, or, exactly,
// when another one is.
func checkOps(t *rapid.T, kept, all []Op, now int64, exactly bool) {
	has := func(id OpID) bool { return slices.ContainsFunc(kept, func(o Op) bool { return o.ID == id }) }
	later, autos := 0, 0 // operations of clients and of agents after the one looked at
	for _, o := range slices.Backward(all) {
		age := time.Duration(now - o.At)
		if o.Auto {
			if must := age <= OpsAuto && autos < OpsAutoMax; has(o.ID) != must && (must || exactly) {
				t.Fatalf("an agent's operation of age %v with %d after it: kept %v, want %v", age, autos, has(o.ID), must)
			}
			autos++
			continue
		}
		must := later < OpsMax && age <= OpsAtMost && (later < OpsKeep || age <= OpsAtLeast)
		if has(o.ID) != must && (must || exactly) {
			t.Fatalf("operation of age %v with %d after it: kept %v, want %v", age, later, has(o.ID), must)
		}
		later++
	}
	if !slices.IsSortedFunc(kept, func(a, b Op) int { return int(a.At - b.At) }) {
		t.Fatal("not oldest first")
	}
}

// A client's key is remembered for OpsAtLeast, however much is written
// meanwhile: a request that was held up somewhere must not happen a second time.
func TestRemember_busySessionKeepsItsKeys(t *testing.T) {
	t.Parallel()
	const perSecond = 100
	var ops []Op
	now := int64(1e12)
	first := OpID{1, 2, 3}
	ops = remember(ops, Op{ID: first, At: now}, now)
	for i := range int(OpsAtLeast/time.Second) * perSecond {
		now += int64(time.Second) / perSecond
		ops = remember(ops, Op{ID: OpID{9, byte(i), byte(i >> 8)}, At: now}, now)
	}
	if (&Record{Ops: ops}).FindOp(first) == nil {
		t.Errorf("a key is forgotten after %v and %d other writes", OpsAtLeast, len(ops))
	}
}
