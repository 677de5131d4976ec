package session

import (
	"container/heap"
	"hash/maphash"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/rondel-project/rondel/agent/ring"
)

// Buckets is into how many parts a slot's sessions are hashed, so that two
// copies that differ compare only the parts in which they do.
const Buckets = 32

// Entry is a session's place in a member's memory. Its times are nanoseconds
// on the holder's own clock; nothing in it compares the clocks of two members.
type Entry struct {
	Rec       *Record
	Born      int64 // when the session was created
	Deadline  int64 // when it ends if nobody uses it; 0: never
	Used      int64 // when it was last used
	Told      int64 // the Deadline that its copies have been told of, where this member owns it
	Unsettled bool  // acknowledged without an owner or without all copies: to be offered to the owner

	tomb, gone bool // in the list of tombstones; removed
	mindful    bool // in the shelf's list of those that remember operations
	slot       ring.Slot
	bucket     uint8  // Bucket of the id
	Round      uint32 // in which they were told; its end, the rest is known
	sum        uint64 // what the shelf's buckets hold of Rec
	older, yng *Entry // the slot's list by last use, of living ones or of tombstones
	wake       int64  // when the expiry heap looks at it, at the latest

	// Logged is the number of the log record that holds this state, where the
	// member keeps a log.
	Logged uint64
}

// Slot returns the slot that the session is in.
func (e *Entry) Slot() ring.Slot { return e.slot }

// Gone reports whether the entry has been removed from its table.
func (e *Entry) Gone() bool { return e.gone }

// Ends returns when the session ends if nobody uses it, on the holder's clock,
// and whether it ever does.
func (e *Entry) Ends() (int64, bool) {
	at, ok := e.Deadline, e.Deadline != 0
	if e.Rec.MaxAge > 0 && !e.Rec.Dead { // a tombstone outlives what it marks
		if m := e.Born + int64(e.Rec.MaxAge); !ok || m < at {
			at, ok = m, true
		}
	}
	return at, ok
}

// shelf holds one slot's sessions.
type shelf struct {
	byID    index
	buckets [Buckets]uint64
	live    int
	living  uses
	tombs   uses     // apart, so that whoever looks for old sessions need not pass them
	mindful []*Entry // remember operations, or did when Forget last looked
}

// uses is a list of entries by last use.
type uses struct{ oldest, newest *Entry }

// Table is the sessions that one member holds in memory, by slot, with what is
// needed to compare copies, to find the least recently used and to find those
// that have ended. It is not safe for concurrent use.
type Table struct {
	slots  [ring.Slots]shelf
	wakes  wakeHeap
	live   int
	total  int
	bytes  int64
	tomb   time.Duration
	unsetl int
	stale  int // wakes of removed entries
	seed   maphash.Seed
	hashes []uint64 // for Find, to be used again
}

// NewTable returns an empty table that keeps tombstones for tomb.
func NewTable(tomb time.Duration) *Table { return &Table{tomb: tomb, seed: maphash.MakeSeed()} }

// Get returns the entry of id, or nil.
func (t *Table) Get(h ring.Slot, id ID) *Entry { return t.slots[h].byID.get(t.hash(id), id) }

// Put stores rec as the state of its session. A new entry takes its times from
// age and left, the time since its creation and the time until it ends; an old
// one keeps its birth, and its deadline unless left is positive.
func (t *Table) Put(h ring.Slot, rec *Record, now int64, age, left time.Duration) *Entry {
	s, hash := &t.slots[h], t.hash(rec.ID)
	e := s.byID.get(hash, rec.ID)
	if e == nil {
		e = &Entry{slot: h, bucket: uint8(Bucket(rec.ID)), Born: now - int64(age), Used: now}
		s.byID.add(hash, e)
		t.total++
		if left > 0 || rec.Dead {
			e.Deadline = now + int64(left)
		}
	} else {
		s.count(t, e, -1)
		s.unlink(e)
		e.Born = min(e.Born, now-int64(age))
		switch at := now + int64(left); {
		case left <= 0:
		case rec.Dead || e.Rec.Dead:
			e.Deadline = at
		default:
			// A use that the writer has not heard of may have moved it further.
			e.Deadline = max(e.Deadline, at)
		}
	}
	e.Rec, e.sum = rec, rec.Sum()
	s.count(t, e, +1)
	s.link(e)
	if len(rec.Ops) > 0 && !e.mindful {
		e.mindful = true
		s.mindful = append(s.mindful, e)
	}
	switch {
	case rec.Dead && left <= 0:
		e.Deadline = now + int64(t.tomb)
	case rec.Dead:
	case rec.TTL == 0 && left <= 0:
		e.Deadline = 0
	case e.Deadline == 0:
		e.Deadline = now + int64(rec.TTL)
	}
	t.schedule(e)
	return e
}

// Use marks the session as used now and starts its idle time anew. It never
// brings the end nearer.
func (t *Table) Use(e *Entry, now int64) {
	if e.Used = now; e.Rec.TTL > 0 && !e.Rec.Dead {
		e.Deadline = max(e.Deadline, now+int64(e.Rec.TTL))
	}
	s := &t.slots[e.slot]
	s.unlink(e)
	s.link(e)
}

// Extend moves the deadline to at, if that is later.
func (t *Table) Extend(e *Entry, at int64) {
	if e.Deadline != 0 && at > e.Deadline {
		e.Deadline = at
	}
}

// Settle sets or clears the entry's Unsettled mark.
func (t *Table) Settle(e *Entry, settled bool) {
	if e.Unsettled == settled {
		if e.Unsettled = !settled; settled {
			t.unsetl--
		} else {
			t.unsetl++
		}
	}
}

// Unsettled returns how many entries are marked Unsettled.
func (t *Table) Unsettled() int { return t.unsetl }

// Remove forgets the session.
func (t *Table) Remove(e *Entry) {
	s := &t.slots[e.slot]
	if e.gone {
		return
	}
	t.Settle(e, true)
	s.count(t, e, -1)
	s.unlink(e)
	s.byID.remove(t.hash(e.Rec.ID), e)
	e.gone = true
	t.total--
	if e.wake != 0 {
		t.stale++
		t.sweep()
	}
}

// sweep takes removed entries out of the heap once they are most of it, so
// that slots given away cost nothing until their sessions would have ended.
func (t *Table) sweep() {
	if t.stale < 64 || t.stale < len(t.wakes)/2 {
		return
	}
	t.wakes = slices.DeleteFunc(t.wakes, func(w wake) bool { return w.e.gone || w.e.wake != w.at })
	if len(t.wakes) < cap(t.wakes)/4 {
		t.wakes = slices.Clip(slices.Clone(t.wakes))
	}
	heap.Init(&t.wakes)
	t.stale = 0
}

// Clear forgets all sessions of a slot.
func (t *Table) Clear(h ring.Slot) {
	t.Each(h, func(e *Entry) bool {
		t.Remove(e)
		return true
	})
}

// Live returns how many living sessions the slot holds.
func (t *Table) Live(h ring.Slot) int { return t.slots[h].live }

// Count returns how many records the slot holds, tombstones included.
func (t *Table) Count(h ring.Slot) int { return t.slots[h].byID.n }

// Total returns the living sessions of all slots, all records, and the bytes
// of all attributes.
func (t *Table) Total() (live, records int, bytes int64) { return t.live, t.total, t.bytes }

// Sum returns the checksum of the slot's records: equal for equal copies,
// whatever their deadlines.
func (t *Table) Sum(h ring.Slot) uint64 {
	var b [Buckets * 8]byte
	for i, v := range t.slots[h].buckets {
		for k := range 8 {
			b[i*8+k] = byte(v >> (8 * k))
		}
	}
	return xxhash.Sum64(b[:])
}

// BucketSums returns the checksums of the slot's buckets.
func (t *Table) BucketSums(h ring.Slot) [Buckets]uint64 { return t.slots[h].buckets }

// Bucket returns the bucket that id is in.
func Bucket(id ID) int { return int(xxhash.Sum64String(string(id)) % Buckets) }

// Each calls f for every record of the slot, tombstones first, then living ones,
// each least recently used first, until f returns false. f may remove the entry that it was given.
func (t *Table) Each(h ring.Slot, f func(*Entry) bool) {
	for _, first := range [...]*Entry{t.slots[h].tombs.oldest, t.slots[h].living.oldest} {
		for e := first; e != nil; {
			next := e.yng
			if !f(e) {
				return
			}
			e = next
		}
	}
}

// EachLiving is Each for living sessions alone.
func (t *Table) EachLiving(h ring.Slot, f func(*Entry) bool) {
	for e := t.slots[h].living.oldest; e != nil; {
		next := e.yng
		if !f(e) {
			return
		}
		e = next
	}
}

// Newest returns the most recently used living session of the slot, or nil.
func (t *Table) Newest(h ring.Slot) *Entry { return t.slots[h].living.newest }

func (s *shelf) count(t *Table, e *Entry, by int) {
	s.buckets[e.bucket] += uint64(by) * e.sum
	if !e.Rec.Dead {
		s.live += by
		t.live += by
	}
	t.bytes += int64(by * e.Rec.size)
}

func (s *shelf) list(tomb bool) *uses {
	if tomb {
		return &s.tombs
	}
	return &s.living
}

func (s *shelf) link(e *Entry) {
	e.tomb = e.Rec.Dead
	l := s.list(e.tomb)
	e.older, e.yng = l.newest, nil
	if l.newest != nil {
		l.newest.yng = e
	} else {
		l.oldest = e
	}
	l.newest = e
}

func (s *shelf) unlink(e *Entry) {
	l := s.list(e.tomb)
	if e.older != nil {
		e.older.yng = e.yng
	} else {
		l.oldest = e.yng
	}
	if e.yng != nil {
		e.yng.older = e.older
	} else {
		l.newest = e.older
	}
	e.older, e.yng = nil, nil
}

// schedule makes sure that the heap looks at e no later than it ends.
func (t *Table) schedule(e *Entry) {
	at, ok := e.Ends()
	if !ok || e.wake != 0 && e.wake <= at {
		return
	}
	e.wake = at
	heap.Push(&t.wakes, wake{at, e})
}

// Reschedule makes the heap look at every record of the slot when it ends:
// for a member that has come to own it.
func (t *Table) Reschedule(h ring.Slot) {
	t.Each(h, func(e *Entry) bool {
		t.schedule(e)
		return true
	})
}

// Ended calls f for each record that has ended at now, at most limit of them.
// f returns when to look at it again; 0 where it has removed it or has written
// a new state of it.
func (t *Table) Ended(now int64, limit int, f func(*Entry) (again int64)) {
	for n := 0; n < limit && len(t.wakes) > 0 && t.wakes[0].at <= now; {
		w := heap.Pop(&t.wakes).(wake)
		e := w.e
		if e.gone || e.wake != w.at { // removed, or looked at earlier by another item
			if e.gone {
				t.stale = max(0, t.stale-1)
			}
			continue
		}
		e.wake = 0
		if at, ok := e.Ends(); !ok {
			continue
		} else if at > now {
			t.schedule(e)
			continue
		}
		n++
		if again := f(e); again > 0 && !e.gone && e.wake == 0 {
			e.wake = again
			heap.Push(&t.wakes, wake{again, e})
		}
	}
}

type wake struct {
	at int64
	e  *Entry
}

type wakeHeap []wake

func (h wakeHeap) Len() int           { return len(h) }
func (h wakeHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h wakeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *wakeHeap) Push(x any)        { *h = append(*h, x.(wake)) }
func (h *wakeHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = wake{}
	*h = old[:len(old)-1]
	return x
}

// Forget drops those remembered operations of a slot that need not be kept any
// more, so that an idle session costs no memory for them. It looks at none of the
// sessions that remember nothing.
func (t *Table) Forget(h ring.Slot, now int64) {
	s := &t.slots[h]
	kept := s.mindful[:0]
	for _, e := range s.mindful {
		if !e.gone {
			e.forget(now)
		}
		if e.mindful = !e.gone && len(e.Rec.Ops) > 0; e.mindful {
			kept = append(kept, e)
		}
	}
	clear(s.mindful[len(kept):])
	if s.mindful = kept; len(kept) == 0 {
		s.mindful = nil
	}
}

func (e *Entry) forget(now int64) {
	if ops := pruneOps(nil, e.Rec.Ops, now, 0, 0); len(ops) < len(e.Rec.Ops) {
		n := *e.Rec
		n.Ops = ops
		e.Rec = &n
	}
}
