package sim

import (
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/replicate"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// plate is one member's disk and what agent/store does with it, in simulated
// time: changes gather while one write is under way, nothing is promised before
// its write is done, an id names a log that holds everything, and a disk that
// fails loses its id first.
type plate struct {
	h *host

	// What a crash leaves.
	log      *wal       // the one that counts; nil: none
	label    ring.Store // its id; zero: it may hold less than was promised
	labelled int        // in which run of the machine the label was written
	kernel   int        // the present run of the machine
	clean    bool       // the last run of the process ended in order
	past     []backup

	// What it does not.
	runs    int
	wal     *wal // nil: sessions are in memory only
	open    bool // records are taken
	pending [][]byte
	upto    uint64
	busy    bool
	flight  [][]byte // being written
	dump    dump

	full   int64 // no room until then
	stuck  bool  // nor can the id be removed then
	slow   int64 // each write takes long until then
	harmed int   // where the log will be found damaged when it is loaded; 0: nowhere
}

// wal is one log. What is in it outlives the process, and up to synced also the
// machine's power.
type wal struct {
	first   int // number of its first entry
	entries []logged
	synced  int
}

type logged struct {
	records []byte
	at      int64
}

func (l *wal) next() int { return l.first + len(l.entries) }

// dump is everything being logged anew: into a new log, or so that the front of
// the old one can be cut off.
type dump struct {
	on, rebuild, begun bool
	next               ring.Slot
	from               int
}

// backup is a disk as it was.
type backup struct {
	log              *wal
	label            ring.Store
	labelled, kernel int
}

func (l *wal) clone() *wal {
	if l == nil {
		return nil
	}
	return &wal{l.first, slices.Clone(l.entries), l.synced}
}

// holds returns the id under which the disk would be found by a new run.
func (p *plate) holds() ring.Store {
	if p.h.w.lazy && !p.clean && p.labelled != p.kernel {
		return ring.Store{}
	}
	return p.label
}

// later is world.at for what ends with the process.
func (p *plate) later(d int64, f func()) {
	run := p.runs
	p.h.w.at(d, p.h.idx, func() {
		if p.runs == run {
			f()
		}
	})
}

func (p *plate) latency() int64 {
	w := p.h.w
	switch {
	case p.slow > w.now:
		return w.between(100*ms, 900*ms)
	case w.chance(0.02):
		return w.between(20*ms, 600*ms)
	}
	return w.between(50*us, 3*ms)
}

// load gives a new core what the disk has.
func (p *plate) load() {
	h, w := p.h, p.h.w
	p.clean, p.open, p.pending, p.upto = p.clean && p.log != nil, false, nil, 0
	if p.log != nil {
		list, whole := p.log.entries, true
		if p.harmed > 0 {
			list, whole = list[:min(p.harmed, len(list))], false
		}
		for _, e := range list {
			if err := h.core.Load(h.time(), e.records, time.Duration(w.now-e.at)); err != nil {
				w.check.fail("m%d cannot read its own log: %v", h.idx, err)
			}
		}
		if !whole {
			p.harmed, p.label, p.log = 0, ring.Store{}, nil
		}
	}
	id := p.holds()
	w.logf("m%d finds store %x with %d sessions", h.idx, id[:2], records(h))
	if id == (ring.Store{}) {
		h.setStore(id, false)
		p.later(0, p.rebuild)
	} else {
		p.wal, p.open, p.clean, p.labelled = p.log, true, false, p.kernel
		h.setStore(id, false)
	}
	if w.lazy {
		p.later(sc, p.syncNow)
	}
}

func records(h *host) int {
	_, n, _ := h.core.Sessions().Total()
	return n
}

func (p *plate) syncNow() {
	if p.wal != nil && p.full <= p.h.w.now {
		p.wal.synced = p.wal.next()
	}
	p.later(sc, p.syncNow)
}

// append takes the records of one step.
func (p *plate) append(upto uint64, records []byte) {
	if p.upto = upto; !p.open {
		return
	}
	p.pending = append(p.pending, slices.Clone(records))
	if !p.busy {
		p.later(0, p.act)
	}
}

// act does what is next for the disk, one thing at a time.
func (p *plate) act() {
	if p.busy || p.wal == nil {
		return
	}
	d := &p.dump
	switch {
	case d.on && !d.begun: // what was logged before it
		p.write(func() { d.begun, d.from = true, p.wal.next() })
	case d.on && d.next < ring.Slots:
		for range 128 {
			h := d.next
			p.h.step(func(t replicate.Time, out *replicate.Out) { p.h.core.Dump(t, h, out) })
			d.next++
		}
		p.write(func() {})
	case d.on:
		p.dumped()
	case len(p.pending) > 0:
		p.write(func() {
			if p.h.w.chance(0.002) {
				p.h.core.BeginDump()
				p.dump = dump{on: true}
				p.h.w.stats["cleaned"]++
			}
		})
	}
}

// write writes what has gathered.
func (p *plate) write(then func()) {
	p.busy, p.flight, p.pending = true, p.pending, nil
	upto := p.upto
	d := p.latency()
	if len(p.flight) == 0 {
		d = 0
	}
	p.later(d, func() {
		p.busy = false
		if p.full > p.h.w.now && len(p.flight) > 0 {
			p.fail()
			return
		}
		p.wal.add(p.flight, p.h.w)
		p.flight = nil
		then()
		p.h.synced(upto)
		p.act()
	})
}

func (l *wal) add(records [][]byte, w *world) {
	if len(records) == 0 {
		return
	}
	l.entries = append(l.entries, logged{slices.Concat(records...), w.now})
	if !w.lazy {
		l.synced = l.next()
	}
}

// dumped ends a dump: a new log gets its id, of an old one the front is cut off.
func (p *plate) dumped() {
	p.busy = true
	p.later(p.latency(), func() {
		p.busy = false
		if p.full > p.h.w.now {
			p.fail()
			return
		}
		p.wal.synced = p.wal.next()
		if d := p.dump; !d.rebuild {
			p.dump = dump{}
			p.wal.entries = slices.Clone(p.wal.entries[d.from-p.wal.first:])
			p.wal.first = d.from
			p.act()
			return
		}
		p.label, p.log, p.busy = ring.Store{}, p.wal, true
		p.later(p.latency(), func() {
			p.busy, p.dump = false, dump{}
			p.label, p.labelled, p.clean = ring.Store(p.h.w.bytes(16)), p.kernel, false
			p.h.setStore(p.label, false)
			p.act()
		})
	})
}

// rebuild begins a new log.
func (p *plate) rebuild() {
	p.h.core.BeginDump()
	if p.full > p.h.w.now {
		p.fail()
		return
	}
	p.wal, p.open, p.pending, p.busy, p.dump = &wal{}, true, nil, false, dump{on: true, rebuild: true, begun: true}
	p.act()
}

// fail steps aside.
func (p *plate) fail() {
	p.open, p.pending, p.flight, p.busy, p.wal, p.dump = false, nil, nil, false, nil, dump{}
	stuck := p.stuck && p.full > p.h.w.now && p.label != (ring.Store{})
	if !stuck {
		p.label = ring.Store{}
	}
	p.h.w.logf("m%d has no disk (doubt %v)", p.h.idx, stuck)
	p.h.setStore(ring.Store{}, stuck)
	p.later(p.h.w.between(500*ms, 2*sc), p.rebuild)
}

// end is the end of the process in order.
func (p *plate) end() {
	if p.wal == nil || p.full > p.h.w.now {
		return
	}
	p.wal.add(append(p.flight, p.pending...), p.h.w)
	p.flight, p.pending = nil, nil
	p.wal.synced = p.wal.next()
	p.clean = p.label != (ring.Store{}) && !p.dump.rebuild
}

// cut is the end of the process without order, with power of the whole machine:
// of what was being written nothing, all or a part is there.
func (p *plate) cut(power bool) {
	w := p.h.w
	if p.wal != nil && len(p.flight) > 0 {
		n := []int{0, len(p.flight), w.rng.IntN(len(p.flight) + 1)}[w.rng.IntN(3)]
		p.wal.add(p.flight[:n], w)
		if n > 0 && n < len(p.flight) {
			w.stats["torn"]++
		}
	}
	if power {
		p.kernel++
		if l := p.log; l != nil && l.synced < l.next() && !p.clean {
			l.entries = l.entries[:int(w.between(int64(max(l.synced, l.first)), int64(l.next())))-l.first]
		}
	}
	p.runs++
	p.wal, p.open, p.pending, p.flight, p.busy, p.dump = nil, false, nil, nil, false, dump{}
	if w.chance(0.3) {
		p.keepBackup()
	}
}

// proves checks, when the process ends, that all that others were let rely on is
// found again.
func (p *plate) proves() {
	h, w := p.h, p.h.w
	if p.wal == nil || p.label == (ring.Store{}) || p.dump.rebuild {
		return
	}
	again := replicate.NewNode(replicate.Config{ID: h.id, Params: w.params(), Disk: true})
	for _, e := range p.wal.entries {
		if err := again.Load(h.time(), e.records, time.Duration(w.now-e.at)); err != nil {
			w.check.fail("m%d will not be able to read its log: %v", h.idx, err)
			return
		}
	}
	for s := range ring.Slot(ring.Slots) {
		h.core.Sessions().Each(s, func(e *session.Entry) bool {
			if e.Logged > h.held.synced {
				return true
			}
			if x := again.Sessions().Get(s, e.Rec.ID); x == nil || x.Rec.Version().Compare(e.Rec.Version()) < 0 {
				w.check.fail("m%d has not on its disk what it holds of slot %d: %v of %s, logged in %d of %d", h.idx, s, e.Rec.Version(), e.Rec.ID[12:16], e.Logged, h.held.synced)
			}
			return true
		})
	}
}

func (p *plate) keepBackup() {
	p.past = append(p.past, backup{p.log.clone(), p.label, p.labelled, p.kernel})
}

// restore puts an earlier disk in the place of the present one.
func (p *plate) restore(b backup) {
	p.log, p.label, p.labelled, p.clean = b.log.clone(), b.label, b.labelled, false
	if p.kernel != b.kernel {
		p.labelled = -1
	}
}

// wipe empties the disk.
func (p *plate) wipe() { p.log, p.label, p.clean, p.harmed = nil, ring.Store{}, false, 0 }

// held is what waits for the disk, as in replicate.Engine.
type held struct {
	gate   bool // promises wait
	doubt  bool // wherever the table says that this member's disk holds something
	synced uint64
	outs   []heldOut
}

type heldOut struct {
	after  uint64
	answer *replicate.Answer // nil: a letter
	letter letter
}

func (q *held) waits(after uint64) bool { return q.gate && after > q.synced }

// keep hands a step's log to the disk.
func (h *host) keep() {
	if len(h.out.Log) > 0 {
		h.plate.append(h.out.Logged, h.out.Log)
	}
	if h.held.doubt {
		m := h.core.Table().Member(h.core.Self().Num)
		if h.held.gate = m == nil || m.Store != (ring.Store{}); !h.held.gate {
			h.release()
		}
	}
}

func (h *host) synced(upto uint64) {
	if upto > h.held.synced {
		h.held.synced = upto
		h.release()
	}
}

func (h *host) setStore(id ring.Store, doubt bool) {
	h.core.SetStore(id)
	h.held.doubt = doubt && id == (ring.Store{})
	h.held.gate = id != (ring.Store{}) || h.held.doubt
	h.release()
}

func (h *host) release() {
	outs := h.held.outs
	h.held.outs = nil
	for _, o := range outs {
		switch {
		case h.held.waits(o.after):
			h.held.outs = append(h.held.outs, o)
		case o.answer != nil:
			h.answer(o.answer)
		default:
			h.w.net.post(h, o.letter)
		}
	}
}
