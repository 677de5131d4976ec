package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// fakeRaft is a log of one server.
type fakeRaft struct {
	mu      sync.Mutex
	table   *ring.Table
	changed chan struct{}
	broken  error
	stale   int
	block   bool // barriers never end
	list    []Server
}

func newFakeRaft() *fakeRaft {
	return &fakeRaft{table: &ring.Table{}, changed: make(chan struct{}), list: []Server{{id(1), "h1", true}}}
}

func (f *fakeRaft) Propose(_ context.Context, c *ring.Change) (*ring.Table, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return nil, f.broken
	}
	if f.stale > 0 {
		f.stale--
		return f.table, fmt.Errorf("propose: %w", ring.ErrStale)
	}
	next, err := f.table.Apply(c, f.table.Epoch+1)
	if err != nil {
		return f.table, err
	}
	f.table = next
	close(f.changed)
	f.changed = make(chan struct{})
	return next, nil
}

func (f *fakeRaft) Verify(context.Context) error { return nil }

func (f *fakeRaft) Barrier(ctx context.Context) error {
	if f.block {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (f *fakeRaft) Watch() (*ring.Table, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.table, f.changed
}

func (f *fakeRaft) Servers(context.Context) ([]Server, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Server(nil), f.list...), nil
}

func (f *fakeRaft) set(id member.ID, addr string, voter bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.list {
		if f.list[i].ID == id {
			f.list[i] = Server{id, addr, voter}
			return nil
		}
	}
	f.list = append(f.list, Server{id, addr, voter})
	return nil
}

func (f *fakeRaft) AddNonvoter(_ context.Context, id member.ID, addr string) error {
	return f.set(id, addr, false)
}
func (f *fakeRaft) AddVoter(_ context.Context, id member.ID, addr string) error {
	return f.set(id, addr, true)
}
func (f *fakeRaft) DemoteVoter(_ context.Context, id member.ID) error { return f.set(id, "", false) }
func (f *fakeRaft) RemoveServer(context.Context, member.ID) error     { return errors.New("cannot") }
func (f *fakeRaft) TransferLeadership(context.Context) error          { return nil }
func (f *fakeRaft) CaughtUp(ctx context.Context, id member.ID) bool   { return true }
func (f *fakeRaft) Probe(context.Context, Peer) Reach                 { return Reached }
func (f *fakeRaft) Ask(ctx context.Context, via, who Peer) Reach      { return Reached }

type fakeGossip []Seen

func (g fakeGossip) Watch() ([]Seen, <-chan struct{}) { return g, nil }

type fakeSender struct {
	mu     sync.Mutex
	grants int
}

func (s *fakeSender) Send(_ Peer, m ring.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := m.(*ring.Grant); ok {
		s.grants++
	}
}

func leaderOver(f *fakeRaft, n int) (*Leader, *fakeSender) {
	var g fakeGossip
	for i := 1; i <= n; i++ {
		g = append(g, Seen{ring.Candidacy{ID: id(i), Name: fmt.Sprint("m", i), Addr: fmt.Sprint("h", i), Boot: member.Boot{byte(i)}}, member.Alive})
	}
	s := &fakeSender{}
	return NewLeader(Config{
		Self: id(1), Raft: f, Send: s, Probe: f, Gossip: g, Servers: f,
		Cluster: Cluster{Expect: n, Settings: ring.Settings{Replicas: 2}},
	}), s
}

func TestLeader_term(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRaft()
		f.stale = 2
		l, sent := leaderOver(f, 3)
		if err := l.Handle(&ring.Renew{}); !errors.Is(err, ErrNotLeader) {
			t.Errorf("before the term: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Term(ctx, 4) }()
		time.Sleep(time.Second)
		table, _ := f.Watch()
		if len(table.Members) != 3 || !l.Leading() {
			t.Fatalf("%d members, leading %v", len(table.Members), l.Leading())
		}
		if err := l.Handle(&ring.Renew{From: table.Members[0].Holder(), ID: id(1)}); err != nil {
			t.Error(err)
		}
		if err := l.Handle(&ring.Grant{}); err == nil || errors.Is(err, ErrNotLeader) {
			t.Errorf("a grant to the leader: %v", err)
		}
		time.Sleep(time.Second)
		sent.mu.Lock()
		if sent.grants != 1 {
			t.Errorf("%d grants", sent.grants)
		}
		sent.mu.Unlock()
		time.Sleep(30 * time.Second)
		if list, _ := f.Servers(ctx); len(list) != 3 || voters(list) != 3 {
			t.Errorf("servers %v", list)
		}
		cancel()
		if err := <-done; err != nil || l.Leading() {
			t.Errorf("ended with %v, leading %v", err, l.Leading())
		}
	})
}

func TestLeader_termFails(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(*fakeRaft){
		"unknown outcome": func(f *fakeRaft) { f.broken = errors.New("lost") },
		"barrier":         func(f *fakeRaft) { f.block = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRaft()
				breakIt(f)
				l, _ := leaderOver(f, 1)
				if err := l.Term(t.Context(), 1); err == nil {
					t.Error("no error")
				}
			})
		})
	}
}
