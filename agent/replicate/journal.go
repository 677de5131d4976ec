package replicate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rondel-project/rondel/agent/internal/codec"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// journal is how a core keeps on disk what it holds (durability = "disk"): each
// change becomes a record of Out.Log, numbered from 1 in each run. What a
// message promises to others, or an answer to a client, waits until the records
// up to its After are on disk. Messages that only ask, or carry news to other
// copies, wait for nothing, so that all disks write at the same time.
type journal struct {
	on    bool
	last  uint64
	store StoreID
	whole ring.Slot // from this slot on states are logged whole: their base may be cut off the log
}

// StoreID names what one disk holds; it is made anew whenever that may be less
// than its member has acknowledged. Zero: no disk, or not whole.
type StoreID = ring.Store

// The kinds of record, as they stand in the first byte of their encoding. They
// are never renumbered.
const (
	logPut byte = iota + 1
	logTouch
	logRemove
	logSettle
	logDiscards
)

// Flags of a logged put.
const (
	putUnsettled byte = 1 << iota
	putKeepDead       // a delta keeps removed attributes
)

// ErrJournal means that a journal is not what a core has written.
var ErrJournal = errors.New("the journal of sessions is not what was written")

// put stores rec as the session's state and logs it. u, if not nil, is the
// delta that made rec of what is stored now.
func (n *Node) put(h ring.Slot, rec *session.Record, age, left time.Duration, u *session.Update) *session.Entry {
	if !n.journal.on {
		return n.store.Put(h, rec, n.now.Mono, age, left)
	}
	delta := false
	if e := n.store.Get(h, rec.ID); u != nil && u.Full == nil && e != nil && h < n.journal.whole {
		delta = e.Rec.Version() == u.Base && !e.Rec.Dead
	}
	e := n.store.Put(h, rec, n.now.Mono, age, left)
	stored := n.storedUpdate(e)
	if delta {
		stored = &session.Update{ID: u.ID, Base: u.Base, Next: u.Next, Set: u.Set, Op: u.Op, Left: stored.Left, Age: stored.Age}
	}
	n.logPut(e, stored)
	return e
}

func (n *Node) logPut(e *session.Entry, u *session.Update) {
	n.logUpdate(e.Slot(), e.Unsettled, u)
	e.Logged = n.journal.last
}

func (n *Node) logUpdate(h ring.Slot, unsettled bool, u *session.Update) {
	var flags byte
	if unsettled {
		flags |= putUnsettled
	}
	if u.Full == nil && !n.refuse {
		flags |= putKeepDead
	}
	n.out.Log = session.AppendUpdate(append(n.record(logPut, h), flags), u, n.now.Mono)
}

// logPending logs an owner's write when it leaves for the copies, so that all
// disks write at the same time. If this run ends before the write does, the next
// one holds it as a copy would: it may have happened.
func (n *Node) logPending(w *write, e *session.Entry) {
	if !n.journal.on || w.detached || w.op != nil && w.op.merge != nil {
		return
	}
	if e != nil {
		w.base = e.Rec.Version()
	}
	updates := w.updates
	if w.slot >= n.journal.whole {
		updates = n.whole(w).Updates
	}
	for _, u := range updates {
		n.logUpdate(w.slot, e != nil && e.Unsettled && u.ID == w.id, u)
	}
	w.logged = n.journal.last
}

// stands reports whether the log's last word of w's session is w on top of what
// is held of it now.
func (n *Node) stands(w *write) bool {
	var v session.Version
	if e := n.store.Get(w.slot, w.id); e != nil {
		v = e.Rec.Version()
	}
	return w.logged != 0 && v == w.base
}

// putCommitted stores the outcome of a write, and logs what is not logged.
func (n *Node) putCommitted(w *write, age, left time.Duration) (e, twin *session.Entry) {
	if n.stands(w) {
		e = n.store.Put(w.slot, w.next, n.now.Mono, age, left)
		e.Logged = max(e.Logged, w.logged)
		if w.twin != nil {
			twin = n.store.Put(w.slot, w.twin, n.now.Mono, age, n.idle(w.twin))
			twin.Logged = w.logged
		}
		return e, twin
	}
	u := w.updates[0]
	if w.logged != 0 {
		u = nil // the log has another base
	}
	e = n.put(w.slot, w.next, age, left, u)
	if w.twin != nil {
		twin = n.put(w.slot, w.twin, age, n.idle(w.twin), nil)
	}
	return e, twin
}

// unlog takes back what was logged of a write that ends without having become
// the state of its session here.
func (n *Node) unlog(w *write) {
	if w.logged == 0 {
		return
	}
	for _, id := range w.ids() {
		if e := n.store.Get(w.slot, id); e != nil {
			n.logPut(e, n.storedUpdate(e))
		} else {
			n.logRemove(w.slot, id)
		}
	}
}

// remove forgets a session.
func (n *Node) remove(e *session.Entry) {
	n.store.Remove(e)
	if n.journal.on {
		n.logRemove(e.Slot(), e.Rec.ID)
	}
}

func (n *Node) logRemove(h ring.Slot, id session.ID) {
	n.out.Log = codec.AppendBytes(n.record(logRemove, h), id)
}

// noteDiscards notes that this member has followed the table's Discards.
func (n *Node) noteDiscards(count uint32) {
	n.discarded = count
	if n.journal.on {
		n.out.Log = binary.AppendUvarint(n.record(logDiscards, 0), uint64(count))
	}
}

// settle sets or clears a session's Unsettled mark.
func (n *Node) settle(e *session.Entry, settled bool) {
	if e.Unsettled != settled {
		return
	}
	n.store.Settle(e, settled)
	if n.journal.on {
		n.out.Log = codec.AppendBool(codec.AppendBytes(n.record(logSettle, e.Slot()), e.Rec.ID), settled)
		e.Logged = n.journal.last
	}
}

// logUse logs how long a session has left after uses.
func (n *Node) logUse(e *session.Entry) {
	if !n.journal.on || e.Rec.Dead || e.Deadline == 0 {
		return
	}
	b := codec.AppendBytes(n.record(logTouch, e.Slot()), e.Rec.ID)
	n.out.Log = binary.AppendUvarint(b, uint64(max(e.Deadline-n.now.Mono, 1)))
}

// record begins the next record.
func (n *Node) record(kind byte, h ring.Slot) []byte {
	n.journal.last++
	n.out.Logged = n.journal.last
	return binary.AppendUvarint(append(n.out.Log, kind), uint64(h))
}

// after returns the number of the record that must be on disk before m leaves.
func (n *Node) after(m Message) uint64 {
	switch m.(type) {
	case *Ack, *SealAck, *Listing, *Records, *TouchAck, *OfferAck, *DropOK:
		return n.journal.last
	}
	return 0
}

// BeginDump begins to log everything anew: a change of a slot that Dump has not
// come to yet is logged whole, so that what was logged before need not be kept.
func (n *Node) BeginDump() { n.journal.whole = 0 }

// Dump logs all that the slot holds anew, so that what was logged of it before
// BeginDump can be forgotten. Slots are dumped in their order.
func (n *Node) Dump(t Time, h ring.Slot, out *Out) {
	n.begin(t, out)
	if n.journal.on {
		if h == 0 {
			n.noteDiscards(n.discarded)
		}
		n.store.Each(h, func(e *session.Entry) bool {
			n.logPut(e, n.storedUpdate(e))
			return true
		})
		n.journal.whole = h + 1
		for _, w := range n.writesOf(h) {
			if n.stands(w) {
				n.logPending(w, n.store.Get(h, w.id))
			}
		}
	}
	n.end()
}

// SetStore tells the core the id of the disk that holds everything it holds, or
// zero. The leader hears of it with the next Renew.
func (n *Node) SetStore(id StoreID) {
	if n.journal.store != id {
		n.journal.store, n.lease.renewAt = id, 0
	}
}

// Load takes records that an earlier run has logged, in their order, before
// anything else happens to this core. elapsed is how long ago they were written:
// ages and remaining times run on while nobody serves. It returns ErrJournal
// where they cannot be what was written; what precedes the fault is loaded.
func (n *Node) Load(t Time, records []byte, elapsed time.Duration) error {
	n.now = t
	elapsed = max(elapsed, 0)
	n.inContact(t.Mono - int64(elapsed))
	r := codec.NewReader(records)
	for r.Len() > 0 && r.Err() == nil {
		if err := n.load(r, elapsed); err != nil {
			return err
		}
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrJournal, err)
	}
	return nil
}

func (n *Node) load(r *codec.Reader, elapsed time.Duration) error {
	kind, h := r.Byte(), readSlot(r)
	then := n.now.Mono - int64(elapsed)
	switch kind {
	case logPut:
		flags := r.Byte()
		u := session.ReadUpdate(r, then)
		if r.Err() != nil {
			return nil // told by the caller
		}
		return n.loadPut(h, flags, u, elapsed)
	case logTouch:
		id, left := readID(r), readDuration(r)
		if e := n.store.Get(h, id); r.Err() == nil && e != nil && !e.Rec.Dead {
			n.store.Extend(e, then+int64(left))
		}
	case logRemove:
		id := readID(r)
		if e := n.store.Get(h, id); r.Err() == nil && e != nil {
			n.store.Remove(e)
		}
	case logSettle:
		id, settled := readID(r), r.Bool()
		if e := n.store.Get(h, id); r.Err() == nil && e != nil {
			n.loadSettled(e, settled, elapsed)
		}
	case logDiscards:
		if k := r.Uvarint(); r.Err() == nil && k <= math.MaxUint32 {
			n.discarded = uint32(k)
		}
	default:
		r.Fail(fmt.Errorf("record of kind %d: %w", kind, codec.ErrMalformed))
	}
	return nil
}

func (n *Node) loadPut(h ring.Slot, flags byte, u *session.Update, elapsed time.Duration) error {
	var rec *session.Record
	if e := n.store.Get(h, u.ID); e != nil {
		rec = e.Rec
	}
	next, err := u.ApplyTo(rec, flags&putKeepDead != 0, n.now.Mono)
	if err != nil {
		return fmt.Errorf("%w: a change of another state than the one before it: %w", ErrJournal, err)
	}
	n.see(next.Attrs)
	n.detach.count = max(n.detach.count, next.Gen.Detach)
	left := u.Left
	if left > 0 {
		left = max(left-elapsed, 1)
	}
	e := n.store.Put(h, next, n.now.Mono, u.Age+elapsed, left)
	n.loadSettled(e, flags&putUnsettled == 0, elapsed)
	return nil
}

func (n *Node) loadSettled(e *session.Entry, settled bool, elapsed time.Duration) {
	if e.Unsettled == settled {
		n.store.Settle(e, settled)
		if !settled {
			n.unsettled = append(n.unsettled, unsettled{e, n.now.Mono - int64(elapsed)})
		}
	}
}
