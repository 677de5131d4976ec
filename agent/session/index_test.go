package session

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rondel-project/rondel/agent/ring"
)

// An index finds what a map does, with hashes that stand in each other's way, too.
func TestIndex_againstAMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var x index
		hashes := rapid.SliceOfN(rapid.Uint64Range(0, 40), 60, 60).Draw(t, "hashes")
		want := map[ID]*Entry{}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			i := rapid.IntRange(0, len(hashes)-1).Draw(t, "which")
			id := ID(fmt.Sprint(i))
			switch e := want[id]; {
			case e == nil:
				e = &Entry{Rec: &Record{ID: id}}
				want[id] = e
				x.add(hashes[i], e)
			case rapid.IntRange(0, 3).Draw(t, "remove") > 0:
				delete(want, id)
				x.remove(hashes[i], e)
			}
			if x.n != len(want) || 4*x.n > 3*len(x.cells) || len(x.cells) > max(fewestCells, 8*x.n) {
				t.Fatalf("%d cells, %d of them taken by %d", len(x.cells), x.n, len(want))
			}
			for i, hash := range hashes {
				id := ID(fmt.Sprint(i))
				if got := x.get(hash, id); got != want[id] {
					t.Fatalf("%s: %v, want %v", id, got, want[id])
				}
				if g := x.guess(hash); want[id] != nil && g == nil {
					t.Fatalf("%s is there, and nothing of its hash", id)
				}
			}
		}
	})
}

func TestTable_findsManyAsItFindsOne(t *testing.T) {
	t.Parallel()
	tab := NewTable(time.Hour)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 5000, 20} {
		slots, ids := make([]ring.Slot, n), make([]ID, n)
		for i := range ids {
			slots[i], ids[i] = ring.Slot(rng.IntN(4)), ID(fmt.Sprint(rng.IntN(4000)))
			if rng.IntN(2) == 0 {
				tab.Put(slots[i], &Record{ID: ids[i]}, 0, 0, 0)
			}
		}
		found := make([]*Entry, n)
		tab.Find(slots, ids, found)
		for i, e := range found {
			if e != tab.Get(slots[i], ids[i]) || e != nil && e.Rec.ID != ids[i] {
				t.Fatalf("%s in slot %d: %v", ids[i], slots[i], e)
			}
		}
	}
}

// Two ids of one hash do not stand for each other.
func TestTable_findOfOneHash(t *testing.T) {
	t.Parallel()
	tab := NewTable(time.Hour)
	a := tab.Put(0, &Record{ID: "a"}, 0, 0, 0)
	b := &Entry{Rec: &Record{ID: "b"}}
	x := &tab.slots[0].byID
	x.remove(tab.hash("a"), a)
	x.add(tab.hash("a"), b)
	x.add(tab.hash("a"), a)
	found := make([]*Entry, 1)
	if tab.Find([]ring.Slot{0}, []ID{"a"}, found); found[0] != a {
		t.Errorf("found %v", found[0])
	}
}
