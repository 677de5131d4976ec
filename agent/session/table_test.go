package session

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rondel-project/rondel/agent/ring"
)

// shadow is a Table written the slow and obvious way: one list, least recently
// used first.
type shadow struct {
	list []*shadowEntry
	tomb time.Duration
}

type shadowEntry struct {
	slot           ring.Slot
	rec            *Record
	born, deadline int64
	unsettled      bool
}

func (s *shadow) find(h ring.Slot, id ID) int {
	return slices.IndexFunc(s.list, func(e *shadowEntry) bool { return e.slot == h && e.rec.ID == id })
}

func (s *shadow) put(h ring.Slot, rec *Record, now int64, age, left time.Duration) {
	e := &shadowEntry{slot: h, born: now - int64(age)}
	lived := false
	if i := s.find(h, rec.ID); i >= 0 {
		e = s.list[i]
		e.born = min(e.born, now-int64(age))
		lived = !e.rec.Dead && !rec.Dead
		s.list = slices.Delete(s.list, i, i+1)
	}
	e.rec = rec
	s.list = append(s.list, e)
	if left == 0 && rec.Dead {
		left = s.tomb
	}
	switch {
	case left > 0 && lived:
		e.deadline = max(e.deadline, now+int64(left))
	case left > 0:
		e.deadline = now + int64(left)
	case rec.TTL == 0:
		e.deadline = 0
	case e.deadline == 0:
		e.deadline = now + int64(rec.TTL)
	}
}

func (e *shadowEntry) ends() int64 {
	at := e.deadline
	if m := e.born + int64(e.rec.MaxAge); e.rec.MaxAge > 0 && !e.rec.Dead && (at == 0 || m < at) {
		at = m
	}
	return at
}

func (s *shadow) of(h ring.Slot) (out []*shadowEntry) {
	for _, e := range s.list {
		if e.slot == h {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b *shadowEntry) int { // tombstones first
		switch {
		case a.rec.Dead == b.rec.Dead:
			return 0
		case a.rec.Dead:
			return -1
		}
		return 1
	})
	return out
}

func TestTable_againstAnObviousOne(t *testing.T) {
	t.Parallel()
	ids := make([]ID, 6)
	for i := range ids {
		ids[i] = ID(fmt.Sprint("session", i))
	}
	rapid.Check(t, func(t *rapid.T) {
		tab, sh := NewTable(time.Minute), &shadow{tomb: time.Minute}
		now := testNow
		pick := func() (ring.Slot, ID, *Entry, *shadowEntry) {
			h, id := ring.Slot(rapid.IntRange(0, 1).Draw(t, "slot")), rapid.SampledFrom(ids).Draw(t, "id")
			if i := sh.find(h, id); i >= 0 {
				return h, id, tab.Get(h, id), sh.list[i]
			}
			return h, id, tab.Get(h, id), nil
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			h, id, e, se := pick()
			if (e == nil) != (se == nil) {
				t.Fatalf("Get(%d, %s) = %v", h, id, e)
			}
			switch op := rapid.IntRange(0, 9).Draw(t, "step"); {
			case op < 4:
				rec := genRecord(id).Draw(t, "record")
				age := time.Duration(rapid.IntRange(0, 100).Draw(t, "age")) * time.Second
				left := time.Duration(rapid.SampledFrom([]int{0, 0, 1, 50, 300}).Draw(t, "left")) * time.Second
				tab.Put(h, rec, now, age, left)
				sh.put(h, rec, now, age, left)
			case op == 4 && e != nil:
				tab.Remove(e)
				tab.Remove(e) // twice does no harm
				sh.list = slices.Delete(sh.list, sh.find(h, id), sh.find(h, id)+1)
			case op == 5 && e != nil:
				tab.Use(e, now)
				i := sh.find(h, id)
				sh.list = append(slices.Delete(sh.list, i, i+1), se)
				if se.rec.TTL > 0 && !se.rec.Dead {
					se.deadline = max(se.deadline, now+int64(se.rec.TTL))
				}
			case op == 6 && e != nil:
				at := now + int64(rapid.IntRange(0, 400).Draw(t, "extend"))*int64(time.Second)
				tab.Extend(e, at)
				if se.deadline != 0 {
					se.deadline = max(se.deadline, at)
				}
			case op == 7 && e != nil:
				se.unsettled = rapid.Bool().Draw(t, "unsettled")
				tab.Settle(e, !se.unsettled)
			case op == 8:
				if rapid.IntRange(0, 4).Draw(t, "clear") == 0 {
					tab.Clear(h)
					sh.list = slices.DeleteFunc(sh.list, func(e *shadowEntry) bool { return e.slot == h })
				}
			default:
				now += 1 + int64(rapid.SampledFrom([]int{0, 1, 30, 200, 4000}).Draw(t, "wait"))*int64(time.Second)
				expire(t, tab, sh, now)
			}
			compareTables(t, tab, sh)
		}
	})
}

// expire takes out of both tables what has ended, or only looks at it, and
// fails when anything came early, late or twice.
func expire(t *rapid.T, tab *Table, sh *shadow, now int64) {
	remove := rapid.Bool().Draw(t, "remove")
	limit := rapid.SampledFrom([]int{1, 100}).Draw(t, "limit")
	seen := map[*Entry]bool{}
	tab.Ended(now, limit, func(e *Entry) int64 {
		i := sh.find(e.Slot(), e.Rec.ID)
		if at := sh.list[i].ends(); at == 0 || at > now {
			t.Fatalf("%s ends at %d, called at %d", e.Rec.ID, at, now)
		}
		if seen[e] {
			t.Fatal("called twice")
		}
		seen[e] = true
		if remove {
			tab.Remove(e)
			sh.list = slices.Delete(sh.list, i, i+1)
			return 0
		}
		return now + 1
	})
	due := 0
	for _, e := range sh.list {
		if at := e.ends(); at != 0 && at <= now {
			due++
		}
	}
	if remove && limit > len(seen) && due > 0 {
		t.Fatalf("%d are due and were not called", due)
	}
	if !remove && len(seen) != min(due, limit) {
		t.Fatalf("%d were called, %d are due", len(seen), due)
	}
}

func compareTables(t *rapid.T, tab *Table, sh *shadow) {
	live, total, unsettled := 0, len(sh.list), 0
	var bytes int64
	for _, e := range sh.list {
		bytes += int64(e.rec.Size())
		if !e.rec.Dead {
			live++
		}
		if e.unsettled {
			unsettled++
		}
	}
	if l, n, b := tab.Total(); l != live || n != total || b != bytes || tab.Unsettled() != unsettled {
		t.Fatalf("Total = %d, %d, %d and %d unsettled, want %d, %d, %d and %d", l, n, b, tab.Unsettled(), live, total, bytes, unsettled)
	}
	for h := range ring.Slot(2) {
		want := sh.of(h)
		i := 0
		tab.Each(h, func(e *Entry) bool {
			if i >= len(want) || e.Rec != want[i].rec || e.Born != want[i].born || e.Deadline != want[i].deadline || e.Unsettled != want[i].unsettled || e.Slot() != h {
				t.Fatalf("slot %d, place %d: %+v", h, i, e)
			}
			if at, ok := e.Ends(); ok != (want[i].ends() != 0) || ok && at != want[i].ends() {
				t.Fatalf("ends at %d, want %d", at, want[i].ends())
			}
			i++
			return true
		})
		if i != len(want) || tab.Count(h) != i {
			t.Fatalf("slot %d: %d records seen, %d counted, want %d", h, i, tab.Count(h), len(want))
		}
		alive := slices.DeleteFunc(slices.Clone(want), func(e *shadowEntry) bool { return e.rec.Dead })
		if tab.Live(h) != len(alive) {
			t.Fatalf("slot %d: %d living, want %d", h, tab.Live(h), len(alive))
		}
		var oldest *Entry
		tab.EachLiving(h, func(e *Entry) bool { oldest = e; return false })
		if (oldest == nil) != (len(alive) == 0) || oldest != nil && oldest.Rec != alive[0].rec {
			t.Fatal("EachLiving does not begin with the least recently used")
		}
		if o := tab.Newest(h); (o == nil) != (len(alive) == 0) || o != nil && o.Rec != alive[len(alive)-1].rec {
			t.Fatal("Newest is not the most recently used")
		}
		// The same records put in another order, once each, give the same sums.
		other := NewTable(time.Hour)
		for _, e := range slices.Backward(want) {
			other.Put(h, e.rec, 5, 0, time.Second)
		}
		if other.BucketSums(h) != tab.BucketSums(h) || other.Sum(h) != tab.Sum(h) {
			t.Fatalf("slot %d: sums depend on order or deadlines", h)
		}
	}
}

// TestTable_aDifferenceShowsInItsBucket: one record changed, one bucket and the
// slot's sum differ.
func TestTable_aDifferenceShowsInItsBucket(t *testing.T) {
	t.Parallel()
	a, b := NewTable(0), NewTable(0)
	for i := range 200 {
		r := &Record{ID: ID(fmt.Sprint(i)), Ver: 1}
		a.Put(0, r, 0, 0, 0)
		if i == 77 {
			r = r.Restamp(Version{Ver: 2})
		}
		b.Put(0, r, 0, 0, 0)
	}
	x, y := a.BucketSums(0), b.BucketSums(0)
	for i := range x {
		if (x[i] != y[i]) != (i == Bucket("77")) {
			t.Errorf("bucket %d differs: %v", i, x[i] != y[i])
		}
	}
	if a.Sum(0) == b.Sum(0) {
		t.Error("the slot's sums are equal")
	}
}

// TestTable_tombstoneOutlivesItsSession: a session that ends by its age, or is
// deleted shortly before, leaves a tombstone for the full time.
func TestTable_tombstoneOutlivesItsSession(t *testing.T) {
	t.Parallel()
	tab := NewTable(2 * time.Hour)
	rec := &Record{ID: "s", TTL: time.Hour, MaxAge: time.Hour}
	tab.Put(0, rec, testNow, 59*time.Minute, 0)
	dead := *rec
	dead.Dead, dead.Ver = true, 2
	e := tab.Put(0, &dead, testNow, 0, 0)
	if at, ok := e.Ends(); !ok || at != testNow+int64(2*time.Hour) {
		t.Errorf("the tombstone ends after %v, want 2h", time.Duration(at-testNow))
	}
}

// TestTable_removedEntriesLeaveNothing: slots that come and go must not pile
// up what the expiry heap still points to.
func TestTable_removedEntriesLeaveNothing(t *testing.T) {
	t.Parallel()
	tab := NewTable(time.Hour)
	for range 100 {
		for i := range 100 {
			tab.Put(1, &Record{ID: ID(fmt.Sprint(i)), TTL: time.Hour}, 0, 0, 0)
		}
		tab.Clear(1)
	}
	if len(tab.wakes) > 200 {
		t.Errorf("%d wakes for an empty table", len(tab.wakes))
	}
}

func TestTable_forgetDropsOldOperationsOnly(t *testing.T) {
	t.Parallel()
	tab := NewTable(time.Hour)
	rec := &Record{ID: "s", Ops: []Op{{ID: opID(1), At: 0, Auto: true}, {ID: opID(2), At: 0}}}
	e := tab.Put(0, rec, 0, 0, 0)
	sum := tab.Sum(0)
	tab.Forget(0, int64(time.Second))
	if len(e.Rec.Ops) != 2 {
		t.Error("forgotten too early")
	}
	tab.Forget(0, int64(time.Minute))
	if len(e.Rec.Ops) != 1 || e.Rec.Ops[0].ID != opID(2) || len(rec.Ops) != 2 || tab.Sum(0) != sum {
		t.Errorf("%d left, want the client's own", len(e.Rec.Ops))
	}
	tab.Forget(0, int64(11*time.Minute))
	if e.Rec.Ops != nil {
		t.Errorf("%d operations after 11 minutes", len(e.Rec.Ops))
	}
}

func TestTable_forgetLooksAtThoseThatRememberAlone(t *testing.T) {
	t.Parallel()
	tab := NewTable(time.Hour)
	mindful := func(h ring.Slot) int { return len(tab.slots[h].mindful) }
	op := func(id ID, at time.Duration) *Record {
		return &Record{ID: id, Ops: []Op{{ID: opID(1), At: int64(at), Auto: true}}}
	}
	tab.Put(0, &Record{ID: "plain"}, 0, 0, 0)
	gone := tab.Put(0, op("gone", 0), 0, 0, 0)
	old := tab.Put(0, op("old", 0), 0, 0, 0)
	tab.Put(0, op("old", 0), 0, 0, 0) // listed once
	late := tab.Put(0, op("late", time.Minute), 0, 0, 0)
	tab.Put(1, op("elsewhere", 0), 0, 0, 0)
	tab.Remove(gone)
	tab.Forget(0, int64(time.Minute))
	if mindful(0) != 1 || old.Rec.Ops != nil || len(late.Rec.Ops) != 1 || mindful(1) != 1 {
		t.Errorf("%d remember in one slot, %d in the other", mindful(0), mindful(1))
	}
	tab.Forget(0, int64(time.Hour))
	if late.Rec.Ops != nil || tab.slots[0].mindful != nil {
		t.Errorf("%d remember after an hour", mindful(0))
	}
	tab.Put(0, op("late", time.Hour), int64(time.Hour), 0, 0) // and again
	if mindful(0) != 1 {
		t.Errorf("%d remember once one was written again", mindful(0))
	}
	tab.Clear(0)
	tab.Forget(0, int64(time.Hour))
	if mindful(0) != 0 {
		t.Errorf("%d remember in an empty slot", mindful(0))
	}
}

// BenchmarkTable_memory reports what an idle session of 1 KiB costs.
func BenchmarkTable_memory(b *testing.B) {
	for b.Loop() {
		const n = 50_000
		k := NewKeyring(testKeys(1))
		rng := rand.New(rand.NewPCG(1, 2))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		tab := NewTable(time.Hour)
		for i := range n {
			h := ring.Slot(rng.IntN(ring.Slots))
			id := k.Mint(h, time.Unix(1_800_000_000, 0))
			v := make([]byte, 1020)
			for j := range v {
				v[j] = byte('a' + (i+j)%26)
			}
			req := &Request{Kind: Patch, ID: id, Attrs: []Attr{{Name: string([]byte("cart")), Value: v}}, Op: opID(i), AutoOp: true}
			c, _ := Apply(nil, req, testEnv())
			tab.Put(h, c.Next, testNow, 0, 0)
			tab.Forget(h, testNow+int64(time.Hour))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "bytes/session")
		runtime.KeepAlive(tab)
	}
}

// BenchmarkApply_hotSession writes to one session as fast as it goes, each
// write with an operation id made by an agent: what is remembered of them must
// not make each write dearer.
func BenchmarkApply_hotSession(b *testing.B) {
	var rec *Record
	env, i := testEnv(), 0
	for b.Loop() {
		env.Now += int64(200 * time.Microsecond)
		i++
		c, _ := Apply(rec, &Request{Kind: Patch, ID: "s", Attrs: []Attr{jsonAttr("a", "1")}, Op: opID(i), AutoOp: true}, env)
		rec = c.Next
	}
}
