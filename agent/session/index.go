package session

import (
	"hash/maphash"

	"github.com/rondel-project/rondel/agent/ring"
)

// index finds a slot's entries by id: a hash table of its own, in which each step of
// a look-up is a load whose address is known without the one before having come, as
// far as can be. So many look-ups can be under way at once, which a map does not allow; see
// Table.Find. An entry is in the first free cell from its home on.
type index struct {
	cells []cell // a power of two of them, at most three quarters taken; nil: none
	n     int
}

type cell struct {
	hash uint64
	e    *Entry // nil: the cell is free
}

const fewestCells = 8

func (x *index) mask() uint64 { return uint64(len(x.cells) - 1) }

func (x *index) get(hash uint64, id ID) *Entry {
	if x.n == 0 {
		return nil
	}
	for i := hash & x.mask(); ; i = (i + 1) & x.mask() {
		c := &x.cells[i]
		if c.e == nil || c.hash == hash && c.e.Rec.ID == id {
			return c.e
		}
	}
}

// guess returns the first entry of that hash: it is the one that is looked for, unless
// another one's id has the same 64 bits.
func (x *index) guess(hash uint64) *Entry {
	if x.n == 0 {
		return nil
	}
	for i := hash & x.mask(); ; i = (i + 1) & x.mask() {
		if c := &x.cells[i]; c.e == nil || c.hash == hash {
			return c.e
		}
	}
}

// add adds an entry whose id is not there.
func (x *index) add(hash uint64, e *Entry) {
	if 4*(x.n+1) > 3*len(x.cells) {
		x.resize(max(fewestCells, 2*len(x.cells)))
	}
	x.n++
	x.place(cell{hash, e})
}

func (x *index) place(c cell) {
	i := c.hash & x.mask()
	for x.cells[i].e != nil {
		i = (i + 1) & x.mask()
	}
	x.cells[i] = c
}

func (x *index) resize(n int) {
	old := x.cells
	x.cells = make([]cell, n)
	for _, c := range old {
		if c.e != nil {
			x.place(c)
		}
	}
}

// remove takes an entry out that is there.
func (x *index) remove(hash uint64, e *Entry) {
	i := hash & x.mask()
	for x.cells[i].e != e {
		i = (i + 1) & x.mask()
	}
	// Those behind it move up, as far as their homes allow: a look-up ends at a free cell.
	for j := i; ; {
		j = (j + 1) & x.mask()
		c := x.cells[j]
		if c.e == nil {
			break
		}
		if (j-c.hash)&x.mask() >= (j-i)&x.mask() {
			x.cells[i], i = c, j
		}
	}
	x.cells[i] = cell{}
	switch x.n--; {
	case x.n == 0:
		x.cells = nil
	case len(x.cells) > fewestCells && 8*x.n < len(x.cells):
		x.resize(len(x.cells) / 2)
	}
}

func (t *Table) hash(id ID) uint64 { return maphash.String(t.seed, string(id)) }

// Find is Get for many sessions: it sets found[i] to the entry of ids[i], which is in
// slots[i], or to nil. Most of what a single look-up costs is waiting for memory, one
// load after the other; here those of many are waited for together.
func (t *Table) Find(slots []ring.Slot, ids []ID, found []*Entry) {
	if cap(t.hashes) < len(ids) {
		t.hashes = make([]uint64, len(ids))
	}
	hashes := t.hashes[:len(ids)]
	for i, id := range ids {
		hashes[i] = t.hash(id)
	}
	for i, h := range slots {
		found[i] = t.slots[h].byID.guess(hashes[i])
	}
	for i, e := range found[:len(ids)] {
		if e != nil && e.Rec.ID != ids[i] {
			found[i] = t.slots[slots[i]].byID.get(hashes[i], ids[i])
		}
	}
}
