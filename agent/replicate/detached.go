package replicate

import (
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// detach is a member's life without a leader, in serve mode (S2): members that
// hear no grant go by gossip, and what they acknowledge is merged later.
type detach struct {
	count     uint32 // times that this member was detached
	on        bool
	sinceWall int64
	alive     map[ring.Holder]bool
	epoch     ring.Epoch         // of the table when it began
	via       [ring.Slots]number // who served the slot when this member last asked for it, detached
	viaUntil  int64              // until then requests go that way
}

// viaFor is how long after a partition requests for a session first go to the
// member that served it meanwhile.
const viaFor = 10 * time.Second

// detachedSlot is what a detached member that is not the slot's owner knows of
// its sessions.
type detachedSlot struct {
	count uint32
	byID  map[session.ID]*detachedSession
	order []*detachedSession
}

// detachedSession is one session for which the other copies are asked before
// it is served.
type detachedSession struct {
	id      session.ID
	askedAt int64
	asked   []ring.Holder // that have not answered
	all     bool          // every copy in sync has answered: what is absent does not exist
	ready   bool
	waiting []*op
}

// Alive takes the members that gossip sees alive.
func (n *Node) Alive(t Time, alive []ring.Holder, out *Out) {
	n.begin(t, out)
	before := n.detach.alive
	n.detach.alive = make(map[ring.Holder]bool, len(alive))
	more := false
	for _, x := range alive {
		n.detach.alive[x] = true
		more = more || !before[x]
	}
	if n.detach.on {
		for h := range ring.Slot(ring.Slots) {
			if more {
				n.endDetachedSlot(h) // whoever has come may know more of these sessions
			}
		}
		n.retryCalls()
	}
	n.end()
}

func (n *Node) isDetached() bool { return n.detach.on }

// tickDetach looks whether there is a leader. A newer table is word of one, too:
// who can bring it was in touch with one, and knows of changes that the members
// that gossip shows do not.
func (n *Node) tickDetach() {
	on := !n.refuse && n.self.Num != 0 && n.now.since(max(n.lease.sent, n.lease.named, n.lease.tabled)) > n.p.Lease
	if on && !n.detach.on {
		n.detach.on, n.detach.sinceWall, n.detach.epoch = true, n.now.Wall, n.t.Epoch
		if n.detach.viaUntil <= n.now.Mono {
			clear(n.detach.via[:])
		}
		n.detach.count++
		n.retryCalls()
	}
	if !n.detach.on {
		n.tickOffers()
		return
	}
	for h := range ring.Slot(ring.Slots) {
		if d := n.slots[h].det; d != nil {
			n.tickDetachedSlot(h, d)
		}
	}
}

// offerFirst reports whether the call has to wait until the owner has what this
// member acknowledged of the session in its place. A request that came before
// that would change the owner's older record, and its later stamp would win
// over all that was done meanwhile (S6).
func (n *Node) offerFirst(c *call, owner number) bool {
	e := n.store.Get(c.slot, c.req.ID)
	to := n.holder(owner)
	if n.refuse || e == nil || !e.Unsettled || c.offeredTo == to && e.Rec.Version().Compare(c.offered) <= 0 {
		return false
	}
	if c.offeredTo != to || n.now.since(c.offeredAt) >= n.p.Resend {
		c.offeredAt, c.offeredTo, c.offered = n.now.Mono, to, session.Version{}
		n.post(to, &Offer{SlotRe{c.slot, n.t.Slots[c.slot].Re}, n.storedUpdate(e)}, false)
	}
	return true
}

// servedBy returns the member that served the slot while this one was detached,
// if a request had better go by way of that one: it knows what it has not yet
// offered. 0: straight to the owner.
func (n *Node) servedBy(h ring.Slot, owner number) number {
	d := &n.detach
	if d.on && n.t.Epoch == d.epoch {
		d.viaUntil = n.now.Mono + int64(viaFor)
		// The owner by the table may be seen again before any newer table is.
		if v := d.via[h]; v == 0 || v == owner || !d.alive[n.holder(v)] {
			d.via[h] = owner
			return 0
		}
	}
	if v := d.via[h]; n.now.Mono < d.viaUntil && v != owner && v != n.self.Num && n.holder(v).Num != 0 && n.peer(v).badUntil <= n.now.Mono {
		return v
	}
	return 0
}

// attached ends the time without a leader.
func (n *Node) attached() {
	if !n.detach.on {
		return
	}
	n.detach.on = false
	n.keepOld()
	for h := range ring.Slot(ring.Slots) {
		n.endDetachedSlot(h)
	}
	n.retryCalls()
}

// endDetachedSlot lets those that wait for copies to be asked look for the
// owner again.
func (n *Node) endDetachedSlot(h ring.Slot) {
	d := n.slots[h].det
	if d == nil {
		return
	}
	n.slots[h].det = nil
	for _, s := range d.order {
		for _, o := range s.waiting {
			n.finish(o, retry())
		}
	}
}

// effective returns the member that serves h: the owner by the table, or for a
// detached member that sees the owner dead the first living copy (S2). Staying
// with a living owner, rather than going to the slot's home, spares sessions a
// second move in the second that an election takes.
func (n *Node) effective(h ring.Slot) number {
	s := &n.t.Slots[h]
	if !n.detach.on {
		return s.Owner
	}
	alive := func(num number) bool {
		if num == n.self.Num {
			return s.InSyncHas(n.self)
		}
		boot, ok := s.InSyncBoot(num)
		return ok && n.detach.alive[ring.Holder{Num: num, Boot: boot}]
	}
	if alive(s.Owner) {
		return s.Owner
	}
	for _, num := range n.t.Walk(h) {
		if alive(num) {
			return num
		}
	}
	return s.Owner
}

// serveDetached serves a slot that the table gives to another: per session, the
// other copies are asked first.
func (n *Node) serveDetached(h ring.Slot, o *op) {
	if n.wakeup.dozing {
		n.askAwake(h, o)
		return
	}
	sl := &n.slots[h]
	if sl.det == nil || sl.det.count != n.detach.count {
		sl.det = &detachedSlot{count: n.detach.count, byID: map[session.ID]*detachedSession{}}
	}
	s := sl.det.byID[o.req.ID]
	if s == nil {
		s = &detachedSession{id: o.req.ID, askedAt: n.now.Mono, all: true}
		for _, x := range n.t.Slots[h].InSync {
			switch {
			case x == n.self:
			case n.detach.alive[x]:
				s.asked = append(s.asked, x)
				n.send(x, &Fetch{SlotRe{h, n.t.Slots[h].Re}, uint64(n.detach.count), []session.ID{s.id}})
			default:
				s.all = false
			}
		}
		if s.ready = len(s.asked) == 0; s.ready {
			n.takeDetached(h, s.id)
		}
		sl.det.byID[s.id] = s
		sl.det.order = append(sl.det.order, s)
	}
	if !s.ready {
		if len(s.waiting) >= n.p.MaxWaiting {
			n.finish(o, unavailable("overloaded", "too many requests wait for this session's copies to be asked; try again"))
			return
		}
		s.waiting = append(s.waiting, o)
		return
	}
	n.performDetached(h, s, o)
}

func (n *Node) performDetached(h ring.Slot, s *detachedSession, o *op) {
	e := n.store.Get(h, s.id)
	if e == nil && !s.all && !o.req.Kind.Mutates() {
		n.finish(o, unavailable("not_certain", "this part of the cluster does not hold the session, and cannot ask the members that may; try again"))
		return
	}
	if e == nil && !s.all && o.req.Kind.Mutates() {
		parts, err := n.keys.ParseAny(string(s.id))
		if err != nil || !parts.Named && parts.Issued.UnixMilli() < n.detach.sinceWall-1000 {
			n.finish(o, unavailable("not_certain", "this part of the cluster does not hold the session, and cannot ask the members that may; try again"))
			return
		}
	}
	n.perform(h, o)
}

func (n *Node) detachedRecords(from ring.Holder, m *Records) {
	if m.Tag == repairTag {
		for _, u := range m.Updates {
			if u.Full != nil {
				n.takeOffer(m.Slot, ring.Holder{}, u)
			}
		}
		n.returnedRecords(from, m)
		return
	}
	d := n.slots[m.Slot].det
	if d == nil || uint64(d.count) != m.Tag {
		return
	}
	for _, u := range m.Updates {
		if u.Full != nil && d.byID[u.ID] != nil {
			n.storeUpdate(m.Slot, u, false)
		}
	}
	for _, id := range m.Asked {
		if s := d.byID[id]; s != nil && !s.ready {
			s.asked = slices.DeleteFunc(s.asked, func(x ring.Holder) bool { return x == from })
			if len(s.asked) == 0 {
				n.readyDetached(m.Slot, s)
			}
		}
	}
}

func (n *Node) readyDetached(h ring.Slot, s *detachedSession) {
	s.ready = true
	n.takeDetached(h, s.id)
	waiting := s.waiting
	s.waiting = nil
	for _, o := range waiting {
		n.serve(h, o)
	}
}

// takeDetached begins to serve a session in the place of an owner that may have
// known of uses.
func (n *Node) takeDetached(h ring.Slot, id session.ID) {
	if e := n.store.Get(h, id); e != nil {
		n.makeGood(e)
	}
}

func (n *Node) tickDetachedSlot(h ring.Slot, d *detachedSlot) {
	keep := d.order[:0]
	for _, s := range d.order {
		if !s.ready && n.now.since(s.askedAt) > n.p.AskDetach {
			s.all = false
			n.readyDetached(h, s)
		}
		if !s.ready {
			keep = append(keep, s)
		}
	}
	d.order = keep
}
