package leader

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

const ms = time.Millisecond

func id(i int) member.ID {
	var b [16]byte
	b[15] = byte(i)
	return member.IDFromBytes(b)
}

// peer is a make-believe member around a core under test.
type peer struct {
	Seen
	answers   Reach // what a probe of it shows
	others    Reach // what others find, where that differs
	renews    bool
	closed    map[ring.Slot]bool
	sessions  uint32
	busy      bool
	table     *ring.Table
	granted   []time.Duration
	slow      []int
	unreached []int
	refusing  []int
}

// stage plays all parts but the leader's, in fake time.
type stage struct {
	t       *testing.T
	core    *Core
	now     time.Duration
	peers   []*peer // peers[0] is member 1, the leader
	table   *ring.Table
	notes   []Note
	asks    []Ask
	probes  []Probe
	noes    []ring.Candidate
	verify  []uint64
	hold    bool // verify rounds are not answered
	fails   int  // so many proposals are stale
	entries int
	learns  bool // owners fill their learners
}

func newStage(t *testing.T, n int, edit ...func(*Options)) *stage {
	s := &stage{t: t, table: &ring.Table{}, learns: true}
	for i := range n {
		s.join(i + 1)
	}
	o := Options{
		Params: Default(), Self: id(1), Term: 3, Table: s.table,
		Cluster: Cluster{Expect: n, ID: [16]byte{1}, Settings: ring.Settings{
			Replicas: 2, MinCopies: 1, ReapAfter: 10 * time.Minute, StallTimeout: 30 * time.Second,
		}},
	}
	for _, e := range edit {
		e(&o)
	}
	s.core = New(o)
	s.look()
	s.run(15 * time.Second)
	if len(s.table.Members) != n {
		t.Fatalf("first table has %d members", len(s.table.Members))
	}
	return s
}

func refuse(o *Options) { o.Cluster.Settings.Refuse, o.Cluster.Settings.MinCopies = true, 2 }

func (s *stage) join(i int) *peer {
	p := &peer{answers: Reached, renews: true, table: &ring.Table{}, closed: map[ring.Slot]bool{}}
	p.Candidacy = ring.Candidacy{ID: id(i), Name: fmt.Sprint("m", i), Addr: fmt.Sprint("h", i), Boot: member.Boot{byte(i), 1}}
	p.Status = member.Alive
	s.peers = append(s.peers, p)
	return p
}

func (s *stage) peer(i int) *peer { return s.peers[i-1] }

func (s *stage) look() {
	var list []Seen
	for _, p := range s.peers {
		list = append(list, p.Seen)
	}
	s.step(ViewChanged{list})
}

func (s *stage) gossip(i int, st member.Status) { s.peer(i).Status = st; s.look() }

// kill ends a member's process: its machine refuses connections.
func (s *stage) kill(i int) { s.peer(i).answers, s.peer(i).renews = RefusedThere, false }

// cut takes a member off the network.
func (s *stage) cut(i int) { s.peer(i).answers, s.peer(i).renews = Unreached, false }

func (s *stage) holder(i int) ring.Holder {
	if m := s.table.ByID(id(i)); m != nil {
		return m.Holder()
	}
	return ring.Holder{Boot: s.peer(i).Boot}
}

func (s *stage) state(i int) ring.State {
	if m := s.table.ByID(id(i)); m != nil {
		return m.State
	}
	return 0
}

func (s *stage) step(ev Event) {
	for queue := []Event{ev}; len(queue) > 0; queue = queue[1:] {
		for _, a := range s.core.Step(s.now, queue[0]) {
			queue = append(queue, s.act(a)...)
		}
	}
}

func (s *stage) act(a Action) []Event {
	switch a := a.(type) {
	case Propose:
		s.entries++
		if s.fails > 0 {
			s.fails--
			return []Event{Proposed{false, s.table}}
		}
		next, err := s.table.Apply(a.Change, s.table.Epoch+1)
		if err != nil {
			s.t.Fatal(err)
		}
		s.table = next
		return []Event{Proposed{true, next}}
	case Verify:
		s.verify = append(s.verify, a.Batch)
		if !s.hold {
			return []Event{Verified{a.Batch, true}}
		}
	case Send:
		s.receive(a)
	case Probe:
		s.probes = append(s.probes, a)
		return []Event{Probed{a.Who.Holder, s.byID(a.Who.ID).answers}}
	case Ask:
		s.asks = append(s.asks, a)
		return []Event{Opinion{a.Who.Holder, a.Via.Num, cmp.Or(s.byID(a.Who.ID).others, s.byID(a.Who.ID).answers)}}
	case Note:
		s.notes = append(s.notes, a)
	}
	return nil
}

func (s *stage) byID(want member.ID) *peer {
	return s.peers[slices.IndexFunc(s.peers, func(p *peer) bool { return p.ID == want })]
}

func (s *stage) receive(a Send) {
	if a.To.ID == "" {
		return
	}
	p := s.byID(a.To.ID)
	adopt := func(d *ring.Delta) {
		if d == nil {
			return
		}
		next, err := p.table.Merge(d)
		if err != nil {
			s.t.Fatal(err)
		}
		p.table = next
	}
	switch m := a.Message.(type) {
	case *ring.Grant:
		if m.Term != 3 || m.To.Boot != p.Boot {
			s.t.Errorf("grant %+v", m)
		}
		adopt(m.Table)
		p.granted = append(p.granted, s.now)
	case *ring.TableUpdate:
		adopt(m.Table)
	case *ring.AddInSyncNo:
		s.noes = append(s.noes, m.Slots...)
	}
}

func (s *stage) renew(i int) {
	p := s.peer(i)
	r := &ring.Renew{ID: p.ID, Sent: int64(s.now), Epoch: p.table.Epoch, From: ring.Holder{Boot: p.Boot}}
	if m := p.table.ByID(p.ID); m != nil {
		r.From.Num = m.Num
		for h := range ring.Slot(ring.Slots) {
			if p.table.Slots[h].Owner == m.Num {
				r.Owned = append(r.Owned, ring.SlotLoad{Slot: h, Open: !p.closed[h], Sessions: p.sessions, Idle: !p.busy})
			}
		}
	}
	s.step(Renewed{r})
	if m := p.table.ByID(p.ID); m != nil && s.learns {
		add := &ring.AddInSync{From: m.Holder()}
		for h := range ring.Slot(ring.Slots) {
			if st := &p.table.Slots[h]; st.Owner == m.Num && len(st.Learners) > 0 {
				add.Slots = append(add.Slots, ring.Candidate{Slot: h, Re: st.Re, Cand: st.Learners[0]})
			}
		}
		if len(add.Slots) > 0 {
			s.step(AddAsked{add})
		}
	}
	rep := &ring.Report{From: s.holder(i)}
	for _, j := range p.slow {
		rep.Slow = append(rep.Slow, s.holder(j))
	}
	for _, j := range p.unreached {
		rep.Unreachable = append(rep.Unreachable, ring.Unreachable{Who: s.holder(j)})
	}
	for _, j := range p.refusing {
		rep.Unreachable = append(rep.Unreachable, ring.Unreachable{Who: s.holder(j), Refused: true})
	}
	if len(rep.Slow)+len(rep.Unreachable) > 0 {
		s.step(Reported{rep})
	}
}

func (s *stage) run(d time.Duration) {
	for end := s.now + d; s.now < end; {
		s.now += 50 * ms
		if s.now%(300*ms) == 0 {
			for i, p := range s.peers {
				if p.renews {
					s.renew(i + 1)
				}
			}
		}
		s.step(Tick{})
	}
}

// until runs until the condition holds and returns how long that took.
func (s *stage) until(limit time.Duration, what string, ok func() bool) time.Duration {
	s.t.Helper()
	start := s.now
	for !ok() {
		if s.now-start > limit {
			s.t.Fatalf("%s: not within %s", what, limit)
		}
		s.run(50 * ms)
	}
	return s.now - start
}

func (s *stage) down(i int) func() bool { return func() bool { return s.state(i) == ring.Down } }

func (s *stage) settled() bool {
	for h := range ring.Slot(ring.Slots) {
		st, want := &s.table.Slots[h], s.table.Want(h)
		if len(st.Learners) > 0 || len(st.InSync) != len(want) || st.Owner != want[0] {
			return false
		}
	}
	return !slices.ContainsFunc(s.table.Members, func(m ring.Member) bool { return m.State == ring.Joining })
}

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
	s := newStage(t, 5)
	s.cut(4)
	s.cut(5)
	s.peer(4).Status = member.Failed
	s.gossip(5, member.Failed)
	s.until(2*time.Second, "the first", s.down(4))
	s.run(3 * time.Second)
	if s.state(5) == ring.Down {
		t.Error("two at once")
	}
	s.until(4*time.Second, "the second", s.down(5))
}

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
	cand := ring.Candidate{Slot: 0, Re: st.Re, Cand: s.holder(3)}
	from := s.holder(int(st.Owner))
	wrong := []ring.Candidate{cand, cand, cand}
	wrong[0].Re++
	wrong[1].Cand.Boot[9]++
	wrong[2].Slot = ring.Slots
	s.step(AddAsked{&ring.AddInSync{From: from, Slots: wrong}})
	if !reflect.DeepEqual(s.noes, wrong) {
		t.Errorf("refused %v", s.noes)
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
		for s.state(3) != 0 {
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
	s := newStage(t, 4)
	s.cut(4)
	s.gossip(4, member.Failed)
	s.run(9 * time.Minute)
	if s.homesOf(4) != 256 {
		t.Fatalf("home of %d before its time", s.homesOf(4))
	}
	s.run(4 * time.Minute)
	if s.homesOf(4) != 0 || !s.settled() {
		t.Errorf("home of %d, settled %v", s.homesOf(4), s.settled())
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
	s.run(2 * time.Minute)
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
