package consensus

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is some servers on one in-memory network. It is used from inside a
// bubble, or with few real goroutines.
type fleet struct {
	t     *testing.T
	nodes map[int]*server
}

type server struct {
	*Node
	id    member.ID
	addr  string
	trans *raft.InmemTransport
	stop  func() error
}

func newFleet(t *testing.T) *fleet { return &fleet{t: t, nodes: make(map[int]*server)} }

func idOf(i int) member.ID { return member.ID(fmt.Sprintf("%032x", i+1)) }

// start runs server i at addr over what is in dir ("": memory).
func (f *fleet) start(i int, addr, dir string, edit ...func(*Config)) *server {
	f.t.Helper()
	_, trans := raft.NewInmemTransportWithTimeout(raft.ServerAddress(addr), 500*time.Millisecond)
	cfg := Config{ID: idOf(i), Dir: dir, Transport: trans}
	for _, e := range edit {
		e(&cfg)
	}
	n, err := Open(cfg)
	if err != nil {
		f.t.Fatalf("open server %d: %v", i, err)
	}
	s := &server{Node: n, id: cfg.ID, addr: addr, trans: trans}
	f.nodes[i] = s
	for j, o := range f.nodes {
		if j != i {
			o.trans.Connect(trans.LocalAddr(), trans)
			trans.Connect(o.trans.LocalAddr(), o.trans)
		}
	}
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	s.stop = sync.OnceValue(func() error { cancel(); return <-done })
	<-n.Ready()
	return s
}

// kill ends server i; nobody reaches it any more.
func (f *fleet) kill(i int) {
	f.t.Helper()
	s := f.nodes[i]
	for _, o := range f.nodes {
		o.trans.Disconnect(s.trans.LocalAddr())
	}
	s.trans.DisconnectAll()
	delete(f.nodes, i)
	if err := s.stop(); err != nil {
		f.t.Errorf("server %d: %v", i, err)
	}
}

func (f *fleet) stopAll() {
	for i := range 16 {
		if s := f.nodes[i]; s != nil {
			if err := s.stop(); err != nil {
				f.t.Errorf("server %d: %v", i, err)
			}
		}
	}
}

func (f *fleet) bootstrap(n int) {
	f.t.Helper()
	var list []Server
	for i := range n {
		list = append(list, Server{ID: f.nodes[i].id, Addr: f.nodes[i].addr, Voter: true})
	}
	for i := range n {
		if err := f.nodes[i].Bootstrap(f.t.Context(), list); err != nil {
			f.t.Fatal(err)
		}
	}
}

// leader waits for one that all others follow.
func (f *fleet) leader() *server {
	f.t.Helper()
	for range 600 {
		for _, s := range f.nodes {
			if s.Leading() && s.Verify(f.t.Context()) == nil {
				return s
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	f.t.Fatal("no leader")
	return nil
}

// await waits until all servers have the table of that epoch.
func (f *fleet) await(e ring.Epoch) {
	f.t.Helper()
	for range 400 {
		ok := true
		for _, s := range f.nodes {
			ok = ok && s.Table().Epoch >= e
		}
		if ok {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	f.t.Fatalf("not all servers have epoch %d", e)
}

func (s *server) change(t *testing.T, next member.Number) *ring.Table {
	t.Helper()
	if err := s.Barrier(t.Context()); err != nil { // a new leader has to apply what there is first
		t.Fatal(err)
	}
	table, err := s.Propose(t.Context(), &ring.Change{Base: s.Table().Epoch, NextNum: next})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestNode_failover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.stopAll()
		for i := range 3 {
			f.start(i, fmt.Sprint("a", i), "")
		}
		f.bootstrap(3)
		l := f.leader()
		table := l.change(t, 7)
		f.await(table.Epoch)
		for i, s := range f.nodes {
			if s.Table().NextNum != 7 {
				t.Errorf("server %d: next number %d", i, s.Table().NextNum)
			}
			if s.Leader() != l.id {
				t.Errorf("server %d follows %q", i, s.Leader())
			}
		}
		for i, s := range f.nodes {
			if s == l {
				start := time.Now()
				f.kill(i)
				next := f.leader()
				if took := time.Since(start); took > 5*time.Second {
					t.Errorf("failover took %s", took)
				}
				table = next.change(t, 8)
				break
			}
		}
		f.await(table.Epoch)
	})
}

func TestNode_staleChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.stopAll()
		f.start(0, "a", "")
		f.bootstrap(1)
		l := f.leader()
		old := l.Table().Epoch
		now := l.change(t, 3)
		got, err := l.Propose(t.Context(), &ring.Change{Base: old, NextNum: 9})
		if !errors.Is(err, ring.ErrStale) {
			t.Fatalf("error %v, want ErrStale", err)
		}
		if got != now || l.Table() != now {
			t.Errorf("table changed by a stale change: %+v", got.NextNum)
		}
		if err := l.Bootstrap(t.Context(), []Server{{ID: l.id, Addr: "a", Voter: true}}); !errors.Is(err, ErrHasState) {
			t.Errorf("second bootstrap: %v, want ErrHasState", err)
		}
		if _, err := f.nodes[0].Propose(canceled(t), &ring.Change{Base: now.Epoch, NextNum: 4}); err == nil {
			t.Error("propose with an ended context: no error")
		}
	})
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestNode_watch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.stopAll()
		f.start(0, "a", "")
		f.bootstrap(1)
		l := f.leader()
		before, changed := l.Watch()
		after := l.change(t, 2)
		<-changed
		if got, _ := l.Watch(); got != after || before.NextNum != 0 {
			t.Errorf("watched %v, was %v", got.NextNum, before.NextNum)
		}
	})
}

func TestNode_snapshotBringsLaggardUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.stopAll()
		small := func(c *Config) {
			c.SnapshotEvery, c.Trailing = 8, 4
			c.Timings.SnapshotGap = time.Second
		}
		for i := range 3 {
			f.start(i, fmt.Sprint("a", i), "", small)
		}
		f.bootstrap(3)
		l := f.leader()
		var table *ring.Table
		for n := range 40 {
			table = l.change(t, member.Number(n+1))
		}
		time.Sleep(5 * time.Second)
		late := f.start(3, "a3", "", small)
		if err := l.AddNonvoter(t.Context(), late.id, late.addr); err != nil {
			t.Fatal(err)
		}
		f.await(table.Epoch)
		if got := late.Table(); got.NextNum != table.NextNum {
			t.Errorf("next number %d after the snapshot, want %d", got.NextNum, table.NextNum)
		}
		if l.Stats()["last_snapshot_index"] == "0" {
			t.Error("no snapshot was taken")
		}
	})
}

func TestNode_newAddressAfterRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := newFleet(t)
	defer f.stopAll()
	for i := range 3 {
		f.start(i, fmt.Sprint("a", i), filepath.Join(dir, fmt.Sprint(i)))
	}
	f.bootstrap(3)
	l := f.leader()
	moved := slices.IndexFunc([]*server{f.nodes[0], f.nodes[1], f.nodes[2]}, func(s *server) bool { return s != l })
	f.await(l.change(t, 5).Epoch)
	f.kill(moved)
	table := l.change(t, 6)
	s := f.start(moved, "elsewhere", filepath.Join(dir, fmt.Sprint(moved)))
	if !s.HasState() {
		t.Error("restarted server has no state")
	}
	if err := l.AddVoter(t.Context(), s.id, s.addr); err != nil {
		t.Fatal(err)
	}
	f.await(table.Epoch)
	list, _, stale, err := l.Servers(t.Context())
	if err != nil || stale || len(list) != 3 {
		t.Fatalf("servers %v, stale %v, error %v", list, stale, err)
	}
	for _, have := range list {
		if have.ID == s.id && have.Addr != "elsewhere" {
			t.Errorf("address %q", have.Addr)
		}
	}
}

func TestNode_lead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.stopAll()
		var running, terms int
		var mu sync.Mutex
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 3 {
			s := f.start(i, fmt.Sprint("a", i), "")
			fails := i == 0
			wg.Go(func() {
				err := s.Lead(ctx, func(ctx context.Context, term Term) error {
					mu.Lock()
					running++
					terms++
					mu.Unlock()
					defer func() { mu.Lock(); running--; mu.Unlock() }()
					if term.Number == 0 || s.Barrier(ctx) != nil {
						return nil
					}
					if fails {
						return errors.New("cannot do it")
					}
					<-ctx.Done()
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		f.bootstrap(3)
		time.Sleep(20 * time.Second)
		l := f.leader()
		if l == f.nodes[0] {
			t.Error("who cannot do the work still leads")
		}
		if err := l.TransferLeadership(t.Context(), ""); err != nil {
			t.Error(err)
		}
		time.Sleep(20 * time.Second)
		mu.Lock()
		if running != 1 || terms < 2 {
			t.Errorf("%d terms running, %d ever", running, terms)
		}
		mu.Unlock()
		cancel()
		wg.Wait()
	})
}

func TestNode_unknownCommandStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		s := f.start(0, "a", "")
		f.bootstrap(1)
		l := f.leader()
		table := l.change(t, 2)
		if err := l.raft.Load().Apply([]byte{99}, time.Second).Error(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if err := s.stop(); err == nil {
			t.Error("Run ended without an error")
		}
		if l.Table() != table {
			t.Error("table changed by an unknown command")
		}
	})
}

func TestNode_removed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		for i := range 2 {
			f.start(i, fmt.Sprint("a", i), "")
		}
		f.bootstrap(2)
		l := f.leader()
		if err := l.RemoveServer(t.Context(), l.id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		for _, s := range f.nodes {
			err := s.stop()
			if s == l && !errors.Is(err, ErrRemoved) || s != l && err != nil {
				t.Errorf("server ended with %v", err)
			}
		}
	})
}
