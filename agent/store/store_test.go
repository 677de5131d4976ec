package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"
)

func TestStore_everythingSyncedIsThereAfterAKill(t *testing.T) {
	t.Parallel()
	for _, p := range []Policy{Always, EverySec, No} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			o := options(t.TempDir())
			o.Sync = p
			r := start(t, o)
			if r.report.ID != (ID{}) || r.report.Damage != nil || r.report.Why != "" {
				t.Fatalf("a new store reports %+v", r.report)
			}
			id := r.waitWhole()
			for i := range uint32(500) {
				r.put(i%50, i)
			}
			r.write(7, 1000)
			killed := copyOf(t, o.Dir)
			r.stop()

			o.Dir = killed
			again := start(t, o)
			if again.report.ID != id {
				t.Errorf("after a kill the store is %v, was %v: %+v", again.report.ID, id, again.report)
			}
			again.want(7, 1000)
			again.want(49, 499)
			again.waitWhole()
			if size := again.store.State().Bytes; size < 500*padding {
				t.Errorf("the log that was loaded is said to have %d bytes", size)
			}
			again.write(8, 1)
			again.stop()
			last := start(t, o)
			last.want(7, 1000)
			last.want(8, 1)
			if last.report.ID != id {
				t.Error("a stop in order changes the id")
			}
		})
	}
}

func TestStore_losesPower(t *testing.T) {
	t.Parallel()
	for p, whole := range map[Policy]bool{Always: true, EverySec: false, No: false} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			o := options(t.TempDir())
			o.Sync = p
			r := start(t, o)
			id := r.waitWhole()
			r.write(1, 1)
			killed := copyOf(t, o.Dir)
			r.stop()

			inOrder := o
			inOrder.Kernel = "k2"
			if s := start(t, inOrder); s.report.ID != id {
				t.Errorf("a machine that was restarted in order: %+v", s.report)
			}
			o.Dir, o.Kernel = killed, "k2"
			again := start(t, o)
			if got := again.report.ID == id; got != whole {
				t.Errorf("whole after a loss of power: %v, want %v: %+v", got, whole, again.report)
			}
			if !whole && again.report.Why == "" {
				t.Error("it does not say why")
			}
			again.want(1, 1) // it was in the file all the same
			if next := again.waitWhole(); !whole && next == id {
				t.Error("the old id for what may be less")
			}
		})
	}
}

func TestOpen_anotherMembersSessions(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir())
	r := start(t, o)
	r.waitWhole()
	r.stop()
	before := segments(t, o.Dir)
	o.Member = "m2"
	_, err := Open(o)
	if !errors.Is(err, ErrOther) {
		t.Fatalf("opened with %v", err)
	}
	for _, part := range []string{"m1", "m2", o.Dir, "move"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in: %v", part, err)
		}
	}
	if !slices.Equal(segments(t, o.Dir), before) {
		t.Error("it was changed")
	}
	o.Member = "m1"
	if again := start(t, o); again.report.ID == (ID{}) {
		t.Errorf("its own: %+v", again.report)
	}
}

// countSyncs is a disk that counts what reaches it.
type countSyncs struct {
	types.VFS
	n atomic.Int32
}

func (v *countSyncs) Create(dir, name string, size uint64) (types.WritableFile, error) {
	w, err := v.VFS.Create(dir, name, size)
	return &countedFile{w, v}, err
}

type countedFile struct {
	types.WritableFile
	v *countSyncs
}

func (f *countedFile) Sync() error {
	f.v.n.Add(1)
	return f.WritableFile.Sync()
}

// slowKeeper takes its time to log what it holds.
type slowKeeper struct{ *keeper }

func (k slowKeeper) Dump(slot int) uint64 {
	n := k.keeper.Dump(slot)
	time.Sleep(time.Second)
	return n
}

func TestStore_everySecondDuringALongDump(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		o := options(dir)
		disk := &countSyncs{VFS: fs.New()}
		o.Sync, o.VFS, o.CleanAt = EverySec, disk, 1<<10
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		k := newKeeper()
		k.store = s
		if _, err := s.Load(k.load); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, slowKeeper{k}) }()
		time.Sleep((2*slots + 1) * time.Second)
		if !s.State().Whole {
			t.Fatalf("not whole: %+v", s.State())
		}
		for i := range uint32(100) {
			k.put(i, i) // enough to have the log written anew
		}
		time.Sleep(time.Second)
		before := disk.n.Load()
		for i := range uint32(slots / 2) {
			k.put(i, i+1) // something to sync, whatever the dump does
			time.Sleep(time.Second)
		}
		dumps := k.dumped()
		if dumps <= slots || dumps >= 2*slots {
			t.Fatalf("%d slots were dumped: not in the middle of it", dumps)
		}
		if n := disk.n.Load() - before; n < slots/2-1 {
			t.Errorf("%d syncs in %d seconds of a dump", n, slots/2)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestStore_logIsWrittenAnewWhenItIsMostlyPast(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir())
	o.CleanAt = 32 << 10
	r := start(t, o)
	id := r.waitWhole()
	for i := range uint32(20000) {
		n := r.put(i%64, i)
		if i%100 == 0 {
			r.until("synced", func() bool { return r.safe() >= n })
		}
	}
	r.write(63, 5)
	if r.dumped() <= slots {
		t.Fatal("nothing was cleaned")
	}
	if size := r.store.State().Bytes; size > 20000*padding/4 {
		t.Errorf("the log has %d bytes for %d", size, 64*(8+padding))
	}
	if now, _ := r.whole(); now != id {
		t.Error("cleaning changes the id")
	}
	killed := copyOf(t, o.Dir)
	r.stop()
	o.Dir = killed
	again := start(t, o)
	if again.report.ID != id {
		t.Fatalf("%+v", again.report)
	}
	for key := range uint32(64) {
		again.want(key, r.vals[key%slots][key])
	}
}
