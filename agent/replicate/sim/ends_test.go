package sim

import (
	"fmt"
	"slices"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

// mayLose reports whether the members' memory can be lost at once without
// losing the last copy of anything that was promised: a living member beside
// them is in sync for each slot, also after the change that is under way.
func (w *world) mayLose(hs ...*host) bool {
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
				if slices.ContainsFunc(hs, func(h *host) bool { return h.boot == x.Boot }) {
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

// restart runs the agent again: mostly as it was, now and then at another
// address, or with an empty data directory, so that its id is another one.
func (h *host) restart() {
	w := h.w
	if h.up || h.away > w.now {
		return
	}
	if w.chance(0.1) {
		w.moves++
		h.addr = fmt.Sprint("10.0.1.", w.moves)
	} else if w.chance(0.1) {
		h.id, h.disk = member.IDFromBytes([16]byte(w.bytes(16))), nil
		w.byID[h.id] = h.idx
	}
	h.start()
}

// hermitage takes a member away for so long that the others forget what was
// deleted meanwhile: it sleeps, or is cut off where there are partitions.
func (w *world) hermitage() {
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	if !h.awake() || h.ending {
		w.at(300*ms, -1, w.hermitage)
		return
	}
	h.away = w.load.end + int64(hermitTomb) + w.between(5*sc, 15*sc)
	if w.partitions && w.chance(0.5) {
		isolating(w, h, h.away-w.now)
		return
	}
	h.paused = h.away
	w.count("hermit m%d for %v", h.idx, h.away-w.now)
}

// homecoming waits until the hermit is back.
func (w *world) homecoming() {
	for _, h := range w.hosts {
		if h.away > w.now {
			w.run(h.away)
		}
	}
}

// stop ends the process as SIGTERM does, or leave: its slots go to others first.
func (h *host) stop(away int64, leave bool) {
	w, boot := h.w, h.boot
	h.ending, h.leaving = true, leave
	limit := w.now + 10*sc
	var wait func()
	wait = func() {
		if !h.up || h.boot != boot {
			return
		}
		owns := h.core.Sessions().Unsettled() > 0 || leave && w.raft.table.ByID(h.id) != nil
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
		if h.away <= w.now {
			h.paused = min(h.paused, w.now)
		}
		for j, o := range w.hosts {
			if h.away <= w.now && o.away <= w.now {
				w.net.cut[i][j] = 0
			}
			w.net.slow[i][j], w.net.lossy[i][j] = 0, 0
		}
		if !h.up {
			h.restart()
		}
	}
}
