package consensus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

const (
	snapshotEvery = 1024 // entries
	trailing      = 2048 // entries
	markEvery     = time.Second
	lookEvery     = 200 * time.Millisecond
	closeWait     = 5 * time.Second
)

// Node is this agent's Raft server. Its methods may be called from any
// goroutine; those that need Raft return ErrNotRunning before Run has started
// it and after it has ended.
type Node struct {
	cfg    Config
	log    hclog.Logger
	stores *stores
	fsm    *machine
	raft   atomic.Pointer[raft.Raft]
	ready  chan struct{} // closed when raft is set
	faults chan error    // the first error of the disk or the state machine
	had    bool          // state was there when it was opened

	closing  sync.Once
	closeErr error
}

// Open opens the stores and checks what is in them. It starts nothing that
// outlives Close.
func Open(cfg Config) (*Node, error) {
	cfg.Timings = cfg.Timings.withDefaults()
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	if (cfg.Stream == nil) == (cfg.Transport == nil) {
		return nil, errors.New("raft needs a stream layer or a transport")
	}
	n := &Node{
		cfg: cfg, log: cfg.Log.Named("raft"),
		ready: make(chan struct{}), faults: make(chan error, 1),
	}
	n.fsm = newMachine(n.fault)
	s, err := openStores(cfg.Dir, newQuiet(n.log), n.fault)
	if err != nil {
		return nil, err
	}
	n.stores = s
	n.had, err = raft.HasExistingState(s.guard, s.guard, s.snapshots)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read raft state in %s: %w", cfg.Dir, err), s.close())
	}
	return n, nil
}

func (n *Node) fault(err error) {
	select {
	case n.faults <- err:
	default: // the first one is told
	}
}

// Close closes the stores of a Node whose Run is over, or was never called.
func (n *Node) Close() error {
	n.closing.Do(func() { n.closeErr = n.stores.close() })
	return n.closeErr
}

// Run starts Raft, and blocks until ctx is done or Raft cannot go on: the disk
// failed, an entry could not be understood, or this server was removed from the
// configuration (ErrRemoved). It closes the transport and the stores.
func (n *Node) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, n.Close()) }()
	trans := n.cfg.Transport
	if trans == nil {
		trans = n.network()
	}
	r, err := n.start(trans)
	if err != nil {
		closeTransport(trans)
		return fmt.Errorf("start raft: %w", err)
	}
	n.stores.guard.serves.Store(true)
	n.raft.Store(r)
	close(n.ready)
	err = n.watch(ctx, r)
	n.raft.Store(nil)
	if err != nil && r.State() == raft.Leader {
		n.handOver(ctx, r)
	}
	done := make(chan error, 1)
	go func() { done <- r.Shutdown().Error() }()
	select {
	case down := <-done:
		if down != nil {
			err = errors.Join(err, fmt.Errorf("stop raft: %w", down))
		}
	case <-time.After(closeWait):
		err = errors.Join(err, errors.New("stop raft: it did not end in time"))
	}
	closeTransport(trans)
	return err
}

// handOver gives leadership away before Raft ends for a fault of this server.
// Where that fails the others find out by themselves.
func (n *Node) handOver(ctx context.Context, r *raft.Raft) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := n.await(ctx, r.LeadershipTransfer); err != nil {
		n.log.Warn("could not hand over leadership", "error", err)
	}
}

func closeTransport(t raft.Transport) {
	if c, ok := t.(interface{ CloseStreams() }); ok {
		defer c.CloseStreams() // Close leaves the idle connections open
	}
	if c, ok := t.(raft.WithClose); ok {
		_ = c.Close() // nothing is left to be sent
	}
}

// start makes the Raft server. Its library panics on some damaged logs.
func (n *Node) start(trans raft.Transport) (r *raft.Raft, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v: %w", p, ErrDamaged)
		}
	}()
	c := n.raftConfig()
	return raft.NewRaft(c, n.fsm, n.stores.guard, n.stores.guard, n.stores.snapshots, trans)
}

func (n *Node) raftConfig() *raft.Config {
	t := n.cfg.Timings
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(n.cfg.ID)
	c.HeartbeatTimeout, c.ElectionTimeout = t.Heartbeat, t.Election
	c.LeaderLeaseTimeout, c.CommitTimeout = t.Lease, t.Commit
	c.SnapshotInterval = t.SnapshotGap
	c.SnapshotThreshold, c.TrailingLogs = snapshotEvery, trailing
	if n.cfg.SnapshotEvery > 0 {
		c.SnapshotThreshold = n.cfg.SnapshotEvery
	}
	if n.cfg.Trailing > 0 {
		c.TrailingLogs = n.cfg.Trailing
	}
	c.Logger = newQuiet(n.log)
	c.NoLegacyTelemetry = true
	return c
}

// network makes the transport over the stream layer.
func (n *Node) network() raft.Transport {
	cfg := &raft.NetworkTransportConfig{
		Stream:  advertised{n.cfg.Stream, n.cfg.Advertise},
		MaxPool: 3, MaxRPCsInFlight: 2,
		Timeout: n.cfg.Timings.Transport,
		Logger:  newQuiet(n.log.Named("net")),

		ServerAddressProvider: directory{n},
	}
	return raft.NewNetworkTransportWithConfig(cfg)
}

// watch returns when Raft has to end.
func (n *Node) watch(ctx context.Context, r *raft.Raft) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	mark := time.NewTicker(markEvery)
	defer mark.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-n.faults:
			return fmt.Errorf("raft cannot go on: %w", err)
		case <-mark.C:
			if err := n.stores.guard.mark(); err != nil {
				return fmt.Errorf("raft cannot go on: %w", err)
			}
		case <-look.C:
			if r.State() == raft.Shutdown {
				return ErrRemoved
			}
		}
	}
}

// Ready is closed when Run has started Raft.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// HasState reports whether this server has ever been part of a cluster: state
// was there when it was opened, or has come since.
func (n *Node) HasState() bool {
	if n.had {
		return true
	}
	if r := n.raft.Load(); r != nil {
		return r.LastIndex() > 0 || r.CurrentTerm() > 0
	}
	return false
}

// Table returns the table as this server has applied it. It is never nil and
// never changes.
func (n *Node) Table() *ring.Table { return n.fsm.current() }

// Watch returns the table and a channel that is closed when there is a newer
// one.
func (n *Node) Watch() (*ring.Table, <-chan struct{}) { return n.fsm.watch() }

// directory lets Raft dial a server where it is now, and nobody else there: one
// that lost its disk comes back to the same address as another server, knows of
// no term, and must not vote in the place of the former.
type directory struct{ *Node }

// ServerAddr implements raft.ServerAddressProvider.
func (d directory) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	addr := d.address(id)
	switch {
	case addr == "" && d.raft.Load() == nil:
		return "", fmt.Errorf("no address of server %s is known yet", id) // Raft has the configuration's
	case id == raft.ServerID(d.cfg.ID):
		return addr, nil // what the others are told
	}
	return raft.ServerAddress(id) + "@" + addr, nil
}

func (d directory) address(id raft.ServerID) raft.ServerAddress {
	if d.cfg.Address != nil {
		if addr := d.cfg.Address(member.ID(id)); addr != "" {
			return raft.ServerAddress(addr)
		}
	}
	r := d.raft.Load()
	if r == nil {
		return ""
	}
	for _, s := range r.GetConfiguration().Configuration().Servers {
		if s.ID == id {
			return s.Address
		}
	}
	return ""
}

// advertised is a stream layer that names the address told to others, since
// the one it listens on may be none.
type advertised struct {
	raft.StreamLayer
	addr string
}

// Addr implements net.Listener.
func (a advertised) Addr() net.Addr {
	if a.addr == "" {
		return a.StreamLayer.Addr()
	}
	return advertisedAddr(a.addr)
}

// Dial implements raft.StreamLayer for addresses as directory gives them.
func (a advertised) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, addr, named := strings.Cut(string(to), "@")
	if !named {
		return a.StreamLayer.Dial(to, timeout)
	}
	if addr == "" {
		return nil, fmt.Errorf("server %s is not here any more", id)
	}
	if d, ok := a.StreamLayer.(ServerDialer); ok {
		return d.DialServer(member.ID(id), addr, timeout)
	}
	return a.StreamLayer.Dial(raft.ServerAddress(addr), timeout)
}

type advertisedAddr string

func (advertisedAddr) Network() string  { return "tcp" }
func (a advertisedAddr) String() string { return string(a) }
