package leader

import (
	"errors"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
)

// answerOf steps a wish, commits whatever is proposed, and returns the one
// answer.
func answerOf(t *testing.T, core *Core, now time.Duration, wish Event) (answer Answer) {
	t.Helper()
	answers := 0
	for actions := core.Step(now, wish); len(actions) > 0; {
		todo := actions
		actions = nil
		for _, a := range todo {
			switch a := a.(type) {
			case Answer:
				answer = a
				answers++
			case Propose:
				table, err := core.Table().Apply(a.Change, core.Table().Epoch+1)
				if err != nil {
					t.Fatal(err)
				}
				actions = append(actions, core.Step(now, Proposed{true, table})...)
			}
		}
	}
	if answers != 1 {
		t.Fatalf("%d answers to %+v", answers, wish)
	}
	return answer
}

func TestCore_answersWishes(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	core, at := s.core, s.now
	if a := answerOf(t, core, at, MoveAsked{Slots: 10, From: 1, To: 2, Op: 1}); a.Op != 1 || a.Moved != 10 || a.Err != nil || a.Epoch != core.Table().Epoch {
		t.Errorf("move: %+v", a)
	}
	if a := answerOf(t, core, at, RebalanceAsked{Op: 2}); a.Op != 2 || a.Moved < 9 || a.Err != nil {
		t.Errorf("rebalance: %+v", a)
	}
	if a := answerOf(t, core, at, RebalanceAsked{Op: 3}); a.Moved != 0 || a.Err != nil {
		t.Errorf("rebalance of what is even: %+v", a)
	}
	for op, wish := range []Event{
		MoveAsked{Slots: 1, From: 1, To: 9, Op: 10}, DrainAsked{Num: 9, On: true, Op: 11},
	} {
		if a := answerOf(t, core, at, wish); a.Op != uint64(10+op) || !errors.Is(a.Err, ring.ErrUnknownMember) {
			t.Errorf("%+v: %+v", wish, a)
		}
	}
	for num := range 2 {
		if a := answerOf(t, core, at, DrainAsked{Num: 1, On: true, Op: uint64(20 + num)}); a.Err != nil || !core.Table().Member(1).Drain {
			t.Errorf("drain: %+v", a)
		}
	}
	if a := answerOf(t, core, at, DrainAsked{Num: 2, On: true, Op: 30}); a.Err != nil {
		t.Errorf("second drain: %+v", a)
	}
	for _, wish := range []Event{
		DrainAsked{Num: 3, On: true, Op: 31}, MoveAsked{Slots: 1, From: 3, To: 1, Op: 31}, MoveAsked{Slots: 1, From: 1, To: 3, Op: 31},
	} {
		if a := answerOf(t, core, at, wish); !errors.Is(a.Err, ErrRefused) {
			t.Errorf("%+v: %+v", wish, a)
		}
	}
}

// A wish whose entry met another table is planned anew, and answered once.
func TestCore_asksAgainWhatWasStale(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	core := s.core
	var change *ring.Change
	for _, a := range core.Step(s.now, DrainAsked{Num: 2, On: true, Op: 5}) {
		if p, ok := a.(Propose); ok {
			change = p.Change
		}
	}
	if change == nil {
		t.Fatal("nothing proposed")
	}
	actions := core.Step(s.now, Proposed{false, core.Table()})
	again, answers := 0, 0
	for _, a := range actions {
		switch a := a.(type) {
		case Answer:
			answers++
		case Propose:
			again++
			change = a.Change
		}
	}
	if again != 1 || answers != 0 {
		t.Fatalf("proposed again %d times, answered %d times", again, answers)
	}
	table, err := core.Table().Apply(change, core.Table().Epoch+1)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range core.Step(s.now, Proposed{true, table}) {
		if a, ok := a.(Answer); ok && a.Op == 5 && a.Err == nil {
			answers++
		}
	}
	if answers != 1 || !table.Member(2).Drain {
		t.Errorf("answered %d times", answers)
	}
}

// What an operator placed stays through elections, and until a member comes.
func TestCore_placedHomesStay(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	s.step(MoveAsked{Slots: 50, From: 1, To: 2})
	s.until(time.Minute, "settled", s.settled)
	next := New(Options{Params: Default(), Self: "other", Term: 9, Elected: s.now, Table: s.table, Cluster: s.core.cluster})
	if next.settleHomes(ring.NewDraft(s.table)); s.homesOf(2) < 391 || !next.even {
		t.Errorf("home of %d", s.homesOf(2))
	}
	s.join(4)
	s.look()
	s.until(2*time.Minute, "the new one has its share", func() bool { return s.homesOf(4) == 256 && s.homesOf(2) == 256 })
}
