package leader

import (
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

func TestCore_downNeedsGossipProbeAndAnother(t *testing.T) {
	t.Parallel()
	t.Run("all three", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, 3)
		s.cut(3)
		s.run(3 * time.Second)
		if s.state(3) == ring.Down {
			t.Fatal("down before gossip said so")
		}
		s.gossip(3, member.Failed)
		s.until(time.Second, "down", s.down(3))
		for h := range s.table.Slots {
			if st := &s.table.Slots[h]; st.Owner == 3 || len(st.InSync) != 2 {
				t.Fatalf("slot %d: %+v", h, st)
			}
		}
		if len(s.notes) == 0 || s.notes[0].Kind != NoteDown {
			t.Error("nobody told")
		}
	})
	t.Run("the probe reaches it", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, 3)
		s.peer(3).renews = false
		s.gossip(3, member.Failed)
		s.run(10 * time.Second)
		if s.state(3) != ring.Up || len(s.probes) < 5 {
			t.Errorf("state %v after %d probes", s.state(3), len(s.probes))
		}
	})
	t.Run("the other reaches it", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, 3)
		s.cut(3)
		s.peer(3).others = Reached
		s.gossip(3, member.Failed)
		s.run(10 * time.Second)
		if s.state(3) != ring.Up {
			t.Error("a single broken link marked it down")
		}
	})
}

func TestCore_killedMemberIsDownAtOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	s.kill(3)
	s.run(50 * ms)
	s.step(Refused{s.holder(3)}) // the leader's own connection; the other is asked, and refused too
	if s.state(3) != ring.Down {
		t.Fatal("not down by two refusals")
	}
	s.run(2 * time.Second)
	if s.state(3) != ring.Down {
		t.Error("gossip that is late brought it back")
	}
}

func TestCore_refusedToOneOnly(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	s.peer(2).refusing = []int{3} // but the leader reaches it
	s.run(5 * time.Second)
	if s.state(3) != ring.Up || len(s.probes) == 0 {
		t.Errorf("state %v after %d probes", s.state(3), len(s.probes))
	}
}

func TestCore_reportedRefusalIsChecked(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	s.kill(3)
	s.peer(2).refusing = []int{3}
	s.until(500*ms, "down", s.down(3))
}

func TestCore_aloneNeedsNoSecondOpinion(t *testing.T) {
	t.Parallel()
	s := newStage(t, 2)
	s.cut(2)
	s.gossip(2, member.Failed)
	s.until(2*time.Second, "down", s.down(2))
}

func TestCore_refuseModeWaitsForTheLease(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3, refuse)
	s.kill(3)
	last := s.peer(3).granted[len(s.peer(3).granted)-1]
	s.step(Refused{s.holder(3)})
	s.until(2*time.Second, "down", s.down(3))
	if s.now-last <= 1515*ms {
		t.Errorf("down %s after its last grant", s.now-last)
	}
}

func TestCore_newLeaderWaitsForLeasesOfTheLast(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3, refuse)
	s.kill(3)
	elected := s.now
	s.core = New(Options{Params: Default(), Self: id(1), Term: 3, Elected: elected, Table: s.table})
	s.look()
	s.step(Refused{s.holder(3)})
	s.peer(2).refusing = []int{3}
	s.until(5*time.Second, "down", s.down(3))
	if s.now-elected <= 1515*ms {
		t.Errorf("down %s after the election", s.now-elected)
	}
}

func TestCore_suspectGetsNoMoreGrants(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3, refuse)
	s.peer(3).answers = Unreached // its messages come through, ours do not
	s.gossip(3, member.Failed)
	s.until(5*time.Second, "down", s.down(3))
	last := s.peer(3).granted[len(s.peer(3).granted)-1]
	if s.now-last < 1515*ms {
		t.Errorf("granted %s before it was marked down", s.now-last)
	}
	s.run(5 * time.Second)
	if s.state(3) != ring.Down {
		t.Error("came back while gossip holds it for dead")
	}
}

func TestCore_downsAreRateLimited(t *testing.T) {
	t.Parallel()
	s := newStage(t, 7)
	for _, i := range []int{5, 6, 7} {
		s.cut(i)
		s.peer(i).Status = member.Failed
	}
	s.gossip(7, member.Failed)
	s.until(2*time.Second, "the first", s.down(5))
	s.until(2*time.Second, "the second", s.down(6))
	s.run(3 * time.Second)
	if s.state(7) == ring.Down {
		t.Error("three at once")
	}
	s.until(4*time.Second, "the third", s.down(7))
}
