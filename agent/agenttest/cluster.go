package agenttest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent"
	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/gossip/gossiptest"
	"github.com/rondel-project/rondel/agent/replicate"
)

const (
	httpPort   = 8700
	gossipPort = 8701
	rpcPort    = 8702
)

// Cluster is a set of agents on one network. What makes faults or fails the
// test is for the test's own goroutine; Members, Names, Leader and Owner are for
// any.
type Cluster struct {
	t       testing.TB
	o       options
	net     *network
	gossip  *gossiptest.Network
	users   *host
	start   time.Time
	all     []*Member // with those whose process has ended
	islands [][]string
	links   [][2]string
	oneWay  [][2]string
	slow    map[string]time.Duration

	mu      sync.Mutex // guards members
	members []*Member  // the last process of each name
}

// Member is one agent, for the life of its process.
type Member struct {
	Name string
	Addr netip.Addr
	*agent.Agent
	*Client

	c      *Cluster
	dir    string
	host   *host
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of Run; valid once done is closed
	log    *tail
	ended  atomic.Bool // by a verb of the cluster's
}

type options struct {
	expect    int
	disk      string
	ahead     map[string]time.Duration
	configure []func(name string, cfg *config.Runtime)
}

// Option changes how a cluster is made.
type Option func(*options)

// Expect sets bootstrap_expect; else it is the number of agents, at most 3.
func Expect(n int) Option { return func(o *options) { o.expect = n } }

// OnDisk gives each agent a data directory below dir. Without it all is in
// memory, and an agent that restarts is a new member.
func OnDisk(dir string) Option { return func(o *options) { o.disk = dir } }

// ClockAhead sets the wall clock of a member wrong, by a negative time back.
func ClockAhead(name string, d time.Duration) Option {
	return func(o *options) {
		if o.ahead == nil {
			o.ahead = map[string]time.Duration{}
		}
		o.ahead[name] = d
	}
}

// Refuse makes members that are cut off refuse writes.
func Refuse() Option {
	return Configure(func(_ string, cfg *config.Runtime) { cfg.Cluster.OnPartition = config.Refuse })
}

// Configure changes each agent's configuration before it starts.
func Configure(f func(name string, cfg *config.Runtime)) Option {
	return func(o *options) { o.configure = append(o.configure, f) }
}

// NewCluster starts n agents, m1 to mn, and waits until they are one healthy
// cluster. It must be called in a bubble. All ends with the test.
func NewCluster(t testing.TB, n int, opts ...Option) *Cluster {
	t.Helper()
	c := NewEmptyCluster(t, append([]Option{Expect(min(n, 3))}, opts...)...)
	for range n {
		c.Add()
	}
	c.WaitHealthy(30 * time.Second)
	return c
}

// NewEmptyCluster returns a network without agents.
func NewEmptyCluster(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	c := &Cluster{t: t, net: newNetwork(), gossip: gossiptest.NewNetwork(), start: time.Now(), slow: map[string]time.Duration{}}
	c.o.expect = 3
	for _, o := range opts {
		o(&c.o)
	}
	c.users = c.net.host(netip.AddrFrom4([4]byte{10, 9, 9, 9}))
	t.Cleanup(c.close)
	return c
}

// Add starts one more agent, and returns at once.
func (c *Cluster) Add(configure ...func(*config.Runtime)) *Member {
	c.t.Helper()
	name := fmt.Sprintf("m%d", len(c.last())+1)
	m, err := c.TryStart(name, configure...)
	if err != nil {
		c.t.Fatalf("start %s: %v", name, err)
	}
	return m
}

// TryStart starts an agent under a name, which may be the name of one whose
// process has ended.
func (c *Cluster) TryStart(name string, configure ...func(*config.Runtime)) (*Member, error) {
	m := &Member{Name: name, Addr: addrOf(name), c: c, done: make(chan struct{}), log: &tail{}}
	if c.o.disk != "" {
		m.dir = filepath.Join(c.o.disk, name)
	}
	cfg := c.config(m)
	for _, f := range append(c.o.configure, func(_ string, cfg *config.Runtime) {
		for _, f := range configure {
			f(cfg)
		}
	}) {
		f(name, &cfg)
	}
	m.host = c.net.host(m.Addr)
	env := agent.Env{
		Listen: m.host.listen, Dial: m.host.dial, Clock: c.clock(name),
		Gossip: c.gossip.Transport(netip.AddrPortFrom(m.Addr, gossipPort)),
	}
	log := hclog.New(&hclog.LoggerOptions{
		Level: hclog.Debug, Output: m.log, TimeFormat: "04:05.000",
		Exclude: func(_ hclog.Level, msg string, _ ...any) bool { return msg == "request" },
	})
	a, err := agent.NewIn(env, cfg, log, nil)
	if err != nil {
		m.host.kill()
		c.gossip.Crash(netip.AddrPortFrom(m.Addr, gossipPort))
		return nil, err
	}
	m.Agent = a
	m.Client = c.client(m.Addr)
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	go func() {
		defer close(m.done)
		m.err = a.Run(ctx)
	}()
	c.keep(m)
	c.link()
	return m, nil
}

func (c *Cluster) keep(m *Member) {
	c.all = append(c.all, m)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, old := range c.members {
		if old.Name == m.Name {
			c.members = slices.Clone(c.members)
			c.members[i] = m
			return
		}
	}
	c.members = append(c.members, m)
}

func addrOf(name string) netip.Addr {
	var i int
	if _, err := fmt.Sscanf(name, "m%d", &i); err != nil || i < 1 || i > 250 {
		panic("members are called m1 to m250, not " + name)
	}
	return netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
}

// clock follows the bubble's time, but for a wall clock that is wrong.
func (c *Cluster) clock(name string) func() replicate.Time {
	ahead := c.o.ahead[name]
	return func() replicate.Time {
		now := time.Now()
		return replicate.Time{Mono: int64(time.Hour + now.Sub(c.start)), Wall: now.Add(ahead).UnixMilli()}
	}
}

func (c *Cluster) config(m *Member) config.Runtime {
	loaded, err := config.Load(config.Options{
		Host: config.Host{Name: m.Name},
		Flags: []config.Setting{
			{Option: "node_name", Value: m.Name}, {Option: "data_dir", Value: "/nowhere"},
			{Option: "bind", Value: "127.0.0.1"},
		},
	})
	if err != nil {
		c.t.Fatalf("default configuration: %v", err)
	}
	cfg := loaded.Runtime
	cfg.Node.DataDir = m.dir
	n := &cfg.Network
	n.Bind, n.Advertise, n.Client = m.Addr, m.Addr, m.Addr
	n.HTTP, n.Gossip, n.RPC = netip.AddrPortFrom(m.Addr, httpPort), netip.AddrPortFrom(m.Addr, gossipPort), netip.AddrPortFrom(m.Addr, rpcPort)
	cfg.Proxy.HTTP = netip.AddrPort{}
	cfg.Join.BootstrapExpect = c.o.expect
	cfg.Join.Retry = nil
	for i := 1; i <= 3; i++ {
		if seed := addrOf(fmt.Sprintf("m%d", i)); seed != m.Addr && c.o.expect != 1 || seed != m.Addr && i == 1 {
			cfg.Join.Retry = append(cfg.Join.Retry, netip.AddrPortFrom(seed, gossipPort).String())
		}
	}
	return cfg
}

// close ends all agents and waits for them and for the libraries' last timers.
func (c *Cluster) close() {
	c.Heal()
	for _, m := range c.all {
		m.cancel()
	}
	for _, m := range c.all {
		<-m.done
		m.CloseIdle()
		if m.err != nil && !m.ended.Load() && !errors.Is(m.err, context.Canceled) {
			c.t.Errorf("%s ended: %v", m.Name, m.err)
		}
	}
	if c.t.Failed() {
		for _, m := range c.all {
			c.t.Logf("the end of the log of %s:\n%s", m.Name, m.log.text())
		}
	}
	// Time stops when the test's goroutine ends; others still sleep in it.
	time.Sleep(time.Minute)
}

// tail keeps the end of a log.
type tail struct {
	mu    sync.Mutex // guards lines
	lines [][]byte
}

const tailLines = 120

// Write implements io.Writer.
func (l *tail) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == tailLines {
		l.lines = append(l.lines[:0], l.lines[1:]...)
	}
	l.lines = append(l.lines, append([]byte(nil), b...))
	return len(b), nil
}

func (l *tail) text() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []byte
	for _, line := range l.lines {
		all = append(all, line...)
	}
	return all
}
