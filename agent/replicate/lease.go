package replicate

import (
	"github.com/rondel-project/rondel/agent/ring"
)

// lease is this member's standing with the leader.
type lease struct {
	until   int64 // refuse: no read value is taken and no write accepted after it (N2)
	granted int64 // when the last grant came
	sent    int64 // own send time of the Renew that it answered
	named   int64 // when the table first named this run
	tabled  int64 // when the last newer table came
	renewAt int64
	leader  number
	term    uint64
}

// Leader returns the member that granted the last lease, and its term.
func (n *Node) Leader() (member number, term uint64) { return n.lease.leader, n.lease.term }

// Control takes a message from the leader: *ring.Grant, *ring.TableUpdate or
// *ring.AddInSyncNo. Anything else is ignored.
func (n *Node) Control(t Time, msg any, out *Out) {
	n.begin(t, out)
	switch m := msg.(type) {
	case *ring.Grant:
		n.onGrant(m)
	case *ring.TableUpdate:
		n.mergeTable(m.Table)
	case *ring.AddInSyncNo:
		n.onAddInSyncNo(m)
	}
	n.end()
}

// onGrant adopts the table first, then counts the lease from this member's own
// send time (N2).
func (n *Node) onGrant(g *ring.Grant) {
	if g.To.Boot != n.cfg.Boot {
		return
	}
	n.mergeTable(g.Table)
	if g.Sent > n.now.Mono || g.Sent < n.lease.sent {
		return
	}
	n.lease.sent, n.lease.granted = g.Sent, n.now.Mono
	n.lease.leader, n.lease.term = g.Leader, g.Term
	if n.self.Num == 0 || g.To.Num != n.self.Num && g.To.Num != 0 {
		return
	}
	until := g.Sent + int64(float64(n.p.Lease)*(1-n.p.Rho))
	n.lease.until = max(n.lease.until, until)
	n.inContact(g.Sent)
	present := n.now.since(g.Sent) <= n.p.Lease // else the network held it up
	if present {
		n.attached()
	}
	if w := &n.wakeup; (w.dozing || w.alone && present) && g.Sent >= w.asleepAt {
		w.alone, w.nonce = false, 0
		n.awake()
	}
}

// mergeTable brings this member's table forward.
func (n *Node) mergeTable(d *ring.Delta) {
	if d == nil {
		return
	}
	if t, err := n.t.Merge(d); err == nil && t != n.t {
		n.adopt(t)
	}
	// A gap is closed by the next Renew, which tells the epoch of this table.
}

// tickLease asks for the next lease.
func (n *Node) tickLease() {
	if n.lease.renewAt > n.now.Mono {
		return
	}
	n.lease.renewAt = n.now.Mono + int64(n.p.Renew)
	n.out.Leader = append(n.out.Leader, n.renewal())
}

// renewal tells the leader how the slots fare that this member owns.
func (n *Node) renewal() *ring.Renew {
	r := &ring.Renew{
		From: ring.Holder{Num: n.self.Num, Boot: n.cfg.Boot}, ID: n.cfg.ID, Sent: n.now.Mono, Epoch: n.t.Epoch, Store: n.journal.store,
	}
	for h := range ring.Slot(ring.Slots) {
		if !n.owns(h) {
			continue
		}
		newest := n.store.Newest(h)
		r.Owned = append(r.Owned, ring.SlotLoad{
			Slot: h, Open: n.open(h), Sessions: uint32(n.store.Live(h)),
			Idle: newest == nil || n.now.since(newest.Used) > idleAfter,
		})
	}
	return r
}

const idleAfter = 60e9

// PeerDown takes local evidence about a member: its address refused a
// connection, or did not answer. It is used for routing at once and told to
// the leader, which alone decides.
func (n *Node) PeerDown(t Time, num number, refused bool, out *Out) {
	n.begin(t, out)
	if num != n.self.Num && num != 0 {
		p := n.peer(num)
		p.badUntil, p.refused = n.now.Mono+1e9, refused
		if n.now.since(p.reportedAt) >= n.p.Resend || refused && p.reportedAt+50e6 < n.now.Mono {
			p.reportedAt = n.now.Mono
			n.report()
		}
		for _, c := range n.callq {
			if !c.done && c.state == callForwarded && c.sentTo == num && !refused {
				n.route(c)
			}
		}
	}
	n.end()
}

// Receive takes a message from another member. epoch is that of the sender's
// table when it sent it.
func (n *Node) Receive(t Time, from ring.Holder, epoch ring.Epoch, m Message, out *Out) {
	n.begin(t, out)
	n.receive(from, epoch, m)
	n.end()
}

func (n *Node) receive(from ring.Holder, epoch ring.Epoch, m Message) {
	if u, ok := m.(*TableUpdate); ok {
		n.mergeTable(u.Table)
	}
	known := n.t.Member(from.Num)
	if known == nil || known.Boot != from.Boot {
		return // a run that the table does not name, or no longer
	}
	p := n.peer(from.Num)
	p.epoch = max(p.epoch, epoch)
	p.heard, p.badUntil = n.now.Mono, 0
	n.heardPeer()
	if known.State == ring.Down && !n.refuse {
		n.isBack(from)
	}
	switch m := m.(type) {
	case *TableUpdate:
	case *Stale:
		n.onStale(from)
	case *Forward:
		n.onForward(from, m)
	case *Reply:
		n.onReply(from, m)
	case *Replicate:
		n.onReplicate(from, m)
	case *Ack:
		n.onAck(from, m)
	case *Seal:
		n.onSeal(from, m)
	case *SealAck:
		n.onSealAck(from, m)
	case *Compare:
		n.onCompare(from, m)
	case *Listing:
		n.onListing(from, m)
	case *Fetch:
		n.onFetch(from, m)
	case *Records:
		n.onRecords(from, m)
	case *Discard:
		n.onDiscard(from, m)
	case *Touch:
		n.onTouch(from, m)
	case *TouchAck:
		n.onTouchAck(from, m)
	case *DropAsk:
		n.onDropAsk(from, m)
	case *DropOK:
		n.onDropOK(from, m)
	case *Offer:
		n.onOffer(from, m)
	case *OfferAck:
		n.onOfferAck(from, m)
	case *Ping:
		n.onPing(from, m)
	case *Pong:
		n.onPong(from, m)
	}
}

// onStale sends our table where it is newer than the other's; post does that
// before any message. A peer that says it lacks it has lost what was sent.
func (n *Node) onStale(from ring.Holder) {
	p := n.peer(from.Num)
	if p.epoch < n.t.Epoch {
		p.tableSent, p.tableSentAt = n.t.Epoch, n.now.Mono
		n.out.Sends = append(n.out.Sends, Send{To: from, Msg: &TableUpdate{n.t.Since(p.epoch)}})
	}
}
