package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rondel-project/rondel/agent/member"
)

// counting is a state machine that counts.
type counting struct{ n int }

func (c *counting) Apply(*raft.Log) any                 { c.n++; return c.n }
func (c *counting) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("not needed") }
func (c *counting) Restore(r io.ReadCloser) error       { return r.Close() }

func TestRaftLayer_threeServers(t *testing.T) {
	t.Parallel()
	var (
		nodes   []*node
		servers []raft.Server
		rafts   []*raft.Raft
	)
	for i := range 3 {
		n := prepare(t, patient(Options{Listener: listenLoopback(t)}), hello(fmt.Sprint("m", i))).start(t)
		nodes = append(nodes, n)
		servers = append(servers, raft.Server{ID: raft.ServerID(n.peer.ID), Address: raft.ServerAddress(n.peer.Addr)})
	}
	for _, n := range nodes {
		conf := raft.DefaultConfig()
		conf.LocalID = raft.ServerID(n.peer.ID)
		conf.Logger = quiet
		conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = 300*time.Millisecond, 300*time.Millisecond, 200*time.Millisecond
		store := raft.NewInmemStore()
		trans := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: n.RaftLayer(), MaxPool: 3, Timeout: 10 * time.Second, Logger: quiet})
		if err := raft.BootstrapCluster(conf, store, store, raft.NewInmemSnapshotStore(), trans, raft.Configuration{Servers: servers}); err != nil {
			t.Fatal(err)
		}
		r, err := raft.NewRaft(conf, &counting{}, store, store, raft.NewInmemSnapshotStore(), trans)
		if err != nil {
			t.Fatal(err)
		}
		rafts = append(rafts, r)
		t.Cleanup(func() {
			if err := errors.Join(r.Shutdown().Error(), trans.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	var entry uint64
	eventually(t, "an applied entry", func() bool {
		for _, r := range rafts {
			if r.State() != raft.Leader {
				continue
			}
			if f := r.Apply([]byte("x"), patience); f.Error() == nil {
				entry = f.Index()
				return true
			}
		}
		return false
	})
	eventually(t, "the entry everywhere", func() bool {
		return !slices.ContainsFunc(rafts, func(r *raft.Raft) bool { return r.AppliedIndex() < entry })
	})
}

func TestRaftLayer_anotherServerAtTheAddressRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a, b := mem(t, n, hello("a")), mem(t, n, hello("b"))
		go func() {
			for {
				if c, err := b.RaftLayer().Accept(); err != nil {
					return
				} else {
					defer c.Close()
				}
			}
		}()
		var refused *RefusedError
		if _, err := a.RaftLayer().DialServer(member.NewID(), "b", time.Second); !errors.As(err, &refused) || refused.Reason != WrongMember {
			t.Errorf("another: %v", err)
		}
		c, err := a.RaftLayer().DialServer(b.peer.ID, "b", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	})
}

func TestRaftLayer_closeEndsItsConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a, b := mem(t, n, hello("a")), mem(t, n, hello("b"))
		accepted := make(chan net.Conn, 1)
		go func() {
			c, err := b.RaftLayer().Accept()
			if err != nil {
				t.Error(err)
			}
			accepted <- c
		}()
		here, err := a.RaftLayer().Dial("b", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		there := <-accepted
		go io.WriteString(here, "ping")
		got := make([]byte, 4)
		if _, err := io.ReadFull(there, got); err != nil || string(got) != "ping" {
			t.Fatalf("%q, %v", got, err)
		}
		b.RaftLayer().Close()
		if _, err := here.Read(got); err != io.EOF {
			t.Fatal(err)
		}
		here.Close()
		if _, err := b.RaftLayer().Accept(); !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
		// The other lanes go on.
		a.Send(b.peer, Foreground, kindText, nil)
		b.until(t, "a message", func() bool { return len(b.messages()) == 1 })
	})
}
