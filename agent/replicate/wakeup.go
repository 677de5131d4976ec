package replicate

import "github.com/rondel-project/rondel/agent/ring"

// wakeup keeps an owner that slept, or was cut off, from serving what others
// have replaced meanwhile (S1b): after a silence longer than Params.Asleep it
// asks before its first read or write. Only serve mode needs it: in refuse mode
// the lease is over by then.
type wakeup struct {
	dozing   bool
	alone    bool // asked, and nobody has answered yet: what is served is marked stale
	asleepAt int64
	heard    int64  // last message from a peer
	nonce    uint64 // of the question; 0: to be asked
	askedAt  int64
	waiting  []sleeper
	grace    int64 // until then no session of this member ends: others may have served it, and have yet to say so
}

type sleeper struct {
	slot ring.Slot
	op   *op
}

// heardPeer notes that a peer was heard. Who is alone is still so: the message
// may have waited for long in a buffer. But there is somebody to be asked.
func (n *Node) heardPeer() { n.wakeup.heard = n.now.Mono }

// fallAsleep notes that this process has not run for a while: messages that
// waited in its buffers prove nothing about the present.
func (n *Node) fallAsleep(woken int64) {
	if n.hasPeers() {
		n.wakeup.dozing, n.wakeup.asleepAt = true, woken
		n.wakeup.nonce = 0
	}
}

// hasPeers reports whether the table names another member that may know more.
func (n *Node) hasPeers() bool {
	for i := range n.t.Members {
		if m := &n.t.Members[i]; m.Num != n.self.Num && (m.State == ring.Up || m.State == ring.Joining || m.State == ring.Stopping) {
			return true
		}
	}
	return false
}

func (n *Node) tickWakeup() {
	w := &n.wakeup
	silent := n.now.since(max(w.heard, n.lease.granted)) > n.p.Asleep
	if silent && !w.dozing && !w.alone && !n.refuse && n.self.Num != 0 && n.hasPeers() {
		w.dozing, w.asleepAt, w.nonce = true, n.now.Mono, 0
	}
	if !w.dozing && !w.alone || n.refuse {
		return
	}
	since := n.now.since(w.askedAt)
	switch {
	case w.nonce == 0, !w.dozing && w.heard > w.askedAt && since > n.p.Asleep:
		n.ping()
	case w.dozing && since > n.p.AskAwake:
		w.alone = true
		n.awake()
	}
}

// ping asks every member that may know of a newer table.
func (n *Node) ping() {
	w := &n.wakeup
	n.seq++
	w.nonce, w.askedAt = n.seq, n.now.Mono
	for i := range n.t.Members {
		if m := &n.t.Members[i]; m.Num != n.self.Num && m.State != ring.Down {
			n.send(m.Holder(), &Ping{w.nonce})
		}
	}
}

// askAwake keeps the op until a peer has answered.
func (n *Node) askAwake(h ring.Slot, o *op) {
	w := &n.wakeup
	if w.nonce == 0 {
		n.ping()
	}
	if len(w.waiting) >= n.p.MaxWaiting {
		n.finish(o, unavailable("overloaded", "this member has just woken up and asks for the present table; try again"))
		return
	}
	w.waiting = append(w.waiting, sleeper{h, o})
}

// onPing answers a member that has woken up. One that has just woken itself
// knows nothing that would help.
func (n *Node) onPing(from ring.Holder, m *Ping) {
	if !n.wakeup.dozing {
		n.send(from, &Pong{m.Nonce})
	}
}

// onPong ends the doze, or that this member is alone, unless the table that the
// sender has did not come through: then it asks again. What was asked long ago
// proves no more than silence does.
func (n *Node) onPong(from ring.Holder, m *Pong) {
	w := &n.wakeup
	if !w.dozing && !w.alone || m.Nonce != w.nonce || w.nonce == 0 || n.now.since(w.askedAt) > n.p.Asleep {
		return
	}
	if n.peer(from.Num).epoch > n.t.Epoch {
		w.nonce = 0
		n.send(from, &Stale{Want: true})
		return
	}
	w.alone, w.nonce = false, 0
	n.awake()
}

func (n *Node) awake() {
	w := &n.wakeup
	if w.dozing = false; !n.refuse {
		w.grace = n.now.Mono + int64(n.p.OpBudget)
	}
	waiting := w.waiting
	w.waiting = nil
	for _, s := range waiting {
		n.serve(s.slot, s.op)
	}
}
