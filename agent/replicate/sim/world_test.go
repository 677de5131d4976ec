package sim

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/replicate"
	"github.com/rondel-project/rondel/agent/ring"
)

const (
	us = int64(time.Microsecond)
	ms = int64(time.Millisecond)
	sc = int64(time.Second)
)

// wallBase is the wall clock at the beginning of a run, in Unix milliseconds.
const wallBase = int64(1_800_000_000_000)

// scenario says what happens in a run.
type scenario struct {
	seed       uint64
	refuse     bool
	partitions bool
	members    int
	whole      bool          // all slots are in use, not a few
	hasty      bool          // gossip and probes give up within a lease, so that only its rules keep reads right
	late       bool          // the last member joins when sessions are there already
	operator   bool          // moves slots, rebalances, and members leave for good
	hermit     bool          // one member is away for longer than deletions are remembered (E2)
	tight      bool          // queues are short, so that they fill
	disk       bool          // durability = "disk"
	lazy       bool          // fsync = "everysec": a loss of power takes what was written last
	replicas   uint8         // beside the owner
	syncSlots  int           // Params.SyncSlots
	downMax    time.Duration // of the leader (E2)
	reapAfter  time.Duration // ring.reap_after
	length     time.Duration // of the part with clients and faults
}

func (s scenario) String() string {
	mode := "serve"
	if s.refuse {
		mode = "refuse"
	}
	if s.partitions {
		mode += "+partitions"
	}
	switch {
	case s.lazy:
		mode += ", disk with fsync everysec"
	case s.disk:
		mode += ", disk"
	default:
		mode += ", memory"
	}
	if s.hermit {
		mode += ", hermit"
	}
	if s.tight {
		mode += ", tight"
	}
	return fmt.Sprintf("seed %d (%s, %d members)", s.seed, mode, s.members)
}

// world is one run.
type world struct {
	scenario
	rng    *rand.Rand
	now    int64 // true time, nanoseconds
	seq    int64
	events eventHeap
	moves  int // addresses given to restarted members
	hosts  []*host
	byID   map[member.ID]int
	net    network
	raft   raft
	load   load
	check  checker
	stats  map[string]int
	trace  uint64 // changes with every step: equal traces mean equal runs
	log    int    // length of SIM_LOG: 1 shows events, 2 messages too
}

// event is something to happen at a time. Those of a host wait while it is
// paused.
type event struct {
	at, seq int64
	host    int // -1: none
	f       func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*h = old[:len(old)-1]
	return e
}

func newWorld(s scenario) *world {
	w := &world{
		scenario: s, rng: rand.New(rand.NewPCG(s.seed, 0x5eed)), byID: map[member.ID]int{}, stats: map[string]int{},
		log: len(os.Getenv("SIM_LOG")),
	}
	w.net.init(w)
	w.raft.init(w)
	for i := range s.members {
		h := &host{
			w: w, idx: i, id: member.IDFromBytes([16]byte(w.bytes(16))), name: fmt.Sprint("m", i), addr: fmt.Sprint("10.0.0.", i+1),
			rate: 1 + (2*w.rng.Float64()-1)*0.01, offset: w.between(sc, 1000*sc), wallOff: w.between(-1500, 1500),
		}
		if s.disk {
			h.plate = &plate{h: h}
		}
		w.hosts = append(w.hosts, h)
		w.byID[h.id] = i
	}
	w.check.init(w)
	w.load.init(w)
	if s.hermit {
		w.at(w.between(4*sc, 8*sc), -1, w.hermitage)
	}
	for i, h := range w.hosts {
		if s.late && i == s.members-1 {
			w.at(w.between(3*sc, 6*sc), -1, h.restart)
			continue
		}
		h.start()
	}
	w.raft.manage()
	return w
}

// at lets f happen after d, on host if that is not negative.
func (w *world) at(d int64, host int, f func()) {
	w.seq++
	heap.Push(&w.events, event{w.now + max(d, 0), w.seq, host, f})
}

// run lets time pass until the given moment.
func (w *world) run(until int64) {
	for len(w.events) > 0 && w.events[0].at <= until && !w.check.over() {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		if e.host >= 0 && w.hosts[e.host].paused > w.now {
			w.at(w.hosts[e.host].paused-w.now, e.host, e.f)
			continue
		}
		e.f()
	}
	w.now = max(w.now, until)
}

func (w *world) between(a, b int64) int64 { return a + w.rng.Int64N(b-a+1) }
func (w *world) chance(p float64) bool    { return w.rng.Float64() < p }

func (w *world) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(w.rng.Uint32())
	}
	return b
}

func (w *world) logf(format string, args ...any) {
	if w.log > 0 {
		fmt.Printf("%10.4f "+format+"\n", append([]any{float64(w.now) / float64(sc)}, args...)...)
	}
}

func (w *world) note(args ...any) {
	f := fnv.New64a()
	fmt.Fprint(f, w.trace, w.now, args)
	w.trace = f.Sum64()
}

// host is one machine with its agent, which may have crashed.
type host struct {
	w       *world
	idx     int
	id      member.ID
	name    string
	addr    string
	boot    member.Boot
	up      bool
	ending  bool // SIGTERM: asks for its slots to be taken
	paused  int64
	rate    float64 // of its clock
	offset  int64
	wallOff int64 // milliseconds

	core     *replicate.Node
	out      replicate.Out
	cached   *ring.Table // the last table, kept over restarts
	plate    *plate      // what it keeps of sessions on its disk; nil: nothing
	leaving  bool        // as ending, but for good
	away     int64       // a hermit until then
	granted  int64       // true time at which its last grant ends
	reads    uint64      // Stats.Reads and Writes after its last step
	writes   uint64
	lead     *term // while it takes itself for the leader
	leader   int   // who leads, as it believes; -1: nobody
	gossip   gossip
	held     held
	calls    map[uint64]func(*replicate.Answer)
	last     uint64
	tabled   ring.Epoch
	diverged uint64
}

func (h *host) mono() int64 { return h.offset + int64(float64(h.w.now)*h.rate) }

func (h *host) time() replicate.Time {
	return replicate.Time{Mono: h.mono(), Wall: wallBase + h.w.now/ms + h.wallOff}
}

// awake reports whether the process runs and is not paused.
func (h *host) awake() bool { return h.up && h.paused <= h.w.now }

func (h *host) start() {
	w := h.w
	h.up, h.ending, h.leaving, h.boot = true, false, false, member.Boot(w.bytes(16))
	h.granted, h.reads, h.writes, h.held = 0, 0, 0, held{gate: h.plate != nil}
	h.calls, h.lead, h.leader, h.tabled, h.diverged = map[uint64]func(*replicate.Answer){}, nil, -1, 0, 0
	h.gossip.init(h)
	h.core = replicate.NewNode(replicate.Config{
		ID: h.id, Boot: h.boot, Params: w.params(), Disk: w.disk, Seed: w.rng.Uint64(),
		Defaults: replicate.Defaults{TTL: sessionTTL, MaxAge: 12 * time.Hour, MaxSize: 1 << 20},
	})
	if h.plate != nil {
		h.plate.load()
	}
	if h.cached != nil && w.chance(0.7) {
		h.step(func(t replicate.Time, out *replicate.Out) { h.core.Adopt(t, h.cached, out) })
	}
	boot := h.boot
	h.every(boot, 25*ms, 40*ms, func() { h.step(h.core.Tick) })
	h.every(boot, 90*ms, 110*ms, h.gossip.tick)
	h.every(boot, 900*ms, 1100*ms, h.greet)
	w.logf("start m%d boot %v", h.idx, h.boot)
}

// every runs f again and again while the process lives.
func (h *host) every(boot member.Boot, least, most int64, f func()) {
	h.w.at(h.w.between(least, most), h.idx, func() {
		if h.up && h.boot == boot {
			f()
			h.every(boot, least, most, f)
		}
	})
}

// crash ends the process, with power the whole machine.
func (h *host) crash(power bool) {
	h.w.logf("crash m%d boot %v", h.idx, h.boot)
	h.w.check.ended(h)
	if h.plate != nil {
		h.plate.proves()
	}
	h.up, h.core, h.lead, h.paused = false, nil, nil, 0
	if w := h.w; w.raft.leader == h.idx {
		w.raft.leader, w.raft.lost = -1, w.now+w.between(600*ms, 1500*ms)
	}
	for _, handle := range sortedHandles(h.calls) {
		h.calls[handle](nil)
	}
	h.calls = nil
	if h.plate != nil {
		h.plate.cut(power)
	}
}

// step lets the core take one step and sends what comes of it.
func (h *host) step(f func(replicate.Time, *replicate.Out)) {
	w := h.w
	h.out.Reset()
	f(h.time(), &h.out)
	t := h.core.Table()
	w.note(h.idx, t.Epoch, len(h.out.Sends), len(h.out.Answers), len(h.out.Leader))
	w.check.stepped(h)
	if h.out.Table != nil {
		h.cached = h.out.Table
	}
	if h.plate != nil {
		h.keep()
	}
	for _, s := range h.out.Sends {
		if l := w.net.letter(h, t.Epoch, s); h.held.waits(s.After) {
			h.held.outs = append(h.held.outs, heldOut{after: s.After, letter: l})
		} else {
			w.net.post(h, l)
		}
	}
	for _, m := range h.out.Leader {
		w.net.toLeader(h, m)
	}
	for i := range h.out.Answers {
		if a := h.out.Answers[i]; h.held.waits(a.After) {
			h.held.outs = append(h.held.outs, heldOut{after: a.After, answer: &a})
		} else {
			h.answer(&a)
		}
	}
}

func (h *host) answer(a *replicate.Answer) {
	if done := h.calls[a.Handle]; done != nil {
		delete(h.calls, a.Handle)
		done(a)
	}
}

// greet shows the core another member's wall clock, as a new connection does.
func (h *host) greet() {
	o := h.w.hosts[h.w.rng.IntN(len(h.w.hosts))]
	if o == h || !o.awake() || !h.w.net.linked(h.idx, o.idx) {
		return
	}
	who, ahead := o.core.Self(), o.time().Wall-h.time().Wall
	h.step(func(t replicate.Time, out *replicate.Out) {
		h.core.PeerClock(t, who, time.Duration(ahead)*time.Millisecond, out)
	})
}

func (w *world) params() replicate.Params {
	p := replicate.DefaultParams(sessionTTL)
	p.Repair, p.NewHolder, p.TouchEvery = 5*time.Second, 3*time.Second, 2*time.Second
	p.SyncSlots, p.Away = w.syncSlots, w.downMax
	if w.hermit {
		p.Tombstone = hermitTomb
	}
	if w.tight {
		p.MaxWaiting, p.MaxQueue = 12, 3
	}
	return p
}

const (
	sessionTTL = 30 * time.Minute
	// hermitTomb is how long a run with a hermit remembers deletions. No client
	// comes back to a session that it ended so long after it.
	hermitTomb = 40 * time.Second
)
