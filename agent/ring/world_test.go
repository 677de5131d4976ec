package ring

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"

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
			d.AddInSync(from, Candidate{h, s.Re, s.Changed, s.Learners[0]})
		}
		d.Homes(&w.seen)
		d.Learners(nil)
		d.Moves(&w.seen)
		d.Shrink(&w.seen)
		d.Retire(nil)
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
	for h := range Slot(Slots) {
		if w.table.Stalled(h) {
			return // it is given to nobody
		}
	}
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
