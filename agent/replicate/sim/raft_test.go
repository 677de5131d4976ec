package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/leader"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/replicate"
	"github.com/rondel-project/rondel/agent/ring"
)

// raft is the consensus as members see it: one table that only the leader of
// the present term changes, with the agreement of a majority. It changes hands.
type raft struct {
	w       *world
	table   *ring.Table
	index   ring.Epoch
	term    uint64
	leader  int // -1: none
	lost    int64
	pending *proposal
	history []*ring.Table // every table, for the checks
}

type proposal struct {
	term   uint64
	change *ring.Change
}

func (r *raft) init(w *world) {
	r.w, r.table, r.leader = w, &ring.Table{}, -1
}

// quorum reports whether host i reaches a majority.
func (r *raft) quorum(i int) bool {
	n := 0
	for j, h := range r.w.hosts {
		if h.awake() && r.w.net.linked(i, j) {
			n++
		}
	}
	return r.w.hosts[i].awake() && n > r.w.members/2
}

// manage replaces a leader that has lost its majority.
func (r *raft) manage() {
	w := r.w
	w.at(50*ms, -1, r.manage)
	if r.leader >= 0 && r.quorum(r.leader) {
		r.lost = 0
		return
	}
	if r.lost == 0 {
		r.lost = w.now + w.between(600*ms, 1500*ms)
		if r.term == 0 {
			r.lost = w.now
		}
	}
	if w.now >= r.lost {
		r.elect(-1)
	}
}

// elect makes another host the leader, if one has a majority.
func (r *raft) elect(not int) {
	w := r.w
	var able []int
	for i := range w.hosts {
		if i != not && r.quorum(i) {
			able = append(able, i)
		}
	}
	if len(able) == 0 {
		return
	}
	if p := r.pending; p != nil && w.chance(0.5) {
		r.commit(p.change) // it had reached a majority
	}
	r.pending = nil
	r.term++
	r.leader, r.lost = able[w.rng.IntN(len(able))], 0
	w.stats["elections"]++
	h, term, boot := w.hosts[r.leader], r.term, w.hosts[r.leader].boot
	w.logf("term %d: m%d", term, r.leader)
	w.at(w.between(ms, 60*ms), h.idx, func() { // the barrier
		if h.up && h.boot == boot && r.term == term {
			h.lead = newTerm(h, term)
		}
	})
}

// ask brings an operator's wish to the present leader.
func (r *raft) ask(ev leader.Event) {
	if r.leader < 0 {
		return
	}
	h := r.w.hosts[r.leader]
	r.w.at(ms, h.idx, func() {
		if h.up && h.lead != nil {
			h.lead.step(ev)
		}
	})
}

// drain asks the present leader that a member hands over its slots, or ends
// that.
func (r *raft) drain(num member.Number, on bool) { r.ask(leader.DrainAsked{Num: num, On: on}) }

// undrain ends all drains; it is asked again until the table shows it.
func (r *raft) undrain() {
	for _, m := range r.table.Members {
		if m.Drain {
			r.drain(m.Num, false)
		}
	}
}

func (r *raft) commit(c *ring.Change) bool {
	bytes := ring.AppendChange(nil, c)
	c, err := ring.DecodeChange(bytes)
	if err != nil {
		r.w.check.fail("a change cannot be read: %v", err)
		return false
	}
	if r.table.Epoch == 0 && !r.w.whole {
		// Slots without a home are nobody's, and cost next to no time.
		c.Slots = slices.DeleteFunc(c.Slots, func(s ring.SlotChange) bool {
			return s.Slot%64 != 0 && !slices.Contains(r.w.load.slots, s.Slot)
		})
	}
	t, err := r.table.Apply(c, r.index+ring.Epoch(r.w.between(1, 3)))
	if err != nil {
		return false
	}
	r.index = t.Epoch
	r.w.check.committed(r.table, t)
	r.table = t
	r.history = append(r.history, t)
	for _, h := range r.w.hosts {
		r.follow(h)
	}
	return true
}

// follow brings the table to a host's own Raft server, and by it to the core.
func (r *raft) follow(h *host) {
	w := r.w
	if !h.up || r.leader < 0 || !w.net.linked(r.leader, h.idx) {
		return
	}
	t, boot := r.table, h.boot
	d := w.between(ms, 40*ms)
	if w.chance(0.1) {
		d = w.between(40*ms, 1500*ms)
	}
	w.at(d, h.idx, func() {
		if h.up && h.boot == boot && h.core.Table().Epoch < t.Epoch {
			h.step(func(at replicate.Time, out *replicate.Out) { h.core.Adopt(at, t, out) })
		}
	})
}

// term is a leader core on the host that leads, or still believes that it does.
type term struct {
	h      *host
	number uint64
	core   *leader.Core
	seen   []leader.Seen
	told   int64
}

func (w *world) leaderParams() leader.Params {
	p := leader.Default()
	p.Stable, p.SlowHold, p.DownMax = 3*time.Second, 4*time.Second, w.downMax
	return p
}

func newTerm(h *host, number uint64) *term {
	w := h.w
	l := &term{h: h, number: number}
	l.core = leader.New(leader.Options{
		Params: w.leaderParams(), Self: h.id, Term: number, Elected: time.Duration(h.mono()), Table: w.raft.table,
		Cluster: leader.Cluster{
			Expect: w.first(), ID: [16]byte{1, 2, 3}, Keys: []ring.Key{w.load.key},
			Settings: ring.Settings{Replicas: w.replicas, Refuse: w.refuse, MinCopies: w.minCopies(), ReapAfter: w.reapAfter, StallTimeout: w.stallTimeout(), Disk: w.disk},
		},
	})
	l.look()
	boot := h.boot
	h.every(boot, 45*ms, 60*ms, func() {
		if h.lead == l {
			l.step(leader.Tick{})
		}
	})
	return l
}

// first is how many members make the first table.
func (w *world) first() int {
	if w.late {
		return w.members - 1
	}
	return w.members
}

// stallTimeout is ring.stall_timeout; copies on disk are waited for.
func (w *world) stallTimeout() time.Duration {
	if w.disk {
		return 0
	}
	return 15 * time.Second
}

func (w *world) minCopies() uint8 {
	if w.refuse {
		return 2
	}
	return 1
}

// look shows the core what gossip shows, when it changed.
func (l *term) look() {
	h := l.h
	var seen []leader.Seen
	for j, o := range h.w.hosts {
		boot, status := h.gossip.of(j)
		if boot.IsZero() {
			continue
		}
		seen = append(seen, leader.Seen{Candidacy: ring.Candidacy{ID: o.id, Name: o.name, Addr: o.addr, Boot: boot, Weight: 100}, Status: status})
	}
	if !slices.Equal(seen, l.seen) || l.told == 0 {
		l.seen, l.told = seen, h.w.now
		l.step(leader.ViewChanged{Members: seen})
	}
}

// step lets the core take one event, and does what it asks for.
func (l *term) step(ev leader.Event) {
	w := l.h.w
	actions := l.core.Step(time.Duration(l.h.mono()), ev)
	w.note("lead", l.h.idx, len(actions))
	for _, a := range actions {
		switch a := a.(type) {
		case leader.Send:
			w.net.control(l.h, a.To, a.Message)
		case leader.Verify:
			l.verify(a.Batch)
		case leader.Propose:
			l.propose(a.Change)
		case leader.Probe:
			who := a.Who.Holder
			w.net.probe(l.h.idx, a.Who, func(r leader.Reach) { l.later(leader.Probed{Who: who, Result: r}) })
		case leader.Ask:
			l.ask(a)
		case leader.Note:
			w.logf("leader m%d: %+v", l.h.idx, a)
		}
	}
}

// later is step for outcomes: the term may be over by now.
func (l *term) later(ev leader.Event) {
	if l.h.up && l.h.lead == l {
		l.step(ev)
	}
}

func (l *term) leads() bool {
	r := &l.h.w.raft
	return r.term == l.number && r.leader == l.h.idx && r.quorum(l.h.idx)
}

func (l *term) verify(batch uint64) {
	w := l.h.w
	w.at(w.between(100*us, 3*ms), -1, func() {
		ok := l.leads()
		d := w.between(100*us, 3*ms)
		if !ok {
			d = w.between(100*ms, 500*ms)
		}
		w.at(d, l.h.idx, func() { l.later(leader.Verified{Batch: batch, OK: ok}) })
	})
}

func (l *term) propose(c *ring.Change) {
	w := l.h.w
	r := &w.raft
	p := &proposal{l.number, c}
	if r.term == l.number && r.leader == l.h.idx {
		r.pending = p
	}
	w.at(w.between(500*us, 15*ms), -1, func() {
		known := l.leads() && r.pending == p
		ok := false
		if known {
			r.pending = nil
			ok = r.commit(c)
		}
		t := r.table
		w.at(w.between(100*us, 3*ms), l.h.idx, func() {
			if known {
				l.later(leader.Proposed{OK: ok, Table: t})
			} else if l.h.up && l.h.lead == l {
				l.h.lead = nil // the outcome is not known: the term ends
				if r.term == l.number {
					r.leader = -1
				}
				w.logf("m%d steps down: outcome not known", l.h.idx)
			}
		})
	})
}

func (l *term) ask(a leader.Ask) {
	w := l.h.w
	via, ok := w.byID[a.Via.ID]
	if !ok {
		return
	}
	answered := false
	answer := func(r leader.Reach) {
		if !answered {
			answered = true
			l.later(leader.Opinion{Who: a.Who.Holder, Via: a.Via.Num, Result: r})
		}
	}
	w.at(sc, l.h.idx, func() { answer(leader.NoAnswer) })
	w.net.carry(l.h.idx, via, 0, func() {
		v := w.hosts[via]
		if !v.up {
			return
		}
		w.net.probe(via, a.Who, func(r leader.Reach) {
			w.net.carry(via, l.h.idx, 0, func() { answer(r) })
		})
	})
}

// gossip is what one member believes of the others: alive while some path of
// members leads there, failed some time after none did.
type gossip struct {
	h       *host
	heard   []int64
	boots   []member.Boot
	timeout int64
	told    []ring.Holder
	toldAt  int64
}

func (g *gossip) init(h *host) {
	n := h.w.members
	*g = gossip{h: h, heard: make([]int64, n), boots: make([]member.Boot, n), timeout: h.w.between(1200*ms, 2200*ms)}
	if h.w.hasty {
		g.timeout = h.w.between(250*ms, 600*ms)
	}
}

func (g *gossip) of(j int) (member.Boot, member.Status) {
	if g.h.w.now-g.heard[j] > g.timeout {
		return g.boots[j], member.Failed
	}
	return g.boots[j], member.Alive
}

func (g *gossip) tick() {
	h, w := g.h, g.h.w
	if len(w.hosts) < w.members {
		return
	}
	for _, j := range w.connected(h.idx) {
		g.heard[j], g.boots[j] = w.now, w.hosts[j].boot
	}
	if h.lead != nil {
		h.lead.look()
	}
	g.tell()
	r := &w.raft
	if r.leader >= 0 && (r.leader == h.idx || w.chance(0.4)) && slices.Contains(w.connected(h.idx), r.leader) {
		h.leader = r.leader
		if h.lead != nil && h.lead.number < r.term && w.chance(0.5) {
			h.lead = nil
		}
		if h.core.Table().Epoch < r.table.Epoch && w.chance(0.2) {
			r.follow(h)
		}
	}
	if h.ending {
		w.net.toLeader(h, &ring.Stop{From: h.core.Self(), Leave: h.leaving, Done: h.leaving})
	}
}

// tell gives the core the members that are alive.
func (g *gossip) tell() {
	h, w := g.h, g.h.w
	t := h.core.Table()
	var alive []ring.Holder
	for j, o := range w.hosts {
		boot, status := g.of(j)
		if m := t.ByID(o.id); m != nil && m.Boot == boot && status == member.Alive {
			alive = append(alive, m.Holder())
		}
	}
	slices.SortFunc(alive, func(a, b ring.Holder) int { return cmp.Compare(a.Num, b.Num) })
	if slices.Equal(alive, g.told) && w.now-g.toldAt < 2*sc {
		return
	}
	g.told, g.toldAt = alive, w.now
	h.step(func(at replicate.Time, out *replicate.Out) { h.core.Alive(at, alive, out) })
}

// connected returns the hosts to which some path of running members leads.
func (w *world) connected(from int) []int {
	seen := make([]bool, len(w.hosts))
	seen[from] = true
	list := []int{from}
	for k := 0; k < len(list); k++ {
		for j, o := range w.hosts {
			if !seen[j] && o.awake() && w.net.linked(list[k], j) {
				seen[j] = true
				list = append(list, j)
			}
		}
	}
	return list
}
