package proxy

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/accesslog"
	"github.com/rondel-project/rondel/agent/member"
)

const (
	suspicion      = time.Second
	sweepEvery     = time.Second
	clientBuffer   = 8 << 10
	upstreamBuffer = 16 << 10
	bigBuffer      = 64 << 10
)

// Options are what a proxy is made of.
type Options struct {
	Challenges Challenges // nil: no certificate authority asks here

	Config   Config
	Sessions Sessions // nil: no sessions, no cookies
	Bindings Bindings // nil: what is learned is this agent's alone
	TagKey   []byte   // see SetTagKey
	Position int      // see SetPosition
	Start    uint64   // where rounds begin: not always at the same instance after a restart
	Observe  Observers
	Access   *accesslog.Log
	Loops    int // event loops that carry plain requests and tunnels; 0: as many as fit the machine, -1: none
	Log      hclog.Logger
}

// Proxy passes HTTP requests to instances. Its methods may be called from any
// goroutine.
type Proxy struct {
	challenges Challenges // nil: there are none

	log       hclog.Logger
	start     uint64
	sessions  Sessions
	exists    existence
	learned   learned
	arrivals  arrivals
	spent     spent
	tokens    atomic.Pointer[tokenKeys]
	date      clock
	observe   Observers
	unrouted  Observer       // of requests without a route
	access    *accesslog.Log // nil: there is none
	buffers   sync.Pool      // of *[]byte, bigBuffer long, for large bodies
	outs      sync.Pool      // of *[]byte, for requests under way
	loops     *loops
	entrances entrances

	snap     atomic.Pointer[snapshot]
	position atomic.Uint64
	draining atomic.Bool

	mu       sync.Mutex // guards what snapshots are built from, and what is gone
	cfg      Config
	input    []Instance
	tagKey   []byte
	self     member.ID
	places   map[member.ID]Place
	backends map[key]*backend
	turns    map[string]*turn
	groups   map[string]*group // by service
	retiring []*retiring       // instances that are gone, but perhaps not their requests
	retired  Totals            // of those whose requests are, too

	connMu sync.Mutex // guards conns; taken when a connection comes or goes
	conns  map[*conn]struct{}
	gate   *gate
	wg     sync.WaitGroup // one per connection, here or in a loop
	muxes  sync.WaitGroup // one per connection to an instance that speaks HTTP/2
}

// New returns a proxy that has no instances yet. It starts nothing.
func New(opt Options) (*Proxy, error) {
	if err := opt.Config.Validate(); err != nil {
		return nil, err
	}
	log := opt.Log
	if log == nil {
		log = hclog.NewNullLogger()
	}
	p := &Proxy{
		log:      log.Named("proxy"),
		sessions: opt.Sessions,
		exists:   newExistence(),
		learned:  newLearned(opt.Bindings),
		arrivals: arrivals{newRecent[time.Time](learnedHalf)},
		spent:    spent{since: time.Now().Truncate(time.Millisecond)},
		observe:  opt.Observe,
		start:    opt.Start,
		access:   opt.Access,
		cfg:      opt.Config,
		tagKey:   opt.TagKey,
		backends: map[key]*backend{},
		turns:    map[string]*turn{},
		groups:   map[string]*group{},
		conns:    map[*conn]struct{}{},
		gate:     newGate(),
	}
	p.challenges = opt.Challenges
	if p.observe == nil {
		p.observe = silence{}
	}
	p.unrouted = p.observe.Route("")
	p.buffers.New = func() any { b := make([]byte, bigBuffer); return &b }
	p.outs.New = func() any { b := make([]byte, 0, 4<<10); return &b }
	p.loops = newLoops(p, opt.Loops)
	p.SetPosition(opt.Position)
	p.mu.Lock()
	p.rebuildLocked()
	p.mu.Unlock()
	return p, nil
}

// Reload puts another configuration in force for requests that come from now
// on. Turns and bindings go on. It changes nothing if it returns an error.
func (p *Proxy) Reload(cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cfg = cfg
	p.rebuildLocked()
	return nil
}

// SetInstances replaces what is known about instances, all members' of all
// services. Connections and counters of those that stay are kept.
func (p *Proxy) SetInstances(list []Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.onlyLoadsLocked(list) {
		return // they change all the time
	}
	p.input = append([]Instance(nil), list...)
	p.rebuildLocked()
}

// SetTagKey sets the secret that instance tags in cookies are made with. It is
// the same on all agents; until it is known no cookie is set. Clients whose
// tags were made with another key are rebound.
func (p *Proxy) SetTagKey(key []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tagKey = append([]byte(nil), key...)
	p.rebuildLocked()
}

// SetPosition sets at which place of the round this agent begins, counted from
// Options.Start: its position in the ring, so that agents that began together,
// with few new clients each, stay even together.
func (p *Proxy) SetPosition(n int) { p.position.Store(p.start + uint64(max(n, 0))) }

// config returns the configuration in force.
func (p *Proxy) config() *Config { return &p.snap.Load().cfg }

func (p *Proxy) rebuildLocked() {
	now := time.Now()
	instances := make([]*instance, 0, len(p.input))
	kept := make(map[key]*backend, len(p.input))
	for _, in := range p.input {
		k := keyOf(&in)
		if kept[k] != nil {
			continue // said twice
		}
		b := p.backends[k]
		if b == nil {
			b = newBackend(k, p.groupLocked(in.Service), p.config, p.loops.n, p.muxes.Go)
		}
		kept[k] = b
		b.report(&in)
		i := &instance{backend: b, Instance: in, tag: tagFor(p.tagKey, in.Member, in.ID)}
		i.cameUp(now)
		if i.share(now) < 1 {
			b.group.slowly(time.Unix(0, b.up.Load()).Add(in.SlowStart))
		}
		instances = append(instances, i)
	}
	for k, b := range p.backends {
		if kept[k] == nil {
			b.close()
			p.loops.forget(b)
			p.retiring = append(p.retiring, &retiring{b, now})
		}
	}
	p.backends = kept
	turns := make(map[string]*turn, len(p.cfg.Routes))
	for _, r := range p.cfg.Routes {
		t := p.turns[r.Name]
		if t == nil {
			t = &turn{observer: p.observe.Route(r.Name)}
		}
		p.groupLocked(r.Service)
		turns[r.Name] = t
	}
	for name := range p.turns {
		if turns[name] == nil {
			p.observe.Forget(name)
		}
	}
	p.turns = turns
	snap := build(p.cfg, instances, turns, p.groups)
	snap.place(p.self, p.places)
	p.snap.Store(snap)
	members := map[*group][]*instance{}
	for _, i := range instances {
		members[i.group] = append(members[i.group], i)
	}
	for service, g := range p.groups {
		g.set(members[g])
		if len(members[g]) == 0 && !leadsTo(p.cfg.Routes, service) {
			delete(p.groups, service)
		}
	}
}

func (p *Proxy) groupLocked(service string) *group {
	g := p.groups[service]
	if g == nil {
		g = &group{}
		p.groups[service] = g
	}
	return g
}

func leadsTo(routes []Route, service string) bool {
	return slices.ContainsFunc(routes, func(r Route) bool { return r.Service == service })
}

// onlyLoads reports whether nothing but loads differs, and takes those in.
func (p *Proxy) onlyLoadsLocked(list []Instance) bool {
	if len(list) != len(p.input) {
		return false
	}
	for n := range list {
		a, b := list[n], p.input[n]
		a.Load, a.Machine = b.Load, b.Machine
		if a != b {
			return false
		}
	}
	for n := range list {
		in := &list[n]
		p.backends[keyOf(in)].report(in)
	}
	return true
}

// Run serves the listeners, these or those that Listen has set, until ctx ends, then stops gracefully: it accepts
// no more, lets requests finish for as long as Timeouts.Drain, and closes the
// rest. It returns when every connection has ended. A listener that fails
// stops it too. The listeners are closed; a proxy runs once.
func (p *Proxy) Run(ctx context.Context, listeners ...net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, 1)
	if len(listeners) > 0 {
		p.Listen(listeners...)
	}
	accepted := p.entrances.begin(ctx, p.loops.listen, func(d *entrance) {
		if err := p.accept(ctx, d); err != nil {
			select {
			case errs <- err:
			default:
			}
			cancel()
		}
	})
	var sweeper sync.WaitGroup
	sweeper.Go(func() { p.sweep(ctx) })
	accepted()
	sweeper.Wait()
	p.drain()
	p.mu.Lock()
	list := make([]*backend, 0, len(p.backends))
	for _, b := range p.backends {
		b.close()
		list = append(list, b)
	}
	p.mu.Unlock()
	p.loops.close(list)
	p.muxes.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// Close ends all connections at once; it cuts a graceful stop short.
func (p *Proxy) Close() {
	p.draining.Store(true)
	p.loops.abort()
	p.connMu.Lock()
	defer p.connMu.Unlock()
	for c := range p.conns {
		c.abort()
	}
}

// adopt gives a connection a goroutine.
func (p *Proxy) adopt(c *conn) {
	p.connMu.Lock()
	p.conns[c] = struct{}{}
	p.connMu.Unlock()
	p.wg.Add(1)
	go p.carry(c, handed{})
}

// carry is the goroutine of a connection.
func (p *Proxy) carry(c *conn, h handed) {
	if !c.serve(h) {
		return
	}
	if c.stream == nil {
		c.peer.leave()
	}
	p.connMu.Lock()
	delete(p.conns, c)
	p.connMu.Unlock()
	p.wg.Done()
}

// sweep closes connections to instances that nobody has used for a while.
func (p *Proxy) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			p.mu.Lock()
			p.retireLocked(now)
			idle := p.cfg.Timeouts.Upstream
			list := make([]*backend, 0, len(p.backends))
			for _, b := range p.backends {
				list = append(list, b)
			}
			p.mu.Unlock()
			for _, b := range list {
				b.sweep(now, idle)
				p.returned(b, now)
				if b.group.waiting.Load() > 0 {
					b.group.serve() // suspicion may have ended
				}
			}
			p.loops.sweep(now, list)
		}
	}
}

// drain waits for requests to end, and makes them end when the time is up.
func (p *Proxy) drain() {
	p.draining.Store(true)
	p.loops.drain()
	p.connMu.Lock()
	for c := range p.conns {
		c.endIfIdle()
	}
	p.connMu.Unlock()
	done := make(chan struct{})
	go func() { p.wg.Wait(); close(done) }()
	limit := time.NewTimer(p.snap.Load().cfg.Timeouts.Drain)
	defer limit.Stop()
	select {
	case <-done:
		return
	case <-limit.C:
	}
	p.Close()
	<-done
}
