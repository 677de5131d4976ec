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

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

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
	f.await(f.change(5).Epoch)
	f.kill(moved)
	table := f.change(6)
	s := f.start(moved, "elsewhere", filepath.Join(dir, fmt.Sprint(moved)))
	if !s.HasState() {
		t.Error("restarted server has no state")
	}
	f.byLeader("tell the new address", func(l *server) error { return l.AddVoter(t.Context(), s.id, s.addr) })
	f.await(table.Epoch)
	var list []Server
	f.byLeader("name the servers", func(l *server) error {
		now, _, stale, err := l.Servers(t.Context())
		if stale {
			err = errors.Join(err, errors.New("stale"))
		}
		list = now
		return err
	})
	if len(list) != 3 {
		t.Fatalf("servers %v", list)
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
