package ring

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rondel-project/rondel/agent/member"
)

func TestDraft_takeOverIsShared(t *testing.T) {
	t.Parallel()
	for n := 3; n <= 7; n++ {
		w := newWorld(t, n, Settings{Replicas: 2})
		before := w.owners()
		for lo, hi := range map[int]int{Slots / n: (Slots + n - 1) / n} {
			for num, k := range before {
				if k < lo || k > hi {
					t.Errorf("%d members: %d owns %d", n, num, k)
				}
			}
		}
		d := NewDraft(w.table)
		d.Down(1)
		w.apply(d)
		after := w.owners()
		a, b := after[2]-before[2], after[3]-before[3]
		if a+b != before[1] || a-b > 1 || b-a > 1 {
			t.Errorf("%d members: successors took over %d and %d of %d", n, a, b, before[1])
		}
	}
}

func TestDraft_newMemberMovesOnlyItsShare(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 9; n++ {
		w := newWorld(t, n, Settings{Replicas: 2})
		before := w.table
		d := NewDraft(w.table)
		if err := d.Join(candidacy(n + 1)); err != nil {
			t.Fatal(err)
		}
		w.apply(d)
		w.work()
		w.checkRest()
		moved := 0
		for h := range before.Slots {
			if before.Slots[h].Home != w.table.Slots[h].Home {
				moved++
			}
		}
		if moved != w.homes()[w.num(n+1)] {
			t.Errorf("%d members and one more: %d homes moved, it got %d", n, moved, w.homes()[w.num(n+1)])
		}
		if pos := w.table.Position(w.num(n + 1)); pos != n {
			t.Errorf("new member at position %d", pos)
		}
	}
}

func TestDraft_busySlotsStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Settings{Replicas: 2})
	for h := range w.seen.Slots {
		w.seen.Slots[h] = SlotView{Open: true, Stable: true, Empty: h%4 == 0}
	}
	d := NewDraft(w.table)
	if err := d.Join(candidacy(3)); err != nil {
		t.Fatal(err)
	}
	w.apply(d)
	w.work()
	for h := range w.table.Slots {
		if w.table.Slots[h].Home == 3 && h%4 != 0 {
			t.Fatalf("busy slot %d moved", h)
		}
	}
	if got := w.homes()[3]; got != Slots/4 {
		t.Errorf("new member has %d homes", got)
	}
	d = NewDraft(w.table)
	if moved := d.Rebalance(&w.seen); moved != Slots/3-Slots/4 {
		t.Fatalf("rebalance moves %d", moved)
	}
	w.apply(d)
	w.work()
	w.checkRest()
}

func TestDraft_movesAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, Settings{Replicas: 2})
	c := candidacy(1)
	c.Boot[1] = 9
	d := NewDraft(w.table)
	if err := d.Join(c); err != nil {
		t.Fatal(err)
	}
	d.Learners(nil)
	w.apply(d)
	if w.table.Member(1).State != Joining || w.owners()[1] != 0 {
		t.Fatalf("after a restart: %v, owns %d", w.table.Member(1).State, w.owners()[1])
	}
	for w.table.Member(1).State == Joining {
		d := NewDraft(w.table)
		for h := range Slot(Slots) {
			if s := &w.table.Slots[h]; len(s.Learners) > 0 {
				from := Holder{s.Owner, w.table.Member(s.Owner).Boot}
				if d.AddInSync(from, Candidate{h, s.Re, s.Changed, s.Learners[0]}) != VerdictTaken {
					t.Fatalf("slot %d: candidate refused", h)
				}
				if d.AddInSync(from, Candidate{h, s.Re + 1, s.Changed, s.Learners[0]}) == VerdictTaken {
					t.Fatalf("slot %d: candidate of another re taken", h)
				}
			}
		}
		d.Learners(nil)
		w.apply(d)
	}
	for h := range w.seen.Slots {
		w.seen.Slots[h] = SlotView{Open: true}
	}
	d = NewDraft(w.table)
	d.Moves(&w.seen)
	if w.apply(d) {
		t.Fatal("busy slots moved before they were stable")
	}
	for h := range w.seen.Slots {
		w.seen.Slots[h].Stable = true
	}
	d = NewDraft(w.table)
	d.Moves(&w.seen)
	w.apply(d)
	if got := w.owners()[1]; got != perMember {
		t.Errorf("%d slots on their way at once", got)
	}
	for h := range w.seen.Slots {
		w.seen.Slots[h].Open = w.table.Slots[h].Owner != 1
	}
	d = NewDraft(w.table)
	d.Moves(&w.seen)
	if w.apply(d) {
		t.Error("more moved while the first were not open")
	}
}

func TestDraft_lastCopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Settings{Replicas: 1})
	d := NewDraft(w.table)
	d.Down(1)
	w.apply(d)
	d = NewDraft(w.table)
	d.Down(2)
	w.apply(d)
	if !w.table.Stalled(0) || w.table.Slots[0].InSync[0].Num != 2 {
		t.Fatalf("slot 0: %+v", w.table.Slots[0])
	}
	d = NewDraft(w.table)
	if err := d.Join(candidacy(1)); err != nil { // back, but not the last to hold the slots
		t.Fatal(err)
	}
	w.apply(d)
	if !w.table.Stalled(0) {
		t.Fatal("served by a copy that had been dropped")
	}
	d = NewDraft(w.table)
	if err := d.Join(candidacy(2)); err != nil {
		t.Fatal(err)
	}
	w.apply(d)
	if w.table.Stalled(0) || w.table.Slots[0].Lost || w.table.Slots[0].Owner != 2 {
		t.Fatalf("slot 0: %+v", w.table.Slots[0])
	}
	d = NewDraft(w.table)
	c := candidacy(2)
	c.Boot = member.Boot{77}
	if err := d.Join(c); err != nil {
		t.Fatal(err)
	}
	w.apply(d)
	if s := w.table.Slots[0]; !s.Lost || w.table.Stalled(0) {
		t.Fatalf("slot 0: %+v", s)
	}
}

func TestDraft_refusedIsForGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, Settings{Replicas: 2})
	third := w.table.Member(3).Holder()
	from := w.table.Member(w.table.Slots[0].Owner).Holder()
	w.table.Slots[0].InSync = []Holder{from}
	w.table.Slots[0].Learners = []Holder{third}
	ask := func(c Candidate) Verdict { return NewDraft(w.table).AddInSync(from, c) }
	first := Candidate{0, w.table.Slots[0].Re, w.table.Slots[0].Changed, third}
	learners := func(set ...Holder) {
		d := NewDraft(w.table)
		d.setLearners(0, set)
		w.apply(d)
	}
	if v := ask(first); v != VerdictTaken {
		t.Fatalf("verdict %v", v)
	}
	learners()
	if v := ask(first); v != VerdictRefused {
		t.Errorf("verdict %v on one that is no learner any more", v)
	}
	learners(third)
	if v := ask(first); v != VerdictOpen {
		t.Errorf("verdict %v on what was refused before", v)
	}
	again := first
	again.Changed = w.table.Slots[0].Changed
	if v := ask(again); v != VerdictTaken {
		t.Errorf("verdict %v on the learner as it is now", v)
	}
	ahead := again
	ahead.Changed++
	if v := ask(ahead); v != VerdictOpen {
		t.Errorf("verdict %v of a leader whose table is the older one", v)
	}
	d := NewDraft(w.table)
	d.AddInSync(from, again)
	w.apply(d)
	if v := ask(again); v != VerdictOpen {
		t.Errorf("verdict %v on one that was taken: its owner must not go on without it", v)
	}
	d = NewDraft(w.table)
	d.Down(from.Num)
	if v := d.AddInSync(from, again); v != VerdictOpen {
		t.Errorf("verdict %v for an owner that is down", v)
	}
}

func TestDraft_nameConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, Settings{Replicas: 2})
	elsewhere := candidacy(2)
	elsewhere.Addr, elsewhere.Boot = "10.9.9.9:1", member.Boot{42}
	otherDisk := elsewhere
	otherDisk.ID = member.NewID()
	taken := candidacy(3)
	taken.Name = "m01"
	for what, c := range map[string]Candidacy{"same id": elsewhere, "same name": otherDisk, "name of another": taken} {
		if err := NewDraft(w.table).Join(c); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	for _, state := range []State{Joining, Up, Stopping, Leaving} {
		d := NewDraft(w.table)
		d.member(2).State = state
		if err := d.Join(elsewhere); !errors.Is(err, ErrNameConflict) {
			t.Errorf("another address while %v: %v", state, err)
		}
		here := elsewhere
		here.Addr = w.table.Member(2).Addr
		if err := d.Join(here); err != nil {
			t.Errorf("the same address while %v: %v", state, err)
		}
	}
	d := NewDraft(w.table)
	d.Down(2)
	w.apply(d)
	d = NewDraft(w.table)
	if err := d.Join(elsewhere); err != nil {
		t.Errorf("another address, when down: %v", err)
	}
	d = NewDraft(w.table)
	if err := d.Join(otherDisk); err != nil {
		t.Fatal(err)
	}
	w.apply(d)
	m := w.table.ByID(otherDisk.ID)
	if m.Num != 4 || w.table.Position(4) != 1 || w.homes()[4] == 0 {
		t.Errorf("new disk: number %d, position %d, homes %v", m.Num, w.table.Position(4), w.homes())
	}
}

func TestDivide(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(rt, "members")
		total := rapid.IntRange(1, 12).Draw(rt, "slots")
		all := make([]share, n)
		var at []int
		weights := 0
		for i := range all {
			all[i].weight = rapid.IntRange(1, 3).Draw(rt, "weight")
			all[i].current = rapid.IntRange(0, total).Draw(rt, "current")
			weights += all[i].weight
			at = append(at, i)
		}
		divide(all, at, total)
		kept, sum := 0, 0
		for _, s := range all {
			sum += s.target
			kept += min(s.target, s.current)
			if low := total * s.weight / weights; s.target < low || s.target > low+1 || s.target*weights-total*s.weight >= weights {
				rt.Fatalf("target %d of %d by weight %d of %d", s.target, total, s.weight, weights)
			}
		}
		if sum != total {
			rt.Fatalf("%d given out of %d", sum, total)
		}
		if best := bestKept(all, weights, total, total); kept != best {
			rt.Fatalf("keeps %d, could keep %d: %+v", kept, best, all)
		}
	})
}

// bestKept tries every fair division.
func bestKept(all []share, weights, total, left int) int {
	if len(all) == 0 {
		if left != 0 {
			return -1 << 20
		}
		return 0
	}
	low := total * all[0].weight / weights
	best := min(low, all[0].current) + bestKept(all[1:], weights, total, left-low)
	if low*weights != total*all[0].weight {
		best = max(best, min(low+1, all[0].current)+bestKept(all[1:], weights, total, left-low-1))
	}
	return best
}

func TestTable_staleAndGap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, Settings{Replicas: 2, ReapAfter: time.Minute})
	if _, err := w.table.Apply(&Change{Base: w.table.Epoch - 1, NextNum: 9}, 99); err == nil {
		t.Error("stale change applied")
	}
	if _, err := w.table.Apply(&Change{Base: w.table.Epoch, Slots: []SlotChange{{Slot: Slots}}}, 99); err == nil {
		t.Error("slot that is none applied")
	}
	if _, err := (&Table{}).Merge(w.table.Since(1)); err == nil {
		t.Error("gap merged over")
	}
}

func TestDraft_sameStoreTakesThePlaceOfTheRunBefore(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{true, false} {
		w := newWorld(t, 4, Settings{Replicas: 2, Disk: true})
		d := NewDraft(w.table)
		d.Store(w.num(2), Store{2})
		w.apply(d)
		before := w.table
		old := before.Member(w.num(2)).Holder()

		c := candidacy(2)
		c.Boot[1]++
		c.Store = Store{2}
		if !same {
			c.Store = Store{3}
		}
		d = NewDraft(w.table)
		if err := d.Join(c); err != nil {
			t.Fatal(err)
		}
		c2 := d.Change()
		next, err := w.table.Apply(c2, w.table.Epoch+1)
		if err != nil {
			t.Fatal(err)
		}
		run := next.Member(w.num(2)).Holder()
		for h := range Slot(Slots) {
			a, b := &before.Slots[h], &next.Slots[h]
			if b.InSyncHas(old) {
				t.Fatalf("slot %d: the run that ended is in sync", h)
			}
			if want := same && a.InSyncHas(old); b.InSyncHas(run) != want {
				t.Fatalf("same store %v, slot %d: the new run in sync: %v, want %v", same, h, !want, want)
			}
			if a.InSyncHas(old) && b.Re != a.Re+1 {
				t.Fatalf("slot %d: re %d after %d", h, b.Re, a.Re)
			}
		}
		if got := next.Member(w.num(2)).Store; got != c.Store {
			t.Errorf("the table names store %v, the member said %v", got, c.Store)
		}
	}
}

func TestDraft_lastCopyOnDiskIsTakenByWhoHeldIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4, Settings{Replicas: 2, Disk: true})
	h := Slot(0)
	set := w.table.Slots[h].InSync
	d := NewDraft(w.table)
	for _, x := range set {
		d.Down(x.Num) // one after the other: the last stays
	}
	w.apply(d)
	last := w.table.Slots[h].InSync
	if len(last) == 0 || !w.table.Stalled(h) {
		t.Fatalf("all copies are gone, and the set is %v", last)
	}
	// The last one returns, with a disk that is not whole: better than nothing.
	var i int
	for k := 1; k <= 4; k++ {
		if w.num(k) == last[len(last)-1].Num {
			i = k
		}
	}
	c := candidacy(i)
	c.Boot[1]++
	d = NewDraft(w.table)
	for _, x := range last[:len(last)-1] {
		d.Remove(x.Num)
	}
	if err := d.Join(c); err != nil {
		t.Fatal(err)
	}
	next, err := w.table.Apply(d.Change(), w.table.Epoch+1)
	if err != nil {
		t.Fatal(err)
	}
	if s := next.Slots[h]; s.Owner != w.num(i) || !s.Lost {
		t.Errorf("the slot went to %d, lost %v; member %d held it last", s.Owner, s.Lost, w.num(i))
	}
}
