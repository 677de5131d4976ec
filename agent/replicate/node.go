package replicate

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// Config is what a core is made with.
type Config struct {
	ID       member.ID
	Boot     member.Boot
	Params   Params
	Defaults Defaults
	Disk     bool   // log what is held, and let promises wait for it
	Seed     uint64 // of jitter and of the ids of operations
}

// Stats counts what happened in a core since it was made.
type Stats struct {
	Writes, Reads    uint64
	Takeovers        uint64 // slots opened that another member had owned
	Divergence       uint64 // differences found between copies in sync: must stay 0
	MergeConflicts   uint64 // attributes that both sides of a partition had changed
	Expired, Evicted uint64
	Degraded         uint64 // writes answered with fewer copies
	Repaired         uint64 // records sent again by anti-entropy
	// Filled counts the records that learners have confirmed, and FilledBytes
	// their size, about.
	Filled, FilledBytes uint64
}

// Node is one member's part of the protocol. It is not safe for concurrent
// use; each method is one step and fills out.
type Node struct {
	cfg    Config
	p      Params
	self   ring.Holder // Num is 0 until the table names this boot
	t      *ring.Table
	keys   *session.Keyring
	refuse bool

	now Time
	out *Out
	rng *rand.Rand

	slots   [ring.Slots]slot
	store   *session.Table
	peers   map[number]*peer
	calls   map[uint64]*call
	callq   []*call  // calls in the order in which they came, ended ones among them
	pending []*write // writes in the order in which they began, ended ones among them
	seq     uint64
	hlc     uint64
	clocks  clocks
	journal journal
	seals   map[number][]SlotRe
	adds    []ring.Candidate
	telling telling
	handed  []ring.Slot // given to other owners in this step
	single  int         // slots with no copy but this one that wait to be filled: they go first
	syncing int         // slots being filled

	lease  lease
	detach detach
	wakeup wakeup

	slow       []ring.Holder // copies that held something up in the last tick
	reportedAt int64
	dropAt     int64
	unsettled  []unsettled
	returned   []*returnedSession // that wait for an answer, ready ones among them
	discarded  uint32             // Member.Discards that it has followed
	contact    *int64             // when it last counted for something: was granted a lease, or logged what it has loaded
	offerAt    int64
	forgetAt   ring.Slot
	ttl        time.Duration // session.ttl at the start, which Params.Tombstone goes by
	Stats      Stats
}

// slot is what a member keeps of one slot beside its records.
type slot struct {
	active   uint64 // the Re under which this member serves it; 0: closed
	act      *activation
	add      *adding
	writes   map[session.ID]*write
	waiting  []*op
	lag      map[lagKey]*lagging
	lagq     []*lagging
	det      *detachedSlot
	gone     []ring.Holder // copies that were found dead
	returned map[session.ID]*returnedSession
	repair   int64       // when its copies are compared next
	cmp      *comparison // under way
	listed   int64       // when this member, as a learner, last said what it holds
	fillAt   int64       // when a learner may be filled, at the earliest
	full     int64       // since when it has all the copies but one, for Params.NewHolder
}

// peer is what a member knows of another.
type peer struct {
	epoch       ring.Epoch // the newest table it is known to have
	tableSent   ring.Epoch
	tableSentAt int64
	heard       int64
	back        int64 // when it was heard again after it had been found dead
	badUntil    int64 // local evidence that it cannot be reached
	refused     bool
	reportedAt  int64
	touch       *Touch
	touchFrom   uint64    // the first round of which touch tells
	touchNext   []toldUse // to be sent when touch has been acknowledged
	touchKept   int       // of touchNext when it was last looked through
	touchAt     int64
	touchSince  int64 // since when it has confirmed none
	bulk        bulk
}

// NewNode returns a core that has no table yet.
func NewNode(cfg Config) *Node {
	return &Node{
		cfg: cfg, p: cfg.Params, ttl: cfg.Defaults.TTL, t: &ring.Table{}, keys: session.NewKeyring(nil),
		rng:     rand.New(rand.NewPCG(cfg.Seed, binary.LittleEndian.Uint64(cfg.Boot[:8]))),
		store:   session.NewTable(cfg.Params.Tombstone),
		telling: telling{round: 1},
		journal: journal{on: cfg.Disk, whole: ring.Slots}, peers: map[number]*peer{}, calls: map[uint64]*call{}, seals: map[number][]SlotRe{},
	}
}

// Self returns this member's number and boot; the number is 0 while the table
// does not name this boot.
func (n *Node) Self() ring.Holder { return n.self }

// Table returns the newest table.
func (n *Node) Table() *ring.Table { return n.t }

// Keys returns the keyring of the newest table.
func (n *Node) Keys() *session.Keyring { return n.keys }

// Sessions returns the records that this member holds. Read it only between
// steps.
func (n *Node) Sessions() *session.Table { return n.store }

func (n *Node) begin(t Time, out *Out) {
	n.out = out
	if n.now.Mono != 0 && t.since(n.now.Mono) > n.p.Asleep {
		n.fallAsleep(t.Mono)
	}
	n.now = t
}

// end sends what the step has collected.
func (n *Node) end() {
	if n.telling.urgent {
		n.tellRound()
		n.answerTold()
	}
	if len(n.seals) > 0 {
		for _, num := range sortedKeys(n.seals) {
			if m := n.t.Member(num); m != nil {
				n.send(m.Holder(), &Seal{n.seals[num]})
			}
		}
		clear(n.seals)
	}
	if len(n.adds) > 0 {
		n.out.Leader = append(n.out.Leader, &ring.AddInSync{From: n.self, Slots: n.adds})
		n.adds = nil
	}
	n.out = nil
}

func sortedKeys[V any](m map[number]V) []number {
	keys := make([]number, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (n *Node) peer(num number) *peer {
	p := n.peers[num]
	if p == nil {
		p = &peer{}
		n.peers[num] = p
	}
	return p
}

// send sends m, and before it the table, where the receiver is not known to
// have this one.
func (n *Node) send(to ring.Holder, m Message) { n.post(to, m, false) }

func (n *Node) post(to ring.Holder, m Message, bulk bool) {
	if to.Num == n.self.Num || to.Num == 0 {
		return
	}
	p := n.peer(to.Num)
	if p.epoch < n.t.Epoch && (p.tableSent < n.t.Epoch || n.now.since(p.tableSentAt) > n.p.Resend) {
		p.tableSent, p.tableSentAt = n.t.Epoch, n.now.Mono
		n.out.Sends = append(n.out.Sends, Send{To: to, Msg: &TableUpdate{n.t.Since(p.epoch)}})
	}
	n.out.Sends = append(n.out.Sends, Send{To: to, Bulk: bulk, Msg: m, After: n.after(m)})
}

// holder returns the present run of num by the table.
func (n *Node) holder(num number) ring.Holder {
	if m := n.t.Member(num); m != nil {
		return m.Holder()
	}
	return ring.Holder{}
}

// owns reports whether the table names this run as h's owner.
func (n *Node) owns(h ring.Slot) bool {
	s := &n.t.Slots[h]
	return n.self.Num != 0 && s.Owner == n.self.Num && s.InSyncHas(n.self)
}

// open reports whether this member serves h now.
func (n *Node) open(h ring.Slot) bool {
	return n.slots[h].active != 0 && n.slots[h].active == n.t.Slots[h].Re
}

// Adopt takes a newer table, as this agent's own Raft server brings it.
func (n *Node) Adopt(t Time, tab *ring.Table, out *Out) {
	n.begin(t, out)
	n.adopt(tab)
	n.end()
}

func (n *Node) adopt(tab *ring.Table) {
	if tab == nil || tab.Epoch <= n.t.Epoch {
		return
	}
	old := n.t
	n.t, n.out.Table = tab, tab
	n.refuse = tab.Settings.Refuse
	if !slices.Equal(old.Keys, tab.Keys) {
		n.keys = session.NewKeyring(tab.Keys)
	}
	n.lease.tabled = n.now.Mono
	n.attached()
	was := n.self
	n.self = ring.Holder{}
	if m := tab.ByID(n.cfg.ID); m != nil && m.Boot == n.cfg.Boot {
		n.self = m.Holder()
		if was.Num == 0 {
			n.lease.named = n.now.Mono
		}
		n.followDiscards(m.Discards, old)
	}
	n.noteStates(old)
	for h := range ring.Slot(ring.Slots) {
		if tab.Slots[h].Re != old.Slots[h].Re || was != n.self {
			n.reconfigure(h, &old.Slots[h], &tab.Slots[h])
		} else if n.slots[h].add != nil {
			n.reviseAdding(h)
		}
	}
	n.handTouches()
	n.retryCalls()
}

// reconfigure follows a change of owner or of the copies in sync (N1, N4).
func (n *Node) reconfigure(h ring.Slot, old, s *ring.SlotState) {
	sl := &n.slots[h]
	n.noteGone(h, old, s)
	mine := n.owns(h)
	fast := mine && sl.active != 0 && sl.active == old.Re && s.PrevRe == old.Re && old.Owner == n.self.Num
	sl.act = nil
	n.endDetachedSlot(h)
	sl.cmp = nil
	if fast {
		n.reviseAdding(h)
		n.reviseLag(h)
		if len(s.InSync) < len(old.InSync) {
			sl.full = n.now.Mono // its copies are one short from now on
		}
		sl.active = s.Re
		for _, w := range n.writesOf(h) {
			w.need = n.copies(h)
			n.sendWrite(w)
			n.checkCommit(w)
		}
		return
	}
	was := sl.active != 0
	sl.active = 0
	if was || len(sl.writes) > 0 { // a detached member writes to slots that it does not serve
		n.closeSlot(h)
	}
	// Who was being filled may hold a write that ends here without a copy in
	// sync: it is compared anew. What was announced of it was under the old Re.
	n.endAdding(h)
	n.endReturned(h)
	n.reviseLag(h)
	if was && !mine {
		n.handed = append(n.handed, h)
	}
	if mine {
		sl.fillAt = n.now.Mono + n.rng.Int64N(int64(2*n.p.Resend)) // not all owners at once (N10)
		n.activate(h)
	} else {
		n.retryWaiting(h)
	}
}

// closeSlot ends the writes of a slot that is not served any more: pending
// ones may or may not have happened, queued ones have not (N1).
func (n *Node) closeSlot(h ring.Slot) {
	sl := &n.slots[h]
	for _, w := range n.writesOf(h) {
		w.done = true
		n.unlog(w)
		for _, o := range append([]*op{w.op}, w.sharers...) {
			n.finish(o, lostOwner())
		}
		for _, o := range slices.Concat(w.queue, w.after) {
			n.finish(o, retry())
		}
	}
	sl.writes = nil
	n.retryWaiting(h)
}

func (n *Node) retryWaiting(h ring.Slot) {
	waiting := n.slots[h].waiting
	n.slots[h].waiting = nil
	for _, o := range waiting {
		n.finish(o, retry())
	}
}

// writesOf returns the slot's writes in the order in which they began.
func (n *Node) writesOf(h ring.Slot) []*write {
	ws := make([]*write, 0, len(n.slots[h].writes))
	for id, w := range n.slots[h].writes {
		if id == w.id { // a rotation stands there under both ids
			ws = append(ws, w)
		}
	}
	slices.SortFunc(ws, func(a, b *write) int { return int(a.seq) - int(b.seq) })
	return ws
}

// copies returns all that must acknowledge a write to h beside this member:
// the other members in sync and the one being added (W3). A detached member
// asks only those that gossip sees alive.
func (n *Node) copies(h ring.Slot) []need {
	var out []need
	for _, x := range n.t.Slots[h].InSync {
		if x != n.self && (!n.isDetached() || n.detach.alive[x]) {
			out = append(out, need{who: x})
		}
	}
	if a := n.slots[h].add; a != nil && !slices.ContainsFunc(out, func(x need) bool { return x.who == a.who }) {
		out = append(out, need{who: a.who})
	}
	return out
}

// Tick does what is due. The driver calls it every 25 ms or so.
func (n *Node) Tick(t Time, out *Out) {
	n.begin(t, out)
	n.tickClocks()
	n.tickLease()
	n.tickWakeup()
	n.tickDetach()
	n.tickReturned()
	n.tickCalls()
	n.slow = n.slow[:0]
	n.tickWrites()
	n.tickSlots()
	n.tickTold()
	n.tickReport()
	n.tickExpiry()
	n.tickDrop()
	n.end()
}

// forgetOps lets the copies in one slot forget operations that need not be
// remembered any more, so that idle sessions cost nothing for them anywhere.
func (n *Node) forgetOps() {
	n.forgetAt = (n.forgetAt + 1) % ring.Slots
	n.store.Forget(n.forgetAt, n.now.Mono)
}

// tickSlots goes on with activations, fillings and comparisons.
func (n *Node) tickSlots() {
	n.forgetOps()
	n.single = 0
	for h := range ring.Slot(ring.Slots) {
		if len(n.t.Slots[h].InSync) == 1 && n.open(h) && n.slots[h].add == nil && n.fillable(h) {
			n.single++
		}
	}
	for h := range ring.Slot(ring.Slots) {
		sl := &n.slots[h]
		if sl.act != nil {
			n.tickActivation(h)
		}
		if !n.open(h) {
			continue
		}
		n.tickAdding(h)
		n.tickLag(h)
		if sl.repair <= n.now.Mono {
			n.compare(h)
		}
	}
}
