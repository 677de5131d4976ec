package ring

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rondel-project/rondel/agent/member"
)

func candidacy(i int) Candidacy {
	var b [16]byte
	b[15] = byte(i)
	return Candidacy{
		ID: member.IDFromBytes(b), Name: fmt.Sprintf("m%02d", i),
		Addr: fmt.Sprintf("10.0.0.%d:8702", i), Boot: member.Boot{byte(i), 1},
	}
}

// world is a table with the members of a make-believe cluster around it: who
// is alive, and under which boot.
type world struct {
	t       testing.TB
	table   *Table
	old     []*Table // earlier ones
	seen    Observed
	boots   map[int]byte
	highest member.Number
}

func newWorld(t testing.TB, members int, s Settings) *world {
	w := &world{t: t, table: &Table{}, boots: make(map[int]byte)}
	d := NewDraft(w.table)
	var list []Candidacy
	for i := range members {
		list = append(list, candidacy(i+1))
		w.boots[i+1] = 1
	}
	d.First([16]byte{1}, s, []Key{{ID: 1}}, list)
	w.apply(d)
	for h := range w.seen.Slots {
		w.seen.Slots[h] = SlotView{Open: true, Empty: true, Idle: true, Stable: true}
	}
	return w
}

func (w *world) num(i int) member.Number {
	if m := w.table.ByID(candidacy(i).ID); m != nil {
		return m.Num
	}
	return 0
}

// apply commits what a draft changed, through the codec, and checks what must
// hold of every change and every table.
func (w *world) apply(d *Draft) bool {
	w.t.Helper()
	c := d.Change()
	if c.Empty() {
		return false
	}
	raw := AppendChange(nil, c)
	back, err := DecodeChange(raw)
	if err != nil {
		w.t.Fatalf("decode change: %v", err)
	}
	if again := AppendChange(nil, back); !bytes.Equal(raw, again) {
		w.t.Fatal("a change changes on the way")
	}
	next, err := w.table.Apply(back, w.table.Epoch+3)
	if err != nil {
		w.t.Fatal(err)
	}
	w.checkStep(w.table, next)
	w.checkTable(next)
	w.old = append(w.old, w.table)
	w.table = next
	if len(w.old)%4 == 1 {
		w.checkCopies()
	}
	return true
}

func (w *world) checkStep(old, now *Table) {
	w.t.Helper()
	for h := range Slot(Slots) {
		a, b := &old.Slots[h], &now.Slots[h]
		moved := a.Owner != b.Owner || !slices.Equal(a.InSync, b.InSync)
		switch {
		case moved && (b.Re != a.Re+1 || b.PrevRe != a.Re):
			w.t.Fatalf("slot %d: re %d/%d after %d", h, b.Re, b.PrevRe, a.Re)
		case !moved && (b.Re != a.Re || b.PrevRe != a.PrevRe || b.Lost != a.Lost):
			w.t.Fatalf("slot %d: re changed without owner or set", h)
		}
		if b.Lost && moved {
			continue
		}
		kept := a.Re == 0
		for _, in := range b.InSync {
			kept = kept || slices.Contains(a.InSync, in)
		}
		if !kept {
			w.t.Fatalf("slot %d: %v took over from %v", h, b.InSync, a.InSync)
		}
		if a.Re != 0 && !slices.ContainsFunc(a.InSync, func(in Holder) bool { return in.Num == b.Owner }) &&
			!slices.ContainsFunc(a.Learners, func(l Holder) bool { return l.Num == b.Owner }) {
			w.t.Fatalf("slot %d: new owner %d held nothing", h, b.Owner)
		}
	}
	var before, after []member.Number
	for _, num := range old.Order {
		if now.Member(num) != nil {
			before = append(before, num)
		}
	}
	for _, num := range now.Order {
		if old.Member(num) != nil {
			after = append(after, num)
		}
	}
	if !slices.Equal(before, after) {
		w.t.Fatalf("order was %v, is %v", old.Order, now.Order)
	}
	for _, m := range now.Members {
		if old.Member(m.Num) == nil {
			if m.Num <= w.highest {
				w.t.Fatalf("number %d given again", m.Num)
			}
			w.highest = m.Num
		}
	}
}

func (w *world) checkTable(t *Table) {
	w.t.Helper()
	if len(t.Order) != len(t.Members) {
		w.t.Fatalf("order %v of %d members", t.Order, len(t.Members))
	}
	for h := range Slot(Slots) {
		s := &t.Slots[h]
		if s.Re == 0 {
			continue
		}
		if t.Member(s.Home) == nil {
			w.t.Fatalf("slot %d: home %d is no member", h, s.Home)
		}
		if _, ok := s.InSyncBoot(s.Owner); !ok {
			w.t.Fatalf("slot %d: owner %d not in %v", h, s.Owner, s.InSync)
		}
		runs := func(x Holder) bool {
			m := t.Member(x.Num)
			return m != nil && m.Boot == x.Boot && m.State != Down
		}
		running := 0
		for i, in := range s.InSync {
			if i > 0 && s.InSync[i-1].Num >= in.Num {
				w.t.Fatalf("slot %d: in sync %v", h, s.InSync)
			}
			if runs(in) {
				running++
			}
		}
		if boot, _ := s.InSyncBoot(s.Owner); running > 0 && (!runs(Holder{s.Owner, boot}) || running != len(s.InSync)) {
			w.t.Fatalf("slot %d: owner %d, in sync %v, %d of them run", h, s.Owner, s.InSync, running)
		}
		if (running == 0) != t.Stalled(h) {
			w.t.Fatalf("slot %d: stalled %v", h, t.Stalled(h))
		}
		for _, l := range s.Learners {
			if !runs(l) || s.InSyncHas(l) {
				w.t.Fatalf("slot %d: learner %v", h, l)
			}
		}
		if h%31 != 0 {
			continue
		}
		want := t.Want(h)
		if slow := obviousWant(t, h); !slices.Equal(want, slow) {
			w.t.Fatalf("slot %d: want %v, by the slow way %v", h, want, slow)
		}
	}
}

// obviousWant says who is wanted without any of the helpers.
func obviousWant(t *Table, h Slot) (out []member.Number) {
	s := t.Slots[h]
	var walk []Member
	at := slices.Index(t.Order, s.Home)
	for i := range t.Order {
		for _, m := range t.Members {
			if m.Num == t.Order[(max(at, 0)+i)%len(t.Order)] && !m.Witness {
				walk = append(walk, m)
			}
		}
	}
	if s.Swap && len(walk) >= 3 && walk[0].Num == s.Home {
		walk[1], walk[2] = walk[2], walk[1]
	}
	for _, m := range walk {
		if (m.State == Up || m.State == Joining) && !m.Drain && len(out) <= int(t.Settings.Replicas) {
			out = append(out, m.Num)
		}
	}
	for _, m := range walk {
		if len(out) == 0 && (m.State == Up || m.State == Joining) {
			out = append(out, m.Num)
		}
	}
	return out
}

// checkCopies checks that a copy kept by an earlier epoch is brought forward to
// the very table, also through the codec.
func (w *world) checkCopies() {
	w.t.Helper()
	for i := len(w.old) - 1; i >= 0 && i > len(w.old)-4; i-- {
		d, err := DecodeDelta(AppendDelta(nil, w.table.Since(w.old[i].Epoch)))
		if err != nil {
			w.t.Fatal(err)
		}
		got, err := w.old[i].Merge(d)
		if err != nil {
			w.t.Fatal(err)
		}
		w.same(got, w.table)
		if back, err := got.Merge(d); back != got || err != nil {
			w.t.Fatal("a delta merged twice changes something")
		}
	}
	got, err := DecodeTable(AppendTable(nil, w.table))
	if err != nil {
		w.t.Fatal(err)
	}
	if !reflect.DeepEqual(got, w.table) {
		w.t.Fatal("a table changes on the way")
	}
}

func (w *world) same(a, b *Table) {
	w.t.Helper()
	x, y := *a, *b
	x.membersChanged, y.membersChanged = 0, 0 // may be higher after a merge: more is told than needed
	if !reflect.DeepEqual(&x, &y) {
		w.t.Fatal("tables differ")
	}
}

// work runs the leader's standing rules and the members' answers until nothing
// changes any more.
func (w *world) work() {
	w.t.Helper()
	for range 400 {
		d := NewDraft(w.table)
		for h := range Slot(Slots) {
			s := &w.table.Slots[h]
			if len(s.Learners) == 0 || w.table.Stalled(h) {
				continue
			}
			from := Holder{s.Owner, w.table.Member(s.Owner).Boot}
			d.AddInSync(from, Candidate{h, s.Re, s.Learners[0]})
		}
		d.Homes(&w.seen)
		d.Learners(nil)
		d.Moves(&w.seen)
		d.Shrink(&w.seen)
		d.Retire()
		if !w.apply(d) {
			return
		}
	}
	w.t.Fatal("the rules never come to rest")
}

func (w *world) homes() map[member.Number]int {
	n := make(map[member.Number]int)
	for h := range w.table.Slots {
		n[w.table.Slots[h].Home]++
	}
	return n
}

func (w *world) owners() map[member.Number]int {
	n := make(map[member.Number]int)
	for h := range w.table.Slots {
		n[w.table.Slots[h].Owner]++
	}
	return n
}

// checkRest checks what holds when all has come to rest.
func (w *world) checkRest() {
	w.t.Helper()
	w.checkEven()
	for h := range Slot(Slots) {
		s, want := &w.table.Slots[h], w.table.Want(h)
		if w.table.Stalled(h) || len(want) == 0 {
			continue
		}
		if s.Owner != want[0] {
			w.t.Fatalf("slot %d: owner %d, wanted %v", h, s.Owner, want)
		}
		var in []member.Number
		for _, x := range s.InSync {
			if w.table.Member(x.Num).State != Stopping {
				in = append(in, x.Num)
			}
		}
		slices.Sort(want)
		if !slices.Equal(in, want) {
			w.t.Fatalf("slot %d: in sync %v, wanted %v", h, in, want)
		}
	}
}

func (w *world) checkEven() {
	w.t.Helper()
	homes := w.homes()
	lo, hi := Slots, 0
	for _, m := range w.table.Members {
		if m.State == Up && !m.Drain && !m.Witness {
			lo, hi = min(lo, homes[m.Num]), max(hi, homes[m.Num])
		}
	}
	if hi-lo > 1 && lo < Slots {
		w.t.Fatalf("homes %v", homes)
	}
	for num := range homes {
		var sides [2]int
		for h := range w.table.Slots {
			if s := &w.table.Slots[h]; s.Home == num && s.Swap {
				sides[1]++
			} else if s.Home == num {
				sides[0]++
			}
		}
		if d := sides[0] - sides[1]; w.table.Settings.Replicas == 2 && (d > 1 || d < -1) {
			w.t.Fatalf("slots of %d: %v to its successors", num, sides)
		}
	}
}

func TestDraft_anyHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		runHistory(rt, rapid.IntRange(1, 6).Draw(rt, "members"))
	})
}

// tb lets helpers that want a testing.TB fail a rapid check.
type tb struct {
	testing.TB
	rt *rapid.T
}

func (t tb) Helper()                   {}
func (t tb) Fatal(args ...any)         { t.rt.Fatal(args...) }
func (t tb) Fatalf(f string, a ...any) { t.rt.Fatalf(f, a...) }

func runHistory(rt *rapid.T, n int) {
	w := newWorld(tb{rt: rt}, n, Settings{Replicas: uint8(rapid.IntRange(0, 2).Draw(rt, "replicas")), MinCopies: 1})
	w.checkRest()
	drained := make(map[int]bool)
	for range rapid.IntRange(1, 12).Draw(rt, "steps") {
		i := rapid.IntRange(1, 8).Draw(rt, "who")
		num := w.num(i)
		d := NewDraft(w.table)
		switch rapid.SampledFrom([]string{"join", "down", "restart", "stop", "leave", "remove", "drain", "slow", "work", "reset", "new disk"}).Draw(rt, "what") {
		case "join":
			c := candidacy(i)
			if m := w.table.ByID(c.ID); m != nil {
				c.Boot = m.Boot
			}
			if w.table.ByName(c.Name) == nil || num != 0 {
				if err := d.Join(c); err != nil {
					rt.Fatal(err)
				}
			}
		case "restart":
			c := candidacy(i)
			w.boots[i]++
			c.Boot[1] = w.boots[i]
			if w.table.ByName(c.Name) == nil || num != 0 {
				if err := d.Join(c); err != nil {
					rt.Fatal(err)
				}
			}
		case "new disk":
			if m := w.table.ByName(candidacy(i).Name); m != nil {
				c := candidacy(i)
				w.boots[i]++
				var id [16]byte
				id[14], id[15] = w.boots[i], byte(i)
				c.ID, c.Boot[1] = member.IDFromBytes(id), w.boots[i]
				if err := d.Join(c); err != nil {
					rt.Fatal(err)
				}
			}
		case "down":
			d.Down(num)
		case "stop":
			d.Stop(num)
		case "leave":
			d.Leave(num)
		case "remove":
			d.Remove(num)
		case "drain":
			drained[i] = !drained[i]
			_ = d.Drain(num, drained[i])
		case "slow":
			d.DropSlow(num, w.num(1+i%8))
		case "reset":
			for h := range Slot(Slots) {
				d.Reset(h)
			}
		case "work":
			w.work()
			w.checkRest()
			continue
		}
		d.Learners(nil)
		w.apply(d)
	}
	w.work()
	w.checkRest()
}

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
	w.seen.Busy = true
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
				if !d.AddInSync(from, Candidate{h, s.Re, s.Learners[0]}) {
					t.Fatalf("slot %d: candidate refused", h)
				}
				if d.AddInSync(from, Candidate{h, s.Re + 1, s.Learners[0]}) {
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
	d := NewDraft(w.table)
	d.Down(2)
	w.apply(d)
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
