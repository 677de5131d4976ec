package leader

import (
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

func onDisk(o *Options) { o.Cluster.Settings.Disk, o.Cluster.Settings.StallTimeout = true, 0 }

// restart is a new process of member i that has found store on its disk.
func (s *stage) restart(i int, store ring.Store) {
	p := s.peer(i)
	p.Boot[1]++
	p.table, p.answers, p.renews, p.store = &ring.Table{}, Reached, true, store
	s.gossip(i, member.Alive)
}

func TestCore_disksOfAllThreeBringEverythingBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3, onDisk)
	for i := 1; i <= 3; i++ {
		s.peer(i).store = ring.Store{byte(i)}
	}
	s.run(2 * time.Second)
	for i := 1; i <= 3; i++ {
		if got := s.table.ByID(id(i)).Store; got != (ring.Store{byte(i)}) {
			t.Fatalf("the table names store %v of member %d", got, i)
		}
	}
	s.learns = false // nobody may need to be filled
	for i := 1; i <= 3; i++ {
		s.restart(i, ring.Store{byte(i)})
	}
	s.run(3 * time.Second)
	for h := range s.table.Slots {
		st := &s.table.Slots[h]
		if len(st.InSync) != 3 || st.Lost {
			t.Fatalf("slot %d after the restart: %+v", h, st)
		}
		for i := 1; i <= 3; i++ {
			if !st.InSyncHas(s.holder(i)) {
				t.Fatalf("slot %d: member %d is not in sync", h, i)
			}
		}
	}
}

func TestCore_anotherStoreIsFilledAnew(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3, onDisk)
	s.peer(3).store = ring.Store{3}
	s.run(2 * time.Second)
	s.learns = false
	s.restart(3, ring.Store{4})
	s.run(2 * time.Second)
	for h := range s.table.Slots {
		if s.table.Slots[h].InSyncHas(s.holder(3)) {
			t.Fatalf("slot %d counts a disk that is not the one it was", h)
		}
	}
}

func TestCore_waitsForWordOfTheDisk(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3, onDisk)
	s.peer(3).store = ring.Store{3}
	s.run(2 * time.Second)
	s.restart(3, ring.Store{3})
	s.peer(3).renews = false
	s.run(300 * time.Millisecond)
	if m := s.table.ByID(id(3)); m.Boot == s.peer(3).Boot {
		t.Fatal("a new run is in the table before it has said what its disk holds")
	}
	s.peer(3).renews = true
	s.run(time.Second)
	if s.table.ByID(id(3)).Boot != s.peer(3).Boot {
		t.Fatal("a new run that has told of its disk is not in the table")
	}
}

func TestCore_storeThatErredIsForgotten(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3, onDisk)
	s.peer(3).store = ring.Store{3}
	s.run(2 * time.Second)
	s.peer(3).store = ring.Store{}
	s.run(2 * time.Second)
	if got := s.table.ByID(id(3)).Store; got != (ring.Store{}) {
		t.Errorf("the table still names %v", got)
	}
}

func TestCore_disksAreWaitedFor(t *testing.T) {
	t.Parallel()
	s := newStage(t, 4, onDisk)
	for i := 1; i <= 4; i++ {
		s.peer(i).store = ring.Store{byte(i)}
	}
	s.run(2 * time.Second)
	for i := 2; i <= 4; i++ {
		s.kill(i)
		s.step(Refused{s.holder(i)})
		s.gossip(i, member.Failed)
	}
	s.run(5 * time.Minute)
	for h := range s.table.Slots {
		if s.table.Slots[h].Lost {
			t.Fatalf("slot %d gave up copies that are on a disk", h)
		}
	}
}

// Of two that end together one is noticed first. What it has on its disk is not
// given up for the sake of the other, which comes back without its own.
func TestCore_deadTogetherAreNotEachOthersHeirs(t *testing.T) {
	t.Parallel()
	s := newStage(t, 4, onDisk, func(o *Options) { o.Cluster.Settings.Replicas = 1 })
	for i := 1; i <= 4; i++ {
		s.peer(i).store = ring.Store{byte(i)}
	}
	s.run(2 * time.Second)
	var both []ring.Slot
	for h := range ring.Slot(ring.Slots) {
		if st := &s.table.Slots[h]; st.InSyncHas(s.holder(2)) && st.InSyncHas(s.holder(3)) {
			both = append(both, h)
		}
	}
	if len(both) == 0 {
		t.Fatal("no slot is with members 2 and 3")
	}
	s.kill(2)
	s.kill(3)
	s.run(200 * time.Millisecond)
	s.step(Refused{s.holder(2)})
	s.gossip(2, member.Failed)
	s.until(time.Second, "down", s.down(2))
	old := s.holder(2)
	p := s.peer(3) // its run before this one refuses
	p.Boot[1]++
	p.table, p.renews, p.store = &ring.Table{}, true, ring.Store{}
	s.look()
	s.run(time.Second)
	for _, h := range both {
		if st := &s.table.Slots[h]; !st.InSyncHas(old) {
			t.Fatalf("slot %d gave up what is on a disk: %+v", h, st)
		}
	}
	s.restart(2, ring.Store{2})
	s.run(time.Second)
	for _, h := range both {
		if st := &s.table.Slots[h]; st.Owner != 2 || !st.InSyncHas(s.holder(2)) {
			t.Fatalf("slot %d is not with who has it on a disk: %+v", h, st)
		}
	}
}
