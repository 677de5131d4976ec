package consensus

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rondel-project/rondel/agent/member"
)

// layer is a plain TCP stream layer.
type layer struct{ net.Listener }

func (layer) Dial(a raft.ServerAddress, d time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", string(a), d)
}

// TestNode_moveOnOneNetwork runs three over sockets and disks; one comes back
// on another port, and is found by its id alone.
func TestNode_movesWithoutALeader(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var mu sync.Mutex
	addrs := make(map[member.ID]string)
	lookup := func(id member.ID) string { mu.Lock(); defer mu.Unlock(); return addrs[id] }
	start := func(i int) (*Node, func() error) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		addrs[idOf(i)] = ln.Addr().String()
		mu.Unlock()
		n, err := Open(Config{
			ID: idOf(i), Dir: filepath.Join(dir, string(idOf(i))), Stream: layer{ln},
			Advertise: ln.Addr().String(), Address: lookup,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- n.Run(ctx) }()
		<-n.Ready()
		return n, func() error { cancel(); return <-done }
	}
	nodes, stops := make([]*Node, 3), make([]func() error, 3)
	var list []Server
	for i := range nodes {
		nodes[i], stops[i] = start(i)
		list = append(list, Server{ID: idOf(i), Addr: lookup(idOf(i)), Voter: true})
	}
	for _, n := range nodes {
		if err := n.Bootstrap(t.Context(), list); err != nil && !errors.Is(err, ErrHasState) { // those before it may have been faster
			t.Fatal(err)
		}
	}
	f := &fleet{t: t, nodes: map[int]*server{}}
	for i, n := range nodes {
		f.nodes[i] = &server{Node: n}
	}
	f.await(f.change(5).Epoch)
	for i := range nodes { // all stop, and come back on other ports
		if err := stops[i](); err != nil {
			t.Error(err)
		}
	}
	for i := range nodes {
		nodes[i], stops[i] = start(i)
		f.nodes[i] = &server{Node: nodes[i]}
	}
	f.await(f.change(6).Epoch)
	for i := range nodes {
		if err := stops[i](); err != nil {
			t.Error(err)
		}
	}
	if _, err := nodes[0].Propose(t.Context(), nil); !errors.Is(err, ErrNotRunning) {
		t.Errorf("propose after the end: %v", err)
	}
}

func TestGuard_tellsOfTheDisk(t *testing.T) {
	t.Parallel()
	mem := raft.NewInmemStore()
	var told error
	g := newGuard(failing{mem}, failing{mem}, func(err error) { told = err })
	if err := g.StoreLog(&raft.Log{Index: 1}); err == nil || told == nil {
		t.Errorf("error %v, told %v", err, told)
	}
	told = nil
	g.serves.Store(true)
	done := make(chan bool)
	go func() { // what Raft would answer with a panic ends its goroutine instead
		defer close(done)
		_ = g.SetUint64([]byte("CurrentTerm"), 4)
		done <- true
	}()
	if <-done || told == nil {
		t.Errorf("Raft carried on, told %v", told)
	}
}

type failing struct{ *raft.InmemStore }

func (failing) StoreLogs([]*raft.Log) error    { return errors.New("disk full") }
func (failing) SetUint64([]byte, uint64) error { return errors.New("disk full") }
