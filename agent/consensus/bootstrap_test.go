package consensus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"pgregory.net/rapid"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

func TestPick(t *testing.T) {
	t.Parallel()
	at := func(i, expect int) Starter { return Starter{ID: idOf(i), Addr: "a", Expect: expect} }
	for name, c := range map[string]struct {
		self Starter
		seen []Starter
		want []member.ID
	}{
		"alone":                  {at(0, 1), nil, []member.ID{idOf(0)}},
		"waits to be taken in":   {at(0, 0), []Starter{at(1, 1)}, nil},
		"too few":                {at(0, 3), []Starter{at(0, 3), at(1, 3)}, nil},
		"enough":                 {at(2, 3), []Starter{at(1, 3), at(0, 3)}, []member.ID{idOf(0), idOf(1), idOf(2)}},
		"others only join":       {at(2, 2), []Starter{at(1, 0), at(0, 2)}, []member.ID{idOf(0), idOf(2)}},
		"more than expected":     {at(3, 2), []Starter{at(0, 2), at(1, 2), at(3, 2)}, []member.ID{idOf(0), idOf(1)}},
		"different numbers":      {at(0, 2), []Starter{at(1, 3)}, nil},
		"waits beside a cluster": {at(0, 0), []Starter{{ID: idOf(1), Cluster: [16]byte{1}}}, nil},
		"somebody has a cluster": {at(0, 1), []Starter{{ID: idOf(1), Cluster: [16]byte{1}}}, nil},
		"seen twice counts once": {at(0, 2), []Starter{at(0, 2), at(0, 2)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, why := pick(c.self, c.seen)
			if !slices.Equal(starterIDs(list), c.want) || (why == "") != (len(c.want) > 0) {
				t.Errorf("got %v, %q", starterIDs(list), why)
			}
		})
	}
}

// Whatever each member sees: those that start a cluster all start the same one,
// or two that have no member in common.
func TestAgreed_oneList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "members")
		expect := rapid.IntRange(1, n).Draw(t, "expect")
		all := make([]Starter, n)
		lists := make([][]Starter, n)
		for i := range all {
			all[i] = Starter{ID: idOf(i), Expect: expect}
		}
		for i := range all {
			var seen []Starter
			for _, s := range all {
				if rapid.IntRange(0, 3).Draw(t, "sees") > 0 {
					seen = append(seen, s)
				}
			}
			lists[i], _ = pick(all[i], seen)
		}
		var made [][]member.ID
		for i, list := range lists {
			if list == nil {
				continue
			}
			answers := make(map[member.ID]State)
			for j := range all {
				if j != i {
					answers[all[j].ID] = State{Expect: expect, List: starterIDs(lists[j])}
				}
			}
			if agreed(all[i].ID, list, answers) == "" {
				made = append(made, starterIDs(list))
			}
		}
		for _, a := range made {
			for _, b := range made {
				common := slices.ContainsFunc(a, func(x member.ID) bool { return slices.Contains(b, x) })
				if common && !slices.Equal(a, b) {
					t.Fatalf("clusters %v and %v", a, b)
				}
			}
		}
	})
}

// TestBootstrap_threeAndALatecomer starts three at different moments, and a
// fourth when the cluster stands: it must not make one of its own.
func TestBootstrap_threeAndALatecomer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.stopAll()
		var mu sync.Mutex
		var here []Starter
		boots := make(map[member.ID]*Bootstrap)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 4 {
			time.Sleep(time.Duration(i) * 700 * time.Millisecond)
			if i == 3 {
				f.leader()
			}
			s := f.start(i, fmt.Sprint("a", i), "")
			self := Starter{ID: s.id, Addr: s.addr, Expect: 3}
			b := NewBootstrap(BootstrapConfig{
				Node: s.Node, Self: self,
				View: func() []Starter { mu.Lock(); defer mu.Unlock(); return slices.Clone(here) },
				Ask: func(_ context.Context, o Starter) (State, error) {
					mu.Lock()
					b := boots[o.ID]
					mu.Unlock()
					if b == nil {
						return State{}, errors.New("nobody there")
					}
					return b.State(), nil
				},
			})
			mu.Lock()
			here, boots[s.id] = append(here, self), b
			mu.Unlock()
			wg.Go(func() {
				if err := b.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		l := f.leader()
		time.Sleep(20 * time.Second)
		list, _, _, err := l.Servers(ctx)
		if err != nil || len(list) != 3 {
			t.Errorf("servers %v, error %v", list, err)
		}
		if f.nodes[3].HasState() {
			t.Error("the latecomer has a cluster of its own")
		}
		cancel()
		wg.Wait()
	})
}

// Who comes to a cluster says that it has found it, and that it is a member once
// the table names it; not before, and nothing of a cluster that is missing.
func TestBootstrap_saysThatItWasTakenIn(t *testing.T) {
	t.Parallel()
	for _, expect := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			defer f.stopAll()
			f.start(0, "a0", "")
			f.bootstrap(1)
			l, s := f.leader(), f.start(1, "a1", "")
			var log lines
			b := NewBootstrap(BootstrapConfig{
				Node: s.Node, Self: Starter{ID: s.id, Addr: s.addr, Expect: expect},
				Log:  hclog.New(&hclog.LoggerOptions{Output: &log}),
				View: func() []Starter { return []Starter{{ID: l.id, Addr: l.addr, Expect: 1, Cluster: [16]byte{1}}} },
			})
			ended := make(chan error, 1)
			go func() { ended <- b.Run(t.Context()) }()
			says := func(when string, found, named int) {
				t.Helper()
				time.Sleep(3 * time.Second)
				text := log.text()
				if strings.Count(text, "found a cluster") != found || strings.Count(text, "member of the cluster: members=2") != named || strings.Contains(text, "no cluster") {
					t.Errorf("%s it says:\n%s", when, text)
				}
			}
			says("before it is taken in", 1, 0)
			if err := l.AddNonvoter(t.Context(), s.id, s.addr); err != nil {
				t.Fatal(err)
			}
			says("before the table names it", 1, 0)
			d := ring.NewDraft(l.Table())
			d.First([16]byte{1}, ring.Settings{}, []ring.Key{{ID: 1}}, []ring.Candidacy{
				{ID: l.id, Name: "m0", Addr: l.addr, Boot: member.Boot{1}}, {ID: s.id, Name: "m1", Addr: s.addr, Boot: member.Boot{2}},
			})
			if _, err := l.Propose(t.Context(), d.Change()); err != nil {
				t.Fatal(err)
			}
			says("as a member", 1, 1)
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// lines is what a log holds.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func TestQuiet(t *testing.T) {
	t.Parallel()
	s := &said{last: make(map[string]*saying)}
	now := time.Now()
	told, held := 0, 0
	for i := range 150 {
		n, ok := s.due(now.Add(time.Duration(i)*time.Second), "failed to heartbeat to", []any{"peer", "a", "error", i})
		if ok {
			told++
			held += n
		}
	}
	if told != 3 || held != 118 {
		t.Errorf("told %d times, %d held back", told, held)
	}
	if _, ok := s.due(now, "failed to heartbeat to", []any{"peer", "b"}); !ok {
		t.Error("another peer was not told of")
	}
}

func FuzzDecodeSnapshot(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{snapshotVersion, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if table, err := decodeSnapshot(b); err == nil && table == nil {
			t.Fatal("neither table nor error")
		}
	})
}
