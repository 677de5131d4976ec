package sim

import (
	"fmt"
	"slices"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

// mayLose reports whether the members' processes can end at once, with power
// their machines, without losing the last copy of anything that was promised: a
// living member beside them is in sync for each slot, or a disk holds it, also
// after the change that is under way.
func (w *world) mayLose(power bool, hs ...*host) bool {
	if power && w.lazy {
		return w.kept(hs, hs)
	}
	return w.kept(hs, nil)
}

// mayForget is mayLose for what a member has on its disk.
func (w *world) mayForget(h *host) bool { return w.kept(nil, []*host{h}) }

// kept reports whether of each slot that these hosts hold, in memory or on disk,
// something that counts remains without that.
func (w *world) kept(memory, disks []*host) bool {
	tables := []*ring.Table{w.raft.table}
	if p := w.raft.pending; p != nil {
		if t, err := w.raft.table.Apply(p.change, w.raft.index+1); err == nil {
			tables = append(tables, t)
		}
	}
	for _, t := range tables {
		for s := range t.Slots {
			touched, left := false, 0
			for _, x := range t.Slots[s].InSync {
				h, named := w.holder(t, x)
				inMemory := h != nil && h.boot == x.Boot
				onDisk := named && h.plate != nil && h.plate.holds() != (ring.Store{}) && t.Member(x.Num).Store == h.plate.holds()
				if inMemory && slices.Contains(memory, h) || named && slices.Contains(disks, h) {
					touched = true
				}
				if inMemory && h.awake() && !slices.Contains(memory, h) || onDisk && !slices.Contains(disks, h) {
					left++
				}
			}
			if touched && left == 0 {
				return false
			}
		}
	}
	return true
}

// holder returns the host of a run, and whether the table names that run now.
func (w *world) holder(t *ring.Table, x ring.Holder) (h *host, named bool) {
	for _, o := range w.hosts {
		if o.boot == x.Boot {
			h = o
		}
	}
	if m := t.Member(x.Num); m != nil && m.Boot == x.Boot {
		for _, o := range w.hosts {
			if o.id == m.ID {
				return o, true
			}
		}
	}
	return h, false
}

// idle reports whether no slot counts on the host's last run that the table
// names, now or after the change that is under way.
func (w *world) idle(h *host) bool {
	for s := range w.raft.table.Slots {
		for _, x := range w.raft.table.Slots[s].InSync {
			if o, _ := w.holder(w.raft.table, x); o == h {
				return false
			}
		}
	}
	return w.raft.pending == nil
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
	} else if w.chance(0.1) && (h.plate == nil || w.mayForget(h)) {
		h.id, h.cached = member.IDFromBytes([16]byte(w.bytes(16))), nil
		w.byID[h.id] = h.idx
		if h.plate != nil {
			h.plate.wipe()
		}
	}
	if h.plate != nil {
		h.plate.found()
	}
	h.start()
}

// found is what may have become of a disk while its member was away: it is
// damaged, empty, or as it was at an earlier time. An earlier state of the very
// store that the table counts on cannot be told from it, and is not promised to
// be noticed.
func (p *plate) found() {
	w := p.h.w
	if p.log == nil || !w.chance(0.2) || !w.mayForget(p.h) {
		return
	}
	switch w.rng.IntN(3) {
	case 0:
		p.harmed = 1 + w.rng.IntN(len(p.log.entries)+1)
		w.count("damaged m%d for %v", p.h.idx, 0)
	case 1:
		p.wipe()
		w.count("emptied m%d for %v", p.h.idx, 0)
	case 2:
		if len(p.past) == 0 {
			return
		}
		b := p.past[w.rng.IntN(len(p.past))]
		if m := w.raft.table.ByID(p.h.id); m != nil && m.Store == b.label && !w.idle(p.h) {
			return
		}
		p.restore(b)
		w.count("restored m%d for %v", p.h.idx, 0)
	}
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
	if w.chance(0.5) {
		// No leader is there for long enough to know for how long it was away.
		var restless func()
		restless = func() {
			if w.now < h.away+5*sc {
				w.raft.elect(w.raft.leader)
				w.at(w.between(sc, 5*sc/2), -1, restless)
			}
		}
		w.at(w.load.end-w.now, -1, restless)
	}
	if w.partitions && w.chance(0.5) {
		isolating(w, h, h.away-w.now)
		return
	}
	if w.disk && w.chance(0.5) && w.mayLose(false, h) {
		h.crash(false) // and comes back with what its disk had then
		w.count("hermit m%d for %v", h.idx, h.away-w.now)
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
		if !h.up {
			h.restart()
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
		if (!owns || w.now > limit) && w.mayLose(false, h) {
			if h.plate != nil {
				h.plate.end()
			}
			h.crash(false)
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
		if h.plate != nil {
			h.plate.full, h.plate.slow = 0, 0
		}
		if !h.up {
			h.restart()
		}
	}
}
