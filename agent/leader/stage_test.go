package leader

import (
	"cmp"
	"fmt"
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
	store     ring.Store
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
	o       Options
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
	s.o = o
	s.core = New(o)
	s.look()
	s.run(15 * time.Second)
	if len(s.table.Members) != n {
		t.Fatalf("first table has %d members", len(s.table.Members))
	}
	return s
}

// elect begins another term, under a leader whose clock shows another time.
func (s *stage) elect(clock time.Duration) {
	s.o.Term++
	s.now, s.o.Elected, s.o.Table = clock, clock, s.table
	s.core = New(s.o)
	s.look()
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
	if a.To.Boot != p.Boot {
		return // the process that it is for is gone
	}
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
		if m.Term != s.o.Term || m.To.Boot != p.Boot {
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
	r := &ring.Renew{ID: p.ID, Store: p.store, Sent: int64(s.now), Epoch: p.table.Epoch, From: ring.Holder{Boot: p.Boot}}
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
				add.Slots = append(add.Slots, ring.Candidate{Slot: h, Re: st.Re, Changed: st.Changed, Cand: st.Learners[0]})
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
