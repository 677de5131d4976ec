package load

import (
	"testing"

	"pgregory.net/rapid"
)

func TestLedger_verdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		story func(*Ledger)
		want  Verdict
	}{
		"all is well": {func(l *Ledger) {
			l.Acked("tea", 1)
			l.Acked("tea", 2)
			l.Read(map[string]int{"tea": 2})
			l.Last(map[string]int{"tea": 2})
		}, Verdict{}},
		"a write is lost, seen by the next one": {func(l *Ledger) {
			l.Acked("tea", 1)
			l.Acked("tea", 2)
			l.Acked("tea", 2)
			l.Last(map[string]int{"tea": 2})
		}, Verdict{WritesLost: 1}},
		"a write is lost, seen at the end": {func(l *Ledger) {
			l.Acked("tea", 1)
			l.Acked("cup", 1)
			l.Last(map[string]int{"cup": 1})
		}, Verdict{WritesLost: 1}},
		"a write is applied twice, seen by its own answer": {func(l *Ledger) {
			l.Acked("tea", 2)
			l.Last(map[string]int{"tea": 2})
		}, Verdict{AppliedTwice: 1}},
		"a write is applied twice, seen by a read": {func(l *Ledger) {
			l.Acked("tea", 1)
			l.Read(map[string]int{"tea": 2})
			l.Last(map[string]int{"tea": 2})
		}, Verdict{AppliedTwice: 1}},
		"something nobody added": {func(l *Ledger) {
			l.Last(map[string]int{"pot": 1})
		}, Verdict{AppliedTwice: 1}},
		"one lost and one doubled do not cancel out": {func(l *Ledger) {
			l.Acked("tea", 1)
			l.Acked("tea", 1)
			l.Acked("tea", 3)
			l.Last(map[string]int{"tea": 3})
		}, Verdict{WritesLost: 1, AppliedTwice: 1}},
		"an unknown write happened": {func(l *Ledger) {
			l.Acked("tea", 1)
			l.Unacknowledged("tea")
			l.Acked("tea", 3)
			l.Last(map[string]int{"tea": 3})
		}, Verdict{}},
		"an unknown write did not happen": {func(l *Ledger) {
			l.Unacknowledged("tea")
			l.Acked("tea", 1)
			l.Last(map[string]int{"tea": 1})
		}, Verdict{}},
		"an unknown write happened late": {func(l *Ledger) {
			l.Unacknowledged("tea")
			l.Acked("tea", 1)
			l.Last(map[string]int{"tea": 2})
		}, Verdict{}},
		"an unknown write happened twice": {func(l *Ledger) {
			l.Unacknowledged("tea")
			l.Last(map[string]int{"tea": 2})
		}, Verdict{AppliedTwice: 1}},
		"an old value is shown, and then the right one": {func(l *Ledger) {
			l.Acked("tea", 1)
			l.Acked("tea", 2)
			l.Read(map[string]int{"tea": 1})
			l.Last(map[string]int{"tea": 2})
		}, Verdict{StaleReads: 1}},
		"a session is lost with what was in it": {func(l *Ledger) {
			l.Session("a")
			l.Acked("tea", 1)
			l.Acked("cup", 1)
			l.Session("b")
			l.Read(map[string]int{})
			l.Acked("tea", 1)
			l.Last(map[string]int{"tea": 1})
		}, Verdict{SessionsLost: 1, WritesLost: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := NewLedger()
			c.story(l)
			if got := l.Verdict(); got != c.want {
				t.Errorf("verdict %+v, want %+v", got, c.want)
			}
		})
	}
}

// An honest cluster is never accused, whatever clients fail to hear.
func TestLedger_acceptsWhatIsRight(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := NewLedger()
		truth, acked := map[string]int{}, 0
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			item := rapid.SampledFrom([]string{"tea", "cup"}).Draw(t, "item")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				truth[item]++
				acked++
				l.Acked(item, truth[item])
			case 2:
				if rapid.Bool().Draw(t, "happened") {
					truth[item]++
				}
				l.Unacknowledged(item)
			case 3:
				l.Read(truth)
			}
		}
		l.Last(truth)
		if v := l.Verdict(); v != (Verdict{}) {
			t.Fatalf("accused of %+v", v)
		}
		if l.Acknowledged() != acked {
			t.Fatalf("%d acknowledged, want %d", l.Acknowledged(), acked)
		}
	})
}

// Where every write is acknowledged, each single fault is counted once.
func TestLedger_findsEveryFault(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := NewLedger()
		truth, want := 0, Verdict{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "fault") {
			case 0:
				if truth > 0 { // an earlier write is forgotten
					truth--
					want.WritesLost++
				}
			case 1:
				truth++ // applied twice
				want.AppliedTwice++
			}
			truth++
			l.Acked("tea", truth)
		}
		l.Last(map[string]int{"tea": truth})
		if got := l.Verdict(); got.WritesLost != want.WritesLost || got.AppliedTwice != want.AppliedTwice {
			t.Fatalf("verdict %+v, want %+v", got, want)
		}
	})
}
