package leader

import (
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

func TestCore_firstTable(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	if s.entries != 1 || !s.settled() {
		t.Errorf("%d entries, settled %v", s.entries, s.settled())
	}
	for i, p := range s.peers {
		if p.table.Epoch != s.table.Epoch || len(p.granted) == 0 {
			t.Errorf("member %d: epoch %d, %d grants", i+1, p.table.Epoch, len(p.granted))
		}
	}
}

func TestCore_firstTableWaitsForAll(t *testing.T) {
	t.Parallel()
	s := &stage{t: t, table: &ring.Table{}}
	s.join(1)
	s.join(2).Status = member.Suspect
	s.core = New(Options{Params: Default(), Self: id(1), Table: s.table, Cluster: Cluster{Expect: 2}})
	s.look()
	s.run(time.Second)
	if s.entries != 0 {
		t.Fatal("table made before all were alive")
	}
	s.gossip(2, member.Alive)
	if s.entries != 1 {
		t.Error("no table")
	}
}

func TestCore_grantNeedsLaterQuorum(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	for _, p := range s.peers {
		p.renews = false
	}
	s.run(time.Second)
	s.hold = true
	n := len(s.peer(2).granted)
	s.verify = nil
	s.renew(2)
	if len(s.verify) != 1 {
		t.Fatalf("rounds %v", s.verify)
	}
	first := s.verify[0]
	s.run(100 * ms)
	s.renew(3) // arrives after the round started
	if len(s.verify) != 1 {
		t.Fatal("two rounds at once")
	}
	before := len(s.peer(3).granted)
	s.step(Verified{first, true})
	if len(s.peer(2).granted) != n+1 || len(s.peer(3).granted) != before {
		t.Error("granted to who was not covered, or not to who was")
	}
	if len(s.verify) != 2 {
		t.Fatal("no second round")
	}
	s.step(Verified{s.verify[1] + 5, true}) // some other round
	s.step(Verified{s.verify[1], false})
	if len(s.peer(3).granted) != before {
		t.Error("granted without a quorum")
	}
}

func TestCore_grantRefusesOtherBoot(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	n := len(s.peer(2).granted)
	h := s.holder(2)
	h.Boot[5]++
	s.step(Renewed{&ring.Renew{From: h, ID: id(2), Sent: 1}})
	s.step(Tick{})
	if len(s.peer(2).granted) != n {
		t.Error("granted to a boot that the table does not name")
	}
}

func TestCore_verifyRoundsAreSpaced(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3)
	s.verify = nil
	for range 100 {
		s.now += 2 * ms
		s.renew(2)
	}
	if n := len(s.verify); n < 3 || n > 5 {
		t.Errorf("%d rounds in 200 ms", n)
	}
}
