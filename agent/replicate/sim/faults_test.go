package sim

import (
	"time"

	"github.com/rondel-project/rondel/agent/ring"
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
	kinds := 6
	if w.partitions {
		kinds = 11
	}
	switch w.rng.IntN(kinds) {
	case 0, 1:
		if h.up {
			h.paused = max(h.paused, w.now+d)
			w.count("pause m%d for %v", i, d)
		}
	case 2:
		if h.up && w.mayLose(h) {
			w.count("crash m%d for %v", i, d)
			h.crash()
			w.at(d, -1, h.restart)
		}
	case 3:
		if h.up && !h.ending {
			w.count("stop m%d for %v", i, d)
			h.stop(d)
		}
	case 4:
		w.count("leader changes from m%d for %v", w.raft.leader, d)
		w.raft.elect(w.raft.leader)
	case 5:
		if m := w.raft.table.ByID(h.id); m != nil {
			w.count("drain m%d for %v", i, d)
			w.raft.drain(m.Num, true)
			w.at(d, -1, w.raft.undrain)
		}
	case 6: // one direction, or both, of one link
		j := w.rng.IntN(len(w.hosts))
		w.net.cut[i][j] = w.now + d
		if w.chance(0.5) {
			w.net.cut[j][i] = w.now + d
		}
		w.count("cut m%d for %v", i, d)
	case 7: // one from all others
		for j := range w.hosts {
			w.net.cut[i][j], w.net.cut[j][i] = w.now+d, w.now+d
		}
		w.count("isolate m%d for %v", i, d)
		if w.chance(0.3) { // and nobody remembers what it was granted
			w.at(w.between(0, 300*ms), -1, func() { w.raft.elect(i) })
		}
	case 8: // from the leader only
		if j := w.raft.leader; j >= 0 {
			w.net.cut[i][j], w.net.cut[j][i] = w.now+d, w.now+d
			w.count("leadercut m%d for %v", i, d)
		}
	case 9: // two sides
		side := w.rng.IntN(1 << len(w.hosts))
		for a := range w.hosts {
			for b := range w.hosts {
				if side>>a&1 != side>>b&1 {
					w.net.cut[a][b] = w.now + d
				}
			}
		}
		w.count("split m%d for %v", i, d)
	case 10:
		j := w.rng.IntN(len(w.hosts))
		w.net.slow[i][j] = w.now + d
		w.count("slow m%d for %v", i, d)
	}
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

// mayLose reports whether the member's memory can be lost without losing the
// last copy of anything that was promised: a living member beside it is in sync
// for each slot, also after the change that is under way.
func (w *world) mayLose(h *host) bool {
	tables := []*ring.Table{w.raft.table}
	if p := w.raft.pending; p != nil {
		if t, err := w.raft.table.Apply(p.change, w.raft.index+1); err == nil {
			tables = append(tables, t)
		}
	}
	for _, t := range tables {
		for s := range t.Slots {
			in, others := false, 0
			for _, x := range t.Slots[s].InSync {
				if x.Boot == h.boot {
					in = true
				} else if w.running(x) {
					others++
				}
			}
			if in && others == 0 {
				return false
			}
		}
	}
	return true
}

func (w *world) running(x ring.Holder) bool {
	for _, h := range w.hosts {
		if h.awake() && h.boot == x.Boot {
			return true
		}
	}
	return false
}

func (h *host) restart() {
	if !h.up {
		h.start()
	}
}

// stop ends the process as SIGTERM does: its slots go to others first.
func (h *host) stop(away int64) {
	w, boot := h.w, h.boot
	h.ending = true
	limit := w.now + 10*sc
	var wait func()
	wait = func() {
		if !h.up || h.boot != boot {
			return
		}
		owns := h.core.Sessions().Unsettled() > 0
		t := h.core.Table()
		for s := range t.Slots {
			if t.Slots[s].Owner == h.core.Self().Num {
				owns = true
			}
		}
		if (!owns || w.now > limit) && w.mayLose(h) {
			h.crash()
			w.at(away, -1, h.restart)
			return
		}
		w.at(200*ms, h.idx, wait)
	}
	w.at(200*ms, h.idx, wait)
}

// heal ends all faults.
func (w *world) heal() {
	w.logf("heal")
	for i, h := range w.hosts {
		h.paused = min(h.paused, w.now)
		for j := range w.hosts {
			w.net.cut[i][j], w.net.slow[i][j] = 0, 0
		}
		if !h.up {
			h.restart()
		}
	}
}

func dur(d int64) time.Duration { return time.Duration(d) }
