package gossip

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
	"golang.org/x/sync/errgroup"

	"github.com/rondel-project/rondel/agent/member"
)

// Gossip is one agent's part in gossip. Its methods may be used from any
// goroutine; none of them may be called from within OnEvent or OnRecord if it
// takes a context.
type Gossip struct {
	opts    Options
	self    netip.AddrPort
	times   timings
	log     hclog.Logger
	quiet   *quiet
	trans   *tagged
	keyring *memberlist.Keyring
	ml      *memberlist.Memberlist
	queue   *memberlist.TransmitLimitedQueue
	others  atomic.Int32 // members that are here, this one included

	// mu guards what follows. Library callbacks take it with the library's
	// own lock held, so no method of ml may be called under it.
	mu      sync.Mutex
	meta    member.Meta
	list    *list
	own     local
	remotes map[member.ID]*remote
	changed []recordKey
	queued  map[recordKey]struct{}
	fetches map[member.ID]*fetchState
	peers   map[netip.AddrPort]peer
	left    bool

	wakeEvents chan struct{}
	wakeFetch  chan struct{}
	wakeMeta   chan struct{}
	wakeDial   chan struct{}
	wakePeers  chan struct{}
	updating   chan struct{} // one slot: UpdateNode must not run twice at once
	fatal      chan error
	closeOnce  sync.Once
	closeErr   error
}

type recordKey struct {
	id  member.ID
	key string
}

// New checks the options, binds the gossip port and gets ready; nobody knows
// of this agent before Join. Run must follow, or Close.
func New(opts Options) (*Gossip, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	keys, err := ParseKeys(opts.Keys)
	if err != nil {
		return nil, err
	}
	if opts.Log == nil {
		opts.Log = hclog.NewNullLogger()
	}
	if opts.Resolver == nil {
		opts.Resolver = net.DefaultResolver
	}
	times, err := opts.Profile.timings()
	if err != nil {
		return nil, err
	}
	g := &Gossip{
		opts: opts, times: times, log: opts.Log.Named("gossip"), meta: opts.Meta,
		list: newList(), remotes: map[member.ID]*remote{}, queued: map[recordKey]struct{}{},
		fetches: map[member.ID]*fetchState{}, peers: map[netip.AddrPort]peer{},
		own:        local{id: opts.Meta.ID, boot: opts.Meta.Boot, records: map[string][]byte{}},
		wakeEvents: make(chan struct{}, 1), wakeFetch: make(chan struct{}, 1), wakeMeta: make(chan struct{}, 1),
		wakeDial: make(chan struct{}, 1), wakePeers: make(chan struct{}, 1),
		updating: make(chan struct{}, 1), fatal: make(chan error, 1),
	}
	g.quiet = newQuiet(g.log)
	// One send to each of GossipNodes at the least: with fewer, one member of a few
	// may be left out by all others, and hear of it with the next exchange of everything.
	g.queue = &memberlist.TransmitLimitedQueue{RetransmitMult: 4, NumNodes: func() int { return int(g.others.Load()) }}
	if len(keys) > 0 {
		if g.keyring, err = memberlist.NewKeyring(keys, keys[0]); err != nil {
			return nil, fmt.Errorf("gossip keys: %w", err)
		}
	}
	g.loadPeers()
	conf := times.config()
	if err := g.bind(conf); err != nil {
		return nil, err
	}
	conf.Name = opts.Name
	conf.Keyring = g.keyring
	conf.Logger = log.New(libraryLog{g.quiet}, "", 0)
	conf.Delegate, conf.Events, conf.Alive = delegate{g}, delegate{g}, delegate{g}
	conf.Conflict, conf.Merge, conf.Ping = delegate{g}, delegate{g}, delegate{g}
	if g.ml, err = memberlist.Create(conf); err != nil {
		return nil, errors.Join(fmt.Errorf("start gossip: %w", err), g.trans.Shutdown())
	}
	return g, nil
}

// bind opens the port and fixes the address that others are told.
func (g *Gossip) bind(conf *memberlist.Config) error {
	inner := g.opts.Transport
	if inner == nil {
		nt, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{g.opts.Bind.Addr().String()},
			BindPort:  int(g.opts.Bind.Port()),
			Logger:    log.New(libraryLog{g.quiet}, "", 0),
		})
		if err != nil {
			return fmt.Errorf("listen for gossip on %s: %w", g.opts.Bind, err)
		}
		inner = nt
		addr := g.opts.Bind.Addr()
		if g.opts.Advertise.IsValid() {
			addr = g.opts.Advertise
		}
		g.self = netip.AddrPortFrom(addr.Unmap(), uint16(nt.GetAutoBindPort()))
		conf.AdvertiseAddr, conf.AdvertisePort = g.self.Addr().String(), int(g.self.Port())
	} else {
		ip, port, err := inner.FinalAdvertiseAddr("", 0)
		if err != nil {
			return fmt.Errorf("gossip address: %w", err)
		}
		addr, _ := netip.AddrFromSlice(ip)
		g.self = netip.AddrPortFrom(addr.Unmap(), uint16(port))
	}
	conf.BindPort = int(g.self.Port())
	g.trans = newTagged(inner, seals{g.keys}, g)
	g.trans.setCluster(g.meta.Cluster)
	g.trans.start()
	conf.Transport = g.trans
	return nil
}

func (g *Gossip) keys() [][]byte {
	if g.keyring == nil {
		return nil
	}
	return g.keyring.GetKeys()
}

// Addr is the address that others are told.
func (g *Gossip) Addr() netip.AddrPort { return g.self }

// Run makes the callbacks, dials members that are missing and fetches entries,
// until ctx ends, or until it finds that this agent must not go on: then it
// returns an error that wraps ErrNameTaken. The port is closed when it returns.
func (g *Gossip) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, loop := range []func(context.Context){
		g.eventLoop, g.fetchLoop, g.metaLoop, g.dialLoop, g.peersLoop, g.minuteLoop,
	} {
		group.Go(func() error { loop(ctx); return nil })
	}
	group.Go(func() error {
		select {
		case err := <-g.fatal:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	err := group.Wait()
	return errors.Join(err, g.Close())
}

// Close stops gossip without a word, as a crash would; Leave comes before it
// where the agent is to go for good. It may be called more than once.
func (g *Gossip) Close() error {
	g.closeOnce.Do(func() {
		if err := g.ml.Shutdown(); err != nil {
			g.closeErr = fmt.Errorf("stop gossip: %w", err)
		}
	})
	return g.closeErr
}

func (g *Gossip) stop(err error) {
	select {
	case g.fatal <- err:
	default:
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Members returns all members known, sorted by name, this one and those that
// are gone included.
func (g *Gossip) Members() []Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Member, 0, len(g.list.byName))
	for _, m := range g.list.byName {
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Self returns this agent as the others see it.
func (g *Gossip) Self() Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return *g.list.byName[g.opts.Name]
}

// Member returns the member of an id.
func (g *Gossip) Member(id member.ID) (Member, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.list.byID(id); m != nil {
		return *m, true
	}
	return Member{}, false
}

// HealthScore tells how well this agent keeps up with gossip: 0 is well. From
// 3 on its own view of who failed is not to be trusted.
func (g *Gossip) HealthScore() int { return g.ml.GetHealthScore() }

// UpdateMeta changes what this agent tells about itself. ID and Boot stay as
// they are. The others learn of it within a second or so, since updates go out
// at most once a second.
func (g *Gossip) UpdateMeta(change func(*member.Meta)) {
	g.mu.Lock()
	meta := g.meta
	change(&meta)
	meta.ID, meta.Boot = g.meta.ID, g.meta.Boot
	same := meta == g.meta
	moved := meta.Cluster != g.meta.Cluster
	g.meta = meta
	if moved {
		g.dropStrangersLocked()
	}
	g.mu.Unlock()
	if moved {
		g.trans.setCluster(meta.Cluster)
		wake(g.wakeEvents)
	}
	if !same {
		wake(g.wakeMeta)
	}
}

// dropStrangersLocked forgets members of other clusters, which were met before
// this agent had a cluster of its own.
func (g *Gossip) dropStrangersLocked() {
	for name, m := range g.list.byName {
		if name != g.opts.Name && foreign(m.Cluster, g.meta.Cluster) {
			g.list.forget(name)
		}
	}
}

// metaLoop tells the others what UpdateMeta changed.
func (g *Gossip) metaLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.wakeMeta:
		}
		g.announce(ctx, 500*time.Millisecond)
		if !sleep(ctx, time.Second) {
			return
		}
	}
}

// announce sends this agent's metadata to all, with a new incarnation.
func (g *Gossip) announce(ctx context.Context, limit time.Duration) {
	select {
	case g.updating <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-g.updating }()
	g.mu.Lock()
	left := g.left
	g.mu.Unlock()
	if left {
		return
	}
	if err := g.ml.UpdateNode(limit); err != nil {
		g.log.Debug("metadata not sent yet", "error", err)
	}
}

// minuteLoop does what has time.
func (g *Gossip) minuteLoop(ctx context.Context) {
	for sleep(ctx, time.Minute) {
		g.quiet.summarize()
		g.mu.Lock()
		g.list.expire(time.Now())
		g.mu.Unlock()
		wake(g.wakeEvents)
		if n := g.trans.foreign.Swap(0); n > 0 {
			g.log.Warn("packets of another cluster were dropped", "times", n)
		}
	}
}

// sleep waits and reports whether ctx still holds.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
