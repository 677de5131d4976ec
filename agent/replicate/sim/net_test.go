package sim

import (
	"fmt"
	"slices"

	"github.com/rondel-project/rondel/agent/leader"
	"github.com/rondel-project/rondel/agent/replicate"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// network carries messages between hosts: late, lost, twice, out of order, or
// not at all where a link is cut.
type network struct {
	w       *world
	cut     [][]int64 // until when nothing passes from, to
	slow    [][]int64 // until when everything is late
	lossy   [][]int64 // until when much is lost, late, or comes twice
	last    [][][2]int64
	refused [][]int64 // when the sender last heard that nobody listens
	failing [][]int64 // since when sends fail
}

// connectionLife is for how long a connection over which nothing passes may be
// kept, with what is in its buffers.
const connectionLife = 20 * sc

func grid[T any](n int) [][]T {
	g := make([][]T, n)
	for i := range g {
		g[i] = make([]T, n)
	}
	return g
}

func (n *network) init(w *world) {
	n.w = w
	n.cut, n.slow, n.last = grid[int64](w.members), grid[int64](w.members), grid[[2]int64](w.members)
	n.refused, n.failing, n.lossy = grid[int64](w.members), grid[int64](w.members), grid[int64](w.members)
}

// linked reports whether both directions between two hosts pass.
func (n *network) linked(a, b int) bool {
	return a == b || n.cut[a][b] <= n.w.now && n.cut[b][a] <= n.w.now
}

// carry lets f happen at the other end, or not, or twice. Nothing in agent/wire
// carries a message twice; only a refused request counts on that.
func (n *network) carry(from, to int, lane int, f func()) { n.carryOnce(from, to, lane, false, f) }

func (n *network) carryOnce(from, to int, lane int, once bool, f func()) {
	w := n.w
	if from == to {
		w.at(w.between(5*us, 50*us), to, f)
		return
	}
	delay := w.between(100*us, 2*ms)
	if n.cut[from][to] > w.now {
		// What is in a socket's buffer arrives late, if the connection lives.
		if !w.chance(0.2) || n.cut[from][to]-w.now > connectionLife {
			return
		}
		delay += n.cut[from][to] - w.now
	}
	if n.slow[from][to] > w.now {
		delay += w.between(200*ms, 2500*ms)
	}
	p := w.rng.Float64()
	if n.lossy[from][to] > w.now {
		p /= 30 // a fifth is lost, as much is late, a tenth comes twice
	}
	switch {
	case p < 0.005:
		w.stats["dropped"]++
		return
	case p < 0.010: // left over in an old connection: late and out of order
		w.at(delay+w.between(2*ms, 900*ms), to, f)
		return
	case p < 0.013 && !once:
		w.at(delay+w.between(0, 300*ms), to, f)
	}
	at := max(w.now+delay, n.last[from][to][lane]+1)
	n.last[from][to][lane] = at
	w.at(at-w.now, to, f)
}

// letter is a message between two cores, encoded.
type letter struct {
	from  ring.Holder
	epoch ring.Epoch // of the sender's table
	to    ring.Holder
	lane  int
	bytes []byte
	what  replicate.Message
}

func (n *network) letter(h *host, epoch ring.Epoch, s replicate.Send) letter {
	l := letter{from: h.core.Self(), epoch: epoch, to: s.To, bytes: replicate.AppendMessage(nil, s.Msg, h.mono()), what: s.Msg}
	if s.Bulk {
		l.lane = 1
	}
	return l
}

// post sends what one core has for another.
func (n *network) post(h *host, l letter) {
	w := n.w
	m := h.core.Table().Member(l.to.Num)
	if m == nil || m.Boot != l.to.Boot || l.from.Num == 0 {
		return
	}
	to := w.byID[m.ID]
	if !n.reachable(h, to) || m.Addr != w.hosts[to].addr {
		return
	}
	_, once := l.what.(*replicate.Forward)
	n.carryOnce(h.idx, to, l.lane, once, func() {
		r := w.hosts[to]
		if !r.up || r.boot != l.to.Boot {
			return // the connection was to another process
		}
		msg, err := replicate.DecodeMessage(l.bytes, r.mono())
		if err != nil {
			w.check.fail("m%d cannot read a %T from m%d: %v", to, l.what, h.idx, err)
			return
		}
		if w.log > 1 {
			w.logf("m%d -> m%d %s", h.idx, to, text(msg))
		}
		r.step(func(t replicate.Time, out *replicate.Out) { r.core.Receive(t, l.from, l.epoch, msg, out) })
	})
}

// reachable gives the sender the evidence that a connection attempt gives, and
// reports whether there is any use in sending.
func (n *network) reachable(h *host, to int) bool {
	w := n.w
	r := w.hosts[to]
	m := h.core.Table().ByID(r.id)
	if n.linked(h.idx, to) {
		n.failing[h.idx][to] = 0
		if r.up && (m == nil || m.Addr == r.addr) {
			return true
		}
		if w.now-n.refused[h.idx][to] > 100*ms {
			n.refused[h.idx][to] = w.now
			n.evidence(h, to, true)
		}
		return false
	}
	if n.failing[h.idx][to] == 0 {
		n.failing[h.idx][to] = w.now
	}
	if w.now-n.failing[h.idx][to] > sc && w.now-n.refused[h.idx][to] > 500*ms {
		n.refused[h.idx][to] = w.now
		n.evidence(h, to, false)
	}
	return true
}

func (n *network) evidence(h *host, to int, refused bool) {
	w := n.w
	boot, lost, id := h.boot, w.hosts[to].boot, w.hosts[to].id
	if m := h.core.Table().ByID(id); m != nil && m.Addr != w.hosts[to].addr {
		lost = m.Boot // it is the address of the run before that refuses
	}
	w.at(w.between(100*us, 2*ms), h.idx, func() {
		if !h.up || h.boot != boot {
			return
		}
		m := h.core.Table().ByID(id)
		if m == nil || m.Boot != lost {
			return
		}
		who := m.Holder()
		h.step(func(t replicate.Time, out *replicate.Out) { h.core.PeerDown(t, who.Num, refused, out) })
		if refused && h.lead != nil {
			h.lead.step(leader.Refused{Who: who})
		}
	})
}

// toLeader sends a control message to whom the sender takes for the leader.
func (n *network) toLeader(h *host, m ring.Message) {
	w := n.w
	w.check.told(h, m)
	to := h.leader
	if to < 0 || to != h.idx && !n.reachable(h, to) {
		return
	}
	msg, boot := n.recode(m), w.hosts[to].boot
	n.carry(h.idx, to, 0, func() {
		r := w.hosts[to]
		if !r.up || r.boot != boot || r.lead == nil {
			return // the connection was to another process
		}
		switch m := msg.(type) {
		case *ring.Renew:
			r.lead.step(leader.Renewed{Renew: m})
		case *ring.AddInSync:
			r.lead.step(leader.AddAsked{AddInSync: m})
		case *ring.Report:
			r.lead.step(leader.Reported{Report: m})
		case *ring.Stop:
			r.lead.step(leader.StopAsked{Stop: m})
		}
	})
}

// recode takes some control messages through their encoding; all would cost
// most of the run's time.
func (n *network) recode(m ring.Message) ring.Message {
	if !n.w.chance(0.1) {
		return m
	}
	msg, err := ring.DecodeMessage(ring.AppendMessage(nil, m))
	if err != nil {
		n.w.check.fail("a %T cannot be read: %v", m, err)
		return m
	}
	return msg
}

// control sends a message of the leader to a member.
func (n *network) control(h *host, to leader.Peer, m ring.Message) {
	w := n.w
	i, ok := w.byID[to.ID]
	if !ok {
		i = slices.IndexFunc(w.hosts, func(r *host) bool { return r.boot == to.Boot })
	}
	if i < 0 || i != h.idx && !n.reachable(h, i) {
		return
	}
	msg := n.recode(m)
	n.carry(h.idx, i, 0, func() {
		r := w.hosts[i]
		if !r.up || r.boot != to.Boot {
			return
		}
		if g, ok := msg.(*ring.Grant); ok && g.To.Boot == r.boot {
			w.check.grant(r, g)
		}
		r.step(func(t replicate.Time, out *replicate.Out) { r.core.Control(t, msg, out) })
	})
}

// probe tries to reach a process, seen from host i, and tells the outcome
// there.
func (n *network) probe(i int, who leader.Peer, done func(leader.Reach)) {
	w := n.w
	to, ok := w.byID[who.ID]
	if !ok {
		w.at(500*ms, i, func() { done(leader.Unreached) })
		return
	}
	w.at(w.between(200*us, 3*ms), -1, func() {
		r := w.hosts[to]
		switch {
		case !n.linked(i, to) || n.slow[i][to] > w.now || n.slow[to][i] > w.now:
		case !r.up, who.Addr != "" && who.Addr != r.addr, r.awake() && r.boot != who.Boot:
			w.at(ms, i, func() { done(leader.RefusedThere) })
			return
		case r.awake() && r.boot == who.Boot:
			w.at(ms, i, func() { done(leader.Reached) })
			return
		}
		timeout := 500 * ms
		if w.hasty {
			timeout = 100 * ms
		}
		w.at(timeout, i, func() { done(leader.Unreached) })
	})
}

func text(m replicate.Message) string {
	s := fmt.Sprintf("%T %+v", m, m)
	var ups []*session.Update
	switch m := m.(type) {
	case *replicate.Replicate:
		ups = m.Updates
	case *replicate.Records:
		ups = m.Updates
	case *replicate.Forward:
		s += fmt.Sprintf(" {%s kind %d op %x}", m.Req.ID[12:16], m.Req.Kind, m.Req.Op[:4])
	case *replicate.Reply:
		s += fmt.Sprintf(" {%d %s}", m.Resp.Status, m.Resp.Code)
	}
	for _, u := range ups {
		s += fmt.Sprintf(" {%s base %v -> %v full %v}", u.ID, u.Base, u.Version(), u.Full != nil)
	}
	return s
}
