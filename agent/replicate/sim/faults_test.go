package sim

import (
	"time"

	"github.com/rondel-project/rondel/agent/leader"
	"github.com/rondel-project/rondel/agent/member"
)

// faults makes something break now and then until the end of the load.
func (w *world) faults() {
	if w.now > w.load.end-3*sc {
		return
	}
	w.at(w.between(300*ms, 3000*ms), -1, w.faults)
	i := w.rng.IntN(len(w.hosts))
	if w.chance(0.5) { // rather where it hurts
		if o := w.raft.table.Member(w.raft.table.Slots[w.load.slots[0]].Owner); o != nil {
			i = w.byID[o.ID]
		}
	}
	h := w.hosts[i]
	d := w.between(100*ms, 4000*ms)
	if w.chance(0.1) {
		d = w.between(4*sc, 9*sc)
	}
	if h.away > w.now {
		return
	}
	quiet := []fault{pausing, pausing, pausingTwo, crashing, crashingTwo, stopping, electing, draining, clocking}
	if w.operator {
		quiet = append(quiet, moving, moving, rebalancing, leaving)
	}
	if w.disk {
		quiet = append(quiet, blackout, blackout, filling, filling, slowDisk)
	}
	if w.partitions {
		quiet = append(quiet, cutting, isolating, muting, leaderless, splitting, slowLink, slowMember, lossyNet, coup)
	}
	quiet[w.rng.IntN(len(quiet))](w, h, d)
}

// fault is something that breaks at a member and lasts for some time.
type fault func(w *world, h *host, d int64)

func pausing(w *world, h *host, d int64) {
	if h.up {
		h.paused = max(h.paused, w.now+d)
		w.count("pause m%d for %v", h.idx, d)
	}
}

func pausingTwo(w *world, h *host, d int64) {
	pausing(w, h, d)
	pausing(w, w.other(h), w.between(100*ms, d))
}

// other returns another member, rather one that holds what h owns.
func (w *world) other(h *host) *host {
	if num := h.number(); num != 0 && w.chance(0.7) {
		if list := w.raft.table.Successors(w.load.slots[0]); len(list) > 0 && w.raft.table.Slots[w.load.slots[0]].Owner == num {
			return w.hosts[w.byID[w.raft.table.Member(list[w.rng.IntN(len(list))]).ID]]
		}
	}
	return w.hosts[(h.idx+1+w.rng.IntN(len(w.hosts)-1))%len(w.hosts)]
}

// number is the member's by the present table; 0: it has none.
func (h *host) number() member.Number {
	if m := h.w.raft.table.ByID(h.id); m != nil {
		return m.Num
	}
	return 0
}

func crashing(w *world, h *host, d int64) {
	if power := w.power(); h.up && w.mayLose(power, h) {
		w.count("crash m%d for %v", h.idx, d)
		h.crash(power)
		w.at(d, -1, h.restart)
	}
}

// crashingTwo takes an owner and one of its successors at the same time.
func crashingTwo(w *world, h *host, d int64) {
	o := w.other(h)
	power := w.power()
	if !h.up || !o.up || o.away > w.now || !w.mayLose(power, h, o) {
		return
	}
	w.count("crashtwo m%d for %v", h.idx, d)
	h.crash(power)
	o.crash(power)
	w.at(d, -1, h.restart)
	w.at(w.between(100*ms, d), -1, o.restart)
}

// power reports whether what ends is the whole machine. Without disks there is
// no difference.
func (w *world) power() bool { return w.disk && w.chance(0.4) }

// blackout ends all at once, or most.
func blackout(w *world, _ *host, d int64) {
	power := w.power()
	var list []*host
	for _, h := range w.hosts {
		if h.up && h.away <= w.now && !w.chance(0.1) {
			list = append(list, h)
		}
	}
	if !w.mayLose(power, list...) {
		return
	}
	w.count("blackout m%d for %v", len(list), d)
	for _, h := range list {
		h.crash(power)
		w.at(w.between(50*ms, max(d, 2*sc)), -1, h.restart)
	}
}

// filling leaves a disk no room for a while. What it held is gone with that.
func filling(w *world, h *host, d int64) {
	if h.up && w.mayForget(h) {
		if w.chance(0.3) {
			h.plate.keepBackup()
		}
		h.plate.full, h.plate.stuck = w.now+d, w.chance(0.3)
		w.count("full m%d for %v", h.idx, d)
	}
}

// slowDisk makes each write take long.
func slowDisk(w *world, h *host, d int64) {
	h.plate.slow = w.now + d
	w.count("slowdisk m%d for %v", h.idx, d)
}

func stopping(w *world, h *host, d int64) {
	if h.up && !h.ending {
		w.count("stop m%d for %v", h.idx, d)
		h.stop(d, false)
	}
}

// leaving is for good: when the member is back it is a new one.
func leaving(w *world, h *host, d int64) {
	if !h.up || h.ending || len(w.raft.table.Members) < max(4, len(w.hosts)) {
		return
	}
	w.count("leave m%d for %v", h.idx, d)
	h.stop(d, true)
}

func electing(w *world, _ *host, d int64) {
	w.count("leader changes from m%d for %v", w.raft.leader, d)
	w.raft.elect(w.raft.leader)
}

func draining(w *world, h *host, d int64) {
	if num := h.number(); num != 0 {
		w.count("drain m%d for %v", h.idx, d)
		w.raft.drain(num, true)
		w.at(d, -1, w.raft.undrain)
	}
}

func moving(w *world, h *host, d int64) {
	from, to := h.number(), w.other(h).number()
	if from != 0 && to != 0 {
		w.count("move m%d for %v", h.idx, d)
		w.raft.ask(leader.MoveAsked{Slots: 1 + w.rng.IntN(40), From: from, To: to})
	}
}

func rebalancing(w *world, h *host, d int64) {
	w.count("rebalance m%d for %v", h.idx, d)
	w.raft.ask(leader.RebalanceAsked{})
}

// clocking steps the wall clock, within what an id's time of issue may be off.
func clocking(w *world, h *host, d int64) {
	if w.hermit {
		return // ids there depend on clocks that agree
	}
	w.count("clock m%d for %v", h.idx, d)
	h.wallOff = max(min(h.wallOff+w.between(-120_000, 120_000), 200_000), -200_000)
}

// cutting takes one direction, or both, of one link.
func cutting(w *world, h *host, d int64) {
	i, j := h.idx, w.rng.IntN(len(w.hosts))
	w.net.cut[i][j] = w.now + d
	if w.chance(0.5) {
		w.net.cut[j][i] = w.now + d
	}
	w.count("cut m%d for %v", i, d)
}

// isolating cuts one off from all others.
func isolating(w *world, h *host, d int64) {
	for j := range w.hosts {
		w.net.cut[h.idx][j], w.net.cut[j][h.idx] = w.now+d, w.now+d
	}
	w.count("isolate m%d for %v", h.idx, d)
}

// muting makes one unheard by all others, or deaf to them.
func muting(w *world, h *host, d int64) {
	deaf := w.chance(0.5)
	for j := range w.hosts {
		if deaf {
			w.net.cut[j][h.idx] = w.now + d
		} else {
			w.net.cut[h.idx][j] = w.now + d
		}
	}
	w.count("mute m%d for %v", h.idx, d)
}

// coup isolates one or lets it sleep, and then nobody remembers what it was
// granted.
func coup(w *world, h *host, d int64) {
	isolating(w, h, max(d, 2*sc))
	w.at(w.between(0, 400*ms), -1, func() { w.raft.elect(w.raft.leader) })
	w.count("coup m%d for %v", h.idx, d)
}

// leaderless cuts one off from the leader only.
func leaderless(w *world, h *host, d int64) {
	if j := w.raft.leader; j >= 0 {
		w.net.cut[h.idx][j], w.net.cut[j][h.idx] = w.now+d, w.now+d
		w.count("leadercut m%d for %v", h.idx, d)
	}
}

func splitting(w *world, h *host, d int64) {
	side := w.rng.IntN(1 << len(w.hosts))
	for a := range w.hosts {
		for b := range w.hosts {
			if side>>a&1 != side>>b&1 {
				w.net.cut[a][b] = w.now + d
			}
		}
	}
	w.count("split m%d for %v", h.idx, d)
}

func slowLink(w *world, h *host, d int64) {
	w.net.slow[h.idx][w.rng.IntN(len(w.hosts))] = w.now + d
	w.count("slow m%d for %v", h.idx, d)
}

// slowMember makes all that leaves one late.
func slowMember(w *world, h *host, d int64) {
	for j := range w.hosts {
		w.net.slow[h.idx][j] = w.now + d
	}
	w.count("sluggish m%d for %v", h.idx, d)
}

// lossyNet makes the links of one bad: much is lost, late, or comes twice.
func lossyNet(w *world, h *host, d int64) {
	for j := range w.hosts {
		w.net.lossy[h.idx][j], w.net.lossy[j][h.idx] = w.now+d, w.now+d
	}
	w.count("lossy m%d for %v", h.idx, d)
}

func (w *world) count(what string, i int, d int64) {
	w.logf("fault: "+what, i, dur(d))
	for k := range what {
		if what[k] == ' ' {
			w.stats[what[:k]]++
			return
		}
	}
}

func dur(d int64) time.Duration { return time.Duration(d) }
