package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"

	"github.com/rondel-project/rondel/agent/accesslog"
	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/consensus"
	"github.com/rondel-project/rondel/agent/gossip"
	"github.com/rondel-project/rondel/agent/httpapi"
	"github.com/rondel-project/rondel/agent/internal/netloop"
	"github.com/rondel-project/rondel/agent/leader"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/proxy"
	"github.com/rondel-project/rondel/agent/replicate"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/store"
	"github.com/rondel-project/rondel/agent/telemetry"
	"github.com/rondel-project/rondel/agent/version"
	"github.com/rondel-project/rondel/agent/wire"
)

// ErrSettings means that this agent's configuration differs from what the
// cluster has agreed on.
var ErrSettings = errors.New("the configuration differs from the cluster's")

// ReloadFunc reads the configuration again and hands it to Agent.Reload.
type ReloadFunc func() (changed, needsRestart []string, err error)

// Env is the world outside an agent. The zero value is this machine; tests put
// a network in memory there.
type Env struct {
	Listen func(addr netip.AddrPort) (net.Listener, error)
	Dial   func(ctx context.Context, addr string) (net.Conn, error)
	Gossip memberlist.Transport
	Clock  func() replicate.Time
	// NoDoors leaves out the HTTP API and the proxy.
	NoDoors bool
}

// Agent is one agent. It is made by New, runs once, and is stopped by the end
// of Run's context, Shutdown or Leave.
type Agent struct {
	log    hclog.Logger
	cfg    atomic.Pointer[config.Runtime]
	reload ReloadFunc
	id     *identity

	transport *wire.Transport
	gossip    *gossip.Gossip
	roster    *roster
	raft      *consensus.Node
	bootstrap *consensus.Bootstrap
	leader    *leader.Leader
	control   *control
	calls     *calls
	engine    *replicate.Engine
	loops     *netloop.Pool // of connections that carry much and ask for little
	store     *store.Store  // nil: sessions are in memory only
	services  *services
	metrics   *telemetry.Metrics
	doors     *doors

	feed feed
	*life

	tableMu      sync.Mutex // guards tableChanged
	tableChanged chan struct{}
	rejoin       chan struct{} // retry_join has changed
	votes        atomic.Bool   // this member votes in Raft
	settled      atomic.Bool   // the cluster's settings were compared with ours
}

// life is how far an agent is on its way.
type life struct {
	fatal   chan error
	ending  chan struct{} // closed when Shutdown or Leave has begun the end
	closing chan struct{} // closed when Leave wants what users reach to end
	closed  chan struct{} // closed when that has ended, its requests done
	ended   chan struct{} // closed when Run returns
	endOnce sync.Once
	parting sync.Once   // closes closing
	leaving atomic.Bool // asked to leave for good
	parted  atomic.Bool // and takes no requests about sessions any more
	gone    atomic.Bool // has left
}

// doors are the listeners that users reach.
type doors struct {
	proxy      *proxy.Proxy
	secure     *secure
	access     *accesslog.Log
	api        *httpapi.Server
	proxyPorts []proxyPort // guarded by the feed's mu, once the agent runs
	listen     func(netip.AddrPort) (net.Listener, error)
	apiPorts   []net.Listener
}

// New builds an agent: it opens the data directory and binds every port, and
// nobody hears of it before Run. On an error nothing is left behind.
func New(cfg config.Runtime, log hclog.Logger, reload ReloadFunc) (*Agent, error) {
	return NewIn(Env{}, cfg, log, reload)
}

// NewIn is New in another world.
func NewIn(env Env, cfg config.Runtime, log hclog.Logger, reload ReloadFunc) (_ *Agent, err error) {
	var undo []func() error
	defer func() {
		if err != nil {
			for i := len(undo) - 1; i >= 0; i-- {
				err = errors.Join(err, undo[i]())
			}
		}
	}()
	env = env.withDefaults()
	a := &Agent{
		log: log.Named("agent"), reload: reload, roster: newRoster(), metrics: telemetry.New(),
		life: &life{
			fatal: make(chan error, 1), ending: make(chan struct{}), ended: make(chan struct{}),
			closing: make(chan struct{}), closed: make(chan struct{}),
		},
		tableChanged: make(chan struct{}), rejoin: make(chan struct{}, 1),
	}
	a.cfg.Store(&cfg)
	if a.id, err = openIdentity(cfg.Node.DataDir); err != nil {
		return nil, err
	}
	undo = append(undo, a.id.close)
	cluster, err := a.id.cluster()
	if err != nil {
		return nil, err
	}

	rpc, err := env.Listen(cfg.Network.RPC)
	if err != nil {
		return nil, portError("agent-to-agent", "-rpc-port", cfg.Network.RPC, err)
	}
	a.loops = netloop.NewPool(netloop.Options{Round: func() { a.engine.Flush() }, Failed: a.fail})
	a.transport = wire.New(wire.Options{Listener: rpc, Dial: env.Dial, Self: a.hello, Loops: a.loops}, log)
	undo = append(undo, a.transport.Close)

	if err = a.buildDoors(env, cfg, log, &undo); err != nil {
		return nil, err
	}
	if err = a.buildServices(cfg, log); err != nil {
		return nil, err
	}
	if err = a.buildGossip(env, cfg, log, cluster); err != nil {
		return nil, err
	}
	undo = append(undo, a.gossip.Close)
	a.services.gossip = a.gossip
	a.roster.set(a.gossip.Members(), a.gossip.Pruned())
	self := a.gossip.Self()
	a.services.catalog.SetMember(self.ID, self.Name, self.Addr.String(), self.Status)
	if err = a.buildConsensus(cfg, log); err != nil {
		return nil, err
	}
	undo = append(undo, a.raft.Close)
	if err = a.keepOnDisk(cfg, log); err != nil {
		return nil, err
	}
	a.buildSessions(env, cfg, log)
	if err = a.loadFromDisk(); err != nil {
		return nil, err
	}
	if err = a.openDoors(cfg, log); err != nil {
		return nil, err
	}
	if err = a.publishMetrics(); err != nil {
		return nil, err
	}
	return a, nil
}

func (e Env) withDefaults() Env {
	if e.Listen == nil {
		e.Listen = func(addr netip.AddrPort) (net.Listener, error) { return net.Listen("tcp", addr.String()) }
	}
	if e.Clock == nil {
		e.Clock = newClock().now
	}
	return e
}

func portError(what, option string, addr netip.AddrPort, err error) error {
	return fmt.Errorf("listen for %s connections on %s: %w (choose another with %s)", what, addr, err, option)
}

// hello is what this agent says of itself to another. Before the first table
// has come, gossip has told which cluster this is: strangers were turned away
// there.
func (a *Agent) hello() wire.Hello {
	h := wire.Hello{ID: a.id.id, Name: a.cfg.Load().Node.Name, Boot: a.id.boot}
	if a.engine != nil {
		h.Cluster = a.engine.View().Table.Cluster
	}
	if h.Cluster == ([16]byte{}) {
		h.Cluster = a.roster.cluster()
	}
	return h
}

func (a *Agent) buildGossip(env Env, cfg config.Runtime, log hclog.Logger, cluster [16]byte) (err error) {
	var keys []string
	if len(cfg.Join.Encrypt) > 0 {
		keys = []string{encodeKey(cfg.Join.Encrypt)}
	}
	meta := member.Meta{
		Cluster: cluster, ID: a.id.id, Boot: a.id.boot,
		RPCPort: portOf(a.transport.Addr()), Expect: uint16(cfg.Join.BootstrapExpect),
		Witness: cfg.Node.Witness, Version: version.Get().Version,
	}
	if a.doors != nil {
		meta.HTTPPort, meta.ProxyPort = portOf(a.doors.apiPorts[0].Addr()), a.doors.proxyPortOf()
	}
	a.gossip, err = gossip.New(gossip.Options{
		Name: cfg.Node.Name, Meta: meta, Profile: gossip.Profile(cfg.Join.Profile),
		Bind: cfg.Network.Gossip, Advertise: cfg.Network.Advertise, Transport: env.Gossip,
		Keys: keys, DataDir: cfg.Node.DataDir, Log: log,
		OnEvent:  a.onMember,
		OnRecord: func(id member.ID, key string, value []byte) { a.services.onRecord(id, key, value) },
	})
	if err != nil {
		return fmt.Errorf("%w (choose another port with -gossip-port, another address with -bind)", err)
	}
	return nil
}

func portOf(a net.Addr) uint16 {
	p, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return 0
	}
	return p.Port()
}

func (a *Agent) buildConsensus(cfg config.Runtime, log hclog.Logger) (err error) {
	a.raft, err = consensus.Open(consensus.Config{
		ID: a.id.id, Dir: a.id.path("raft"), Log: log, Advertise: a.rpcAddr(),
		Stream: a.transport.RaftLayer(),
		Address: func(id member.ID) string {
			p, _ := a.roster.peer(id)
			return p.Addr
		},
	})
	if err != nil {
		return err
	}
	a.calls = &calls{transport: a.transport, roster: a.roster, boot: a.id.boot}
	a.bootstrap = consensus.NewBootstrap(consensus.BootstrapConfig{
		Node: a.raft, Log: log, Voters: leader.VoterCount, View: a.starters, Ask: a.calls.askBootstrap,
		Self: consensus.Starter{ID: a.id.id, Addr: a.rpcAddr(), Expect: cfg.Join.BootstrapExpect},
	})
	return nil
}

// rpcAddr is where others reach this agent.
func (a *Agent) rpcAddr() string { return a.gossip.Self().RPC().String() }

// starters are the members that could make a cluster together.
func (a *Agent) starters() []consensus.Starter {
	var out []consensus.Starter
	for _, m := range a.roster.members() {
		if m.Here() {
			out = append(out, consensus.Starter{ID: m.ID, Addr: m.RPC().String(), Expect: m.Expect, Cluster: m.Cluster})
		}
	}
	return out
}

func (a *Agent) buildSessions(env Env, cfg config.Runtime, log hclog.Logger) {
	a.control = &control{self: a.id.id, log: log.Named("control"), transport: a.transport, raft: a.raft, roster: a.roster}
	p := replicate.DefaultParams(cfg.Session.TTL)
	a.engine = replicate.NewEngine(replicate.Options{
		Config: replicate.Config{
			ID: a.id.id, Boot: a.id.boot, Params: p, Defaults: defaults(cfg), Seed: uint64(time.Now().UnixNano()),
			Disk: a.store != nil,
		},
		Disk: a.diskOf(),
		Link: &link{transport: a.transport, control: a.control}, Clock: env.Clock, OnTable: a.onTable,
	}, log)
	a.control.engine = a.engine
	a.leader = leader.NewLeader(leader.Config{
		Self: a.id.id, Cluster: firstCluster(cfg), Raft: a.raft, Send: a.control, Probe: a.calls,
		Gossip: a.roster, Servers: raftServers{a.raft, a.calls}, Log: log,
		Now: func() time.Duration { return time.Duration(env.Clock().Mono) },
	})
	a.control.leader = a.leader

	a.transport.Handle(kindReplication, func(from wire.Hello, payloads [][]byte) {
		a.engine.PeerClock(from.ID, from.Boot, from.Wall, from.Offset)
		if err := a.engine.Receive(from.ID, from.Boot, payloads); err != nil {
			a.log.Warn("message refused", "member", from.Name, "error", err)
		}
	})
	a.transport.Handle(kindControl, a.control.receive)
	a.transport.Handle(kindRelayed, a.control.receiveRelayed)
	a.transport.OnUnreachable(a.onUnreachable)
	a.calls.handle(a.raft, a.bootstrap, a.engine)
	handleWishes(a.transport, a.leader)
}

func defaults(cfg config.Runtime) replicate.Defaults {
	s := cfg.Session
	return replicate.Defaults{TTL: s.TTL, MaxAge: s.MaxAge, MaxSize: int(s.MaxSize), MaxCount: s.MaxCount}
}

// settings are what the whole cluster has to agree on.
func settings(cfg config.Runtime) ring.Settings {
	c := cfg.Cluster
	s := ring.Settings{
		Replicas: uint8(c.Replicas), Refuse: c.OnPartition == config.Refuse, Disk: c.Durability == config.Disk,
		MinCopies: 2, ReapAfter: c.ReapAfter, StallTimeout: c.StallTimeout,
	}
	if cfg.Join.BootstrapExpect == 1 || c.Replicas == 0 {
		s.MinCopies = 1
	}
	return s
}

// firstCluster is what a cluster begins with, if this agent comes to lead the
// first term of one.
func firstCluster(cfg config.Runtime) leader.Cluster {
	c := leader.Cluster{Expect: cfg.Join.BootstrapExpect, Settings: settings(cfg)}
	rand.Read(c.ID[:])
	k := ring.Key{ID: 1}
	rand.Read(k.Secret[:])
	c.Keys = []ring.Key{k}
	return c
}
