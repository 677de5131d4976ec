package leader

import (
	"cmp"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

func TestCore_returnTakesSlotsAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	for _, p := range s.peers {
		p.sessions, p.busy = 5, true
	}
	s.kill(3)
	s.step(Refused{s.holder(3)})
	s.gossip(3, member.Failed)
	s.run(20 * time.Second)
	p := s.peer(3)
	p.Boot, p.answers, p.renews, p.table = member.Boot{3, 2}, Reached, true, &ring.Table{}
	s.gossip(3, member.Alive)
	if s.state(3) != ring.Joining {
		t.Fatalf("state %v", s.state(3))
	}
	s.until(5*time.Second, "up", func() bool { return s.state(3) == ring.Up })
	if s.table.Slots[1000].Owner == 3 {
		t.Error("owner before it was stable")
	}
	s.until(60*time.Second, "settled", s.settled)
	if s.table.Position(3) != 2 {
		t.Error("lost its position")
	}
}

func TestCore_quickRestartIsSeenByItsBoot(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	p := s.peer(3)
	p.Boot, p.table = member.Boot{3, 2}, &ring.Table{}
	s.look()
	for h := range s.table.Slots {
		if st := &s.table.Slots[h]; st.Owner == 3 || len(st.InSync) != 2 {
			t.Fatalf("slot %d: %+v", h, st)
		}
	}
	s.until(30*time.Second, "settled", s.settled)
}

func TestCore_newRunElsewhereWaitsForTheOldOnesEnd(t *testing.T) {
	t.Parallel()
	restart := func(s *stage) (p *peer, replaced func() bool) {
		old := s.holder(3)
		s.step(StopAsked{&ring.Stop{From: old}})
		p = s.peer(3)
		p.Boot, p.Addr, p.table, p.answers = member.Boot{3, 2}, "elsewhere", &ring.Table{}, Unreached
		return p, func() bool { return s.table.Member(old.Num).Boot == p.Boot }
	}
	t.Run("serve", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, 3)
		p, replaced := restart(s)
		p.others = Reached // the old one, at the old address
		s.look()
		s.run(5 * time.Second)
		if replaced() {
			t.Fatal("replaced, though another member reaches the old run")
		}
		p.others = Unreached
		s.until(5*time.Second, "replaced", replaced)
		p.answers, p.others = Reached, Reached
		s.until(60*time.Second, "settled", s.settled)
	})
	t.Run("refuse", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, 3, refuse)
		granted := s.peer(3).granted
		_, replaced := restart(s)
		s.look()
		s.until(5*time.Second, "replaced", replaced)
		if took := s.now - granted[len(granted)-1]; took < s.core.p.leaseOver() {
			t.Errorf("replaced %v after its last grant, while its lease may run", took)
		}
	})
}

func TestCore_leaderElsewhereReplacesItself(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1, func(o *Options) { o.Cluster.Expect = 1 })
	p := s.peer(1)
	p.Boot, p.Addr, p.table = member.Boot{1, 2}, "elsewhere", &ring.Table{}
	s.look()
	s.until(5*time.Second, "settled", func() bool { return s.table.Member(1).Boot == p.Boot && s.settled() })
}

func TestCore_sameBootBackAfterDown(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	s.cut(3)
	s.gossip(3, member.Failed)
	s.until(2*time.Second, "down", s.down(3))
	s.peer(3).answers, s.peer(3).renews = Reached, true
	s.gossip(3, member.Alive)
	if s.state(3) != ring.Down {
		t.Error("back before it was heard")
	}
	s.until(30*time.Second, "settled", s.settled)
}

func TestCore_whoWasAwayForLongForgets(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]time.Duration{"short": 50 * time.Minute, "long": 70 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, 3, func(o *Options) { o.Cluster.Settings.ReapAfter = 0 })
			s.cut(3)
			s.gossip(3, member.Failed)
			s.until(2*time.Second, "down", s.down(3))
			s.now += away
			s.peer(3).answers, s.peer(3).renews = Reached, true
			s.gossip(3, member.Alive)
			s.until(30*time.Second, "back", func() bool { return !s.down(3)() })
			want := uint32(0)
			if away > time.Hour {
				want = 1
			}
			if got := s.table.Member(3).Discards; got != want {
				t.Errorf("discards %d", got)
			}
			s.until(60*time.Second, "settled", s.settled)
			if got := s.table.Member(3).Discards; got != want {
				t.Errorf("discards %d when all is well", got)
			}
		})
	}
}

func TestCore_conflictIsToldOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	p := s.join(4)
	p.Name = "m2"
	s.look()
	s.run(5 * time.Second)
	n := 0
	for _, note := range s.notes {
		if note.Kind == NoteConflict {
			n++
		}
	}
	if n != 1 || s.state(4) != 0 {
		t.Errorf("told %d times, state %v", n, s.state(4))
	}
}

func TestCore_newMemberGetsItsShare(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	s.join(4)
	s.look()
	s.until(60*time.Second, "settled and even", func() bool { return s.settled() && s.homesOf(4) == 256 })
	if s.homesOf(1) < 256 {
		t.Error("uneven")
	}
}

func (s *stage) homesOf(i int) (n int) {
	for h := range s.table.Slots {
		if s.table.Slots[h].Home == s.holder(i).Num {
			n++
		}
	}
	return n
}

func TestCore_addInSync(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	s.learns = false
	p := s.peer(3)
	p.Boot, p.table = member.Boot{3, 2}, &ring.Table{}
	s.look()
	s.run(time.Second)
	st := s.table.Slots[0]
	cand := ring.Candidate{Slot: 0, Re: st.Re, Changed: st.Changed, Cand: s.holder(3)}
	from := s.holder(int(st.Owner))
	wrong := []ring.Candidate{cand, cand, cand, cand}
	wrong[0].Cand.Boot[9]++
	wrong[1].Slot = ring.Slots
	wrong[2].Re++
	wrong[3].Changed--
	s.step(AddAsked{&ring.AddInSync{From: from, Slots: wrong}})
	if !reflect.DeepEqual(s.noes, wrong[:1]) {
		t.Errorf("refused %v", s.noes)
	}
	if s.table.Slots[0].Re != st.Re {
		t.Errorf("taken: %+v", s.table.Slots[0])
	}
	s.fails = 1 // the first entry meets another table: the candidate is not lost
	s.step(AddAsked{&ring.AddInSync{From: from, Slots: []ring.Candidate{cand}}})
	if got := s.table.Slots[0]; !got.InSyncHas(s.holder(3)) || got.Re != st.Re+1 {
		t.Errorf("slot 0: %+v", got)
	}
}

func TestCore_isolatedOwner(t *testing.T) {
	t.Parallel()
	for name, report := range map[string]func(*stage){
		"finds all others slow":  func(s *stage) { s.peer(3).slow = []int{1, 2, 4, 5} },
		"two cannot reach it":    func(s *stage) { s.peer(1).unreached, s.peer(2).unreached = []int{3}, []int{3} },
		"only one cannot":        func(s *stage) { s.peer(2).unreached = []int{3} },
		"everybody accuses more": func(s *stage) { s.peer(1).slow, s.peer(2).slow, s.peer(4).slow = []int{2}, []int{3}, []int{5} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, 5)
			report(s)
			s.run(5 * time.Second)
			want := name == "finds all others slow" || name == "two cannot reach it"
			if (s.state(3) != ring.Up) != want {
				t.Errorf("state %v", s.state(3))
			}
			if want {
				return
			}
			for _, m := range s.table.Members {
				if m.State != ring.Up {
					t.Errorf("member %d is %v", m.Num, m.State)
				}
			}
		})
	}
}

func TestCore_slowMemberLeavesOnlyThoseSlots(t *testing.T) {
	t.Parallel()
	s := newStage(t, 5)
	s.peer(2).slow = []int{3}
	in := func() (n int) {
		for h := range s.table.Slots {
			if st := &s.table.Slots[h]; st.Owner == 2 && st.InSyncHas(s.holder(3)) {
				n++
			}
		}
		return n
	}
	s.run(900 * ms)
	if in() == 0 {
		t.Fatal("gone before it was slow for a second")
	}
	s.until(time.Second, "dropped", func() bool { return in() == 0 })
	s.peer(2).slow = nil
	s.run(5 * time.Second)
	if in() != 0 {
		t.Error("filled again at once")
	}
	if s.table.Slots[0].Owner != 1 || len(s.table.Slots[0].InSync) != 3 {
		t.Error("another owner's slots changed")
	}
	s.until(10*time.Second, "settled", s.settled)
}

// An owner may have died of what made it call another slow: it must not take the
// other's copies with it.
func TestCore_theDeadAccuseNobody(t *testing.T) {
	t.Parallel()
	s := newStage(t, 5)
	s.peer(2).slow = []int{3}
	s.run(900 * ms)
	s.kill(2)
	s.run(1200 * ms)
	for h := range s.table.Slots {
		if st := &s.table.Slots[h]; st.Owner == 2 && !st.InSyncHas(s.holder(3)) && slices.Contains(s.table.Want(ring.Slot(h)), 3) {
			t.Fatalf("slot %d lost a copy on the word of an owner that is gone: %+v", h, st)
		}
	}
}

func TestCore_stalledSlotIsResetInServeOnly(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"serve", "refuse"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, 2, func(o *Options) { o.Cluster.Settings.Replicas, o.Cluster.Settings.Refuse = 0, mode == "refuse" })
			s.kill(2)
			s.step(Refused{s.holder(2)})
			s.gossip(2, member.Failed)
			s.until(5*time.Second, "down", s.down(2))
			s.run(28 * time.Second)
			if !s.table.Stalled(ring.Slots - 1) {
				t.Fatal("reset too early")
			}
			s.run(10 * time.Second)
			if st := s.table.Slots[ring.Slots-1]; s.table.Stalled(ring.Slots-1) != (mode == "refuse") || st.Lost != (mode == "serve") {
				t.Errorf("%+v", st)
			}
		})
	}
}

func holdsCopies(t *ring.Table, who ring.Holder) bool {
	for h := range t.Slots {
		if t.Slots[h].InSyncHas(who) {
			return true
		}
	}
	return false
}

func TestCore_stopLeaveDrain(t *testing.T) {
	t.Parallel()
	owned := func(s *stage, i int) (n int) {
		for h := range s.table.Slots {
			if s.table.Slots[h].Owner == s.holder(i).Num {
				n++
			}
		}
		return n
	}
	busy := func(s *stage) {
		for _, p := range s.peers {
			p.sessions, p.busy = 3, true
		}
		s.run(time.Second)
	}
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, 3)
		busy(s)
		before := s.entries
		s.step(StopAsked{&ring.Stop{From: s.holder(3)}})
		if owned(s, 3) != 0 || s.entries != before+1 || s.state(3) != ring.Stopping {
			t.Errorf("owns %d after %d entries, %v", owned(s, 3), s.entries-before, s.state(3))
		}
		s.run(3 * time.Second)
		if !s.table.Slots[0].InSyncHas(s.holder(3)) {
			t.Error("left the sets before its process ended")
		}
	})
	t.Run("leave", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, 4)
		busy(s)
		s.step(StopAsked{&ring.Stop{From: s.holder(3), Leave: true}})
		for left := s.holder(3); s.state(3) != 0; {
			if owned(s, 3) == 0 && s.homesOf(3) == 0 && !holdsCopies(s.table, left) {
				s.run(time.Second)
				if s.state(3) != ring.Leaving {
					t.Fatalf("it is %v, and has not said that its requests are done", s.state(3))
				}
				s.step(StopAsked{&ring.Stop{From: left, Leave: true, Done: true}})
			}
			if s.now > 2*time.Minute {
				t.Fatalf("still %v, owns %d, home of %d", s.state(3), owned(s, 3), s.homesOf(3))
			}
			before := s.table
			s.run(50 * ms)
			for h := range before.Slots {
				if s.table.Slots[h].Lost {
					t.Fatalf("slot %d lost", h)
				}
			}
		}
		s.until(time.Minute, "settled", s.settled)
	})
	t.Run("drain", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, 3)
		busy(s)
		s.step(DrainAsked{Num: 3, On: true})
		s.until(30*time.Second, "empty", func() bool { return owned(s, 3) == 0 })
		s.step(DrainAsked{Num: 3, On: false})
		for _, p := range s.peers {
			p.sessions, p.busy = 0, false
		}
		s.until(60*time.Second, "back", func() bool { return owned(s, 3) > 300 })
	})
	t.Run("force-leave", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, 3)
		s.cut(3)
		s.gossip(3, member.Failed)
		s.until(2*time.Second, "down", s.down(3))
		s.gossip(3, member.Left)
		s.until(2*time.Second, "gone", func() bool { return s.state(3) == 0 })
		s.until(30*time.Second, "settled", s.settled)
	})
}

func TestCore_reapsTheLongDead(t *testing.T) {
	t.Parallel()
	s := newStage(t, 4, func(o *Options) { o.Cluster.Settings.ReapAfter = 30 * time.Second })
	s.cut(4)
	s.gossip(4, member.Failed)
	s.run(25 * time.Second)
	if s.homesOf(4) != 256 {
		t.Fatalf("home of %d before its time", s.homesOf(4))
	}
	s.run(2 * time.Minute)
	if s.homesOf(4) != 0 || !s.settled() {
		t.Errorf("home of %d, settled %v", s.homesOf(4), s.settled())
	}
}

// TestCore_reapsAcrossTerms: no leader lasts for as long as a member is given,
// and each has a clock of its own.
func TestCore_reapsAcrossTerms(t *testing.T) {
	t.Parallel()
	const reap, downMax = 4 * time.Minute, 8 * time.Minute
	s := newStage(t, 4, func(o *Options) { o.Cluster.Settings.ReapAfter, o.Params.DownMax = reap, downMax })
	s.cut(4)
	s.gossip(4, member.Failed)
	s.until(time.Minute, "down", s.down(4))
	for _, clock := range []time.Duration{-time.Hour, 0, 1000 * time.Hour} {
		s.run(reap / 4)
		s.elect(clock)
		if n := s.homesOf(4); n != 256 {
			t.Fatalf("home of %d before its time", n)
		}
	}
	s.run(reap/4 - 5*time.Second)
	if n := s.homesOf(4); n != 256 {
		t.Fatalf("home of %d before its time", n)
	}
	s.run(3*reap/8 + 30*time.Second) // what was not noted yet at the end of a term
	if s.homesOf(4) != 0 || !s.settled() {
		t.Errorf("home of %d, settled %v", s.homesOf(4), s.settled())
	}
	n := s.entries
	s.run(3 * downMax)
	if n = s.entries - n; n > 20 {
		t.Errorf("%d entries for a member that is away for long", n)
	}
	s.peer(4).answers, s.peer(4).renews = Reached, true
	s.gossip(4, member.Alive)
	s.until(time.Minute, "back", func() bool { return s.state(4) == ring.Up })
	s.cut(4)
	s.gossip(4, member.Failed)
	s.until(time.Minute, "down", s.down(4))
	if away := s.table.ByID(id(4)).Away; away != 0 {
		t.Errorf("it has just gone, and is away for %v", away)
	}
}

func TestCore_operatorMoves(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	s.step(MoveAsked{Slots: 10, From: 1, To: 2})
	s.run(30 * time.Second)
	if s.homesOf(1) > 332 || !s.settled() {
		t.Errorf("homes %d %d", s.homesOf(1), s.homesOf(2))
	}
	s.step(RebalanceAsked{})
	s.run(30 * time.Second)
	if s.homesOf(1) < 341 {
		t.Errorf("homes %d %d", s.homesOf(1), s.homesOf(2))
	}
}

func TestCore_restAtRest(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	n := s.entries
	s.run(30 * time.Second)
	if s.entries != n {
		t.Errorf("%d entries while nothing happened", s.entries-n)
	}
}

func TestCore_sameInputSameOutput(t *testing.T) {
	t.Parallel()
	play := func() []byte {
		s := newStage(t, 5)
		s.kill(2)
		s.step(Refused{s.holder(2)})
		s.gossip(2, member.Failed)
		s.peer(4).slow = []int{5}
		s.join(6)
		s.look()
		s.run(20 * time.Second)
		return ring.AppendTable(nil, s.table)
	}
	if a, b := play(), play(); slices.CompareFunc(a, b, cmp.Compare[byte]) != 0 {
		t.Error("two runs differ")
	}
}
