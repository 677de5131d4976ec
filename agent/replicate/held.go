package replicate

import (
	"bytes"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
)

// Disk keeps what a core logs. agent/store has one.
type Disk interface {
	// Append takes the records of one step, of which upto is the last, and
	// never blocks. It copies them. Whoever keeps them calls Engine.Synced.
	Append(upto uint64, records []byte)
}

// maxHeld is how many bytes may wait for the disk, about; heldCost is what each
// message or answer costs beside its contents.
const (
	maxHeld  = 64 << 20
	heldCost = 256
)

// held is what waits for the disk, in the order in which it came to wait. It is
// bounded: a message for which there is no room is lost, as the network might have
// lost it, and an answer is that it could not be told.
type held struct {
	gate   bool // promises wait
	doubt  bool // wherever the table says that this member's disk holds something
	synced uint64
	outs   []heldOut
	size   int
	limit  int
}

// heldOut is a message or an answer that waits.
type heldOut struct {
	after   uint64
	to      ring.Holder
	bulk    bool
	payload []byte // nil: it is an answer
	answer  Answer
}

func (q *held) waits(after uint64) bool { return q.gate && after > q.synced }

func (o *heldOut) size() int {
	n := heldCost + len(o.payload)
	if r := o.answer.Resp; r != nil && r.Record != nil {
		n += r.Record.Size()
	}
	return n
}

// add reports whether there was room.
func (q *held) add(o heldOut) bool {
	n := o.size()
	if q.size+n > q.limit {
		return false
	}
	q.outs, q.size = append(q.outs, o), q.size+n
	return true
}

func (q *held) send(s *Send, payload []byte) {
	if q.size+heldCost+len(payload) <= q.limit {
		q.add(heldOut{after: s.After, to: s.To, bulk: s.Bulk, payload: bytes.Clone(payload)})
	}
}

// hold has an answer wait for the disk.
func (e *Engine) hold(a Answer) {
	if e.held.add(heldOut{after: a.After, answer: a}) {
		return
	}
	a.Resp = unavailable("overloaded", "too much waits for this agent's disk; try again")
	if a.Mutates {
		a.Resp = unknownEnd()
	}
	e.answer(a)
}

// keep hands the step's log records to the disk, and opens the gate where the
// table has come to say that nobody counts on it.
func (e *Engine) keep() {
	if len(e.out.Log) > 0 {
		e.disk.Append(e.out.Logged, e.out.Log)
	}
	if e.held.doubt {
		m := e.node.t.Member(e.node.self.Num)
		if e.held.gate = m == nil || m.Store != (ring.Store{}); !e.held.gate {
			e.release()
		}
	}
}

// release lets go what waits for nothing any more.
func (e *Engine) release() {
	keep := e.held.outs[:0]
	e.held.size = 0
	for _, o := range e.held.outs {
		switch {
		case e.held.waits(o.after):
			keep = append(keep, o)
			e.held.size += o.size()
		case o.payload == nil:
			e.answer(o.answer)
		default:
			if m := e.node.t.Member(o.to.Num); m != nil && m.Boot == o.to.Boot {
				e.link.Send(m, o.bulk, o.payload)
			}
		}
	}
	clear(e.held.outs[len(keep):])
	e.held.outs = keep
}

// Synced tells the engine that the log records up to upto are as safe as the
// fsync policy promises.
func (e *Engine) Synced(upto uint64) {
	e.mu.Lock()
	e.synced(upto)
	e.handOver()
}

func (e *Engine) synced(upto uint64) {
	defer e.guard()
	if upto > e.held.synced {
		e.held.synced = upto
		e.release()
		e.link.Flush()
	}
}

// SetStore tells the engine the id of the disk that holds everything that this
// member holds; from then on nothing is promised before it is there. The zero
// id says that the disk holds nothing that anybody counts on: sessions go on
// from memory. With doubt, an earlier id may still be found on the disk after a
// restart: promises wait until the table does not name it any more.
func (e *Engine) SetStore(id ring.Store, doubt bool) {
	e.step(func(now Time, out *Out) {
		e.node.SetStore(id)
		e.held.doubt = doubt && id == (ring.Store{})
		e.held.gate = id != (ring.Store{}) || e.held.doubt
		if !e.held.gate {
			e.release()
		}
	})
}

// Load takes records that an earlier run has logged, in their order, before Run.
// elapsed is how long ago they were written; it may not be negative. It returns
// ErrJournal where they are not what was written.
func (e *Engine) Load(records []byte, elapsed time.Duration) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.guard()
	return e.node.Load(e.clock(), records, elapsed)
}

// BeginDump makes the engine log everything anew, slot by slot as Dump is
// called: what was logged before can be forgotten when the last is done.
func (e *Engine) BeginDump() {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.guard()
	e.node.BeginDump()
}

// Dump logs all that a slot holds anew. It returns the number of the last log
// record, with which the dump is whole.
func (e *Engine) Dump(h ring.Slot) (upto uint64) {
	e.step(func(now Time, out *Out) {
		e.node.Dump(now, h, out)
		upto = e.node.journal.last
	})
	return upto
}
