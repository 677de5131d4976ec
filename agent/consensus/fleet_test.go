package consensus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

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
		if err := f.nodes[i].Bootstrap(f.t.Context(), list); err != nil && !errors.Is(err, ErrHasState) { // those before it may have been faster
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
		<-time.After(50 * time.Millisecond)
	}
	f.t.Fatal("no leader")
	return nil
}

// await waits until all servers have the table of that epoch.
func (f *fleet) await(e ring.Epoch) {
	f.t.Helper()
	for range 2400 {
		ok := true
		for _, s := range f.nodes {
			ok = ok && s.Table().Epoch >= e
		}
		if ok {
			return
		}
		<-time.After(25 * time.Millisecond)
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

// change is made by whoever leads. Outside a bubble that need not be the one of a
// moment ago.
func (f *fleet) change(next member.Number) (table *ring.Table) {
	f.t.Helper()
	f.byLeader("change the table", func(l *server) error {
		err := l.Barrier(f.t.Context())
		if err == nil {
			table, err = l.Propose(f.t.Context(), &ring.Change{Base: l.Table().Epoch, NextNum: next})
		}
		return err
	})
	return table
}

// byLeader does something at a leader until one has done it.
func (f *fleet) byLeader(what string, do func(l *server) error) {
	f.t.Helper()
	for range 100 {
		err := do(f.leader())
		if err == nil {
			return
		}
		f.t.Logf("%s: %v", what, err)
	}
	f.t.Fatalf("no leader can %s", what)
}
