package store

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"
)

// hanging is a disk whose calls do not return while it hangs.
type hanging struct {
	types.VFS
	mu   sync.Mutex
	gate chan struct{} // closed: it answers
}

func newHanging() *hanging {
	v := &hanging{VFS: fs.New()}
	v.hang()
	v.release()
	return v
}

func (v *hanging) hang() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gate = make(chan struct{})
}

func (v *hanging) release() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.gate)
}

func (v *hanging) wait() {
	v.mu.Lock()
	gate := v.gate
	v.mu.Unlock()
	<-gate
}

func (v *hanging) Create(dir, name string, size uint64) (types.WritableFile, error) {
	v.wait()
	w, err := v.VFS.Create(dir, name, size)
	return &hangingFile{w, v}, err
}

type hangingFile struct {
	types.WritableFile
	v *hanging
}

func (f *hangingFile) Sync() error {
	f.v.wait()
	return f.WritableFile.Sync()
}

// stalled is a store in a bubble, so that waiting costs nothing and a busy
// machine is no slow disk.
type stalled struct {
	*keeper
	t    *testing.T
	o    Options
	disk *hanging
	end  func()
}

func inStore(t *testing.T, change func(*Options, *hanging), f func(s *stalled)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &stalled{keeper: newKeeper(), t: t, o: options(dir), disk: newHanging()}
		s.o.VFS = s.disk
		s.o.Retry = time.Second
		change(&s.o, s.disk)
		var err error
		if s.store, err = Open(s.o); err != nil {
			t.Fatal(err)
		}
		if _, err := s.store.Load(s.load); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.store.Run(ctx, s.keeper) }()
		s.end = func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		s.pass(time.Second)
		f(s)
		s.end()
	})
}

// pass lets time pass. Calls to the real disk take none of it.
func (s *stalled) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (s *stalled) want(id, doubt, whole bool, reason, when string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.store.State()
	if (s.id != ID{}) != id || s.doubt != doubt || st.Whole != whole || st.Reason != reason {
		s.t.Fatalf("%s: id %v, doubt %v, state %+v", when, s.id != ID{}, s.doubt, st)
	}
}

func (s *stalled) waits() int {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.store.pending
}

func TestStore_diskThatHangs(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]Policy{"write": Always, "sync": EverySec} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inStore(t, func(o *Options, _ *hanging) { o.Sync = policy }, func(s *stalled) {
				s.want(true, false, true, "", "at first")
				first := s.id
				s.put(1, 1)
				s.pass(2 * time.Second)
				s.disk.hang()
				before := s.safe()
				s.put(1, 2)
				s.pass(3 * time.Second)
				s.put(2, 2)
				s.want(true, false, true, "", "for a short while")
				s.pass(8 * time.Second)
				s.want(false, true, false, errHung.Error(), "while it hangs")
				ids := s.ids
				for i := range uint32(1000) {
					s.put(i, i+7)
				}
				s.pass(time.Hour)
				if n := s.waits(); n != 0 {
					t.Errorf("%d bytes are kept for a disk that hangs", n)
				}
				if s.ids != ids {
					t.Error("told again and again")
				}
				if policy == Always && s.safe() != before {
					t.Errorf("records up to %d are called synced, were %d", s.safe(), before)
				}
				// The call returns, with success, of which nothing follows.
				told, last := len(s.syncs), s.seq
				s.disk.release()
				s.pass(5 * time.Second)
				if late := s.syncs[told:]; len(late) == 0 || late[0] <= last {
					t.Errorf("late success is taken for success: %d, with %d changes before", late, last)
				}
				s.want(true, false, true, "", "with a new log")
				if s.id == first {
					t.Error("the old id for another log")
				}
				n := s.put(3000, 1)
				s.pass(time.Millisecond)
				if s.safe() < n {
					t.Error("the new log does not take changes")
				}
				k := s.reads(copyOf(t, s.o.Dir))
				if a, b := k.vals[999%slots][999], k.vals[3000%slots][3000]; a != 1006 || b != 1 {
					t.Errorf("found %d and %d", a, b)
				}
			})
		})
	}
}

// reads starts with the directory as a kill has left it, which is whole.
func (s *stalled) reads(dir string) *keeper {
	s.t.Helper()
	o := options(dir)
	next, err := Open(o)
	if err != nil {
		s.t.Fatal(err)
	}
	k := newKeeper()
	r, err := next.Load(k.load)
	if err != nil {
		s.t.Fatal(err)
	}
	if r.ID == (ID{}) {
		s.t.Errorf("found %+v", r)
	}
	if next.wal != nil {
		if err := next.wal.close(); err != nil {
			s.t.Error(err)
		}
	}
	return k
}

func TestStore_moreWaitsThanMay(t *testing.T) {
	t.Parallel()
	inStore(t, func(o *Options, _ *hanging) { o.MaxPending = 10 << 10 }, func(s *stalled) {
		s.disk.hang()
		s.put(1, 1)
		synctest.Wait()
		for i := range uint32(1000) {
			s.put(2, i)
			if n := s.waits(); n > 10<<10 {
				t.Fatalf("%d bytes wait", n)
			}
		}
		synctest.Wait()
		s.want(false, true, false, errSlow.Error(), "at once")
		s.disk.release()
		s.pass(5 * time.Second)
		s.want(true, false, true, "", "when it answers again")
	})
}

// TestStore_idThatDoesNotGo: the id's removal hangs too.
func TestStore_idThatDoesNotGo(t *testing.T) {
	t.Parallel()
	inStore(t, func(o *Options, disk *hanging) {
		o.Remove = func(path string) error {
			if filepath.Base(path) == labelFile {
				disk.wait()
			}
			return os.Remove(path)
		}
	}, func(s *stalled) {
		s.disk.hang()
		s.store.mu.Lock()
		s.store.giveUp(errSlow) // the log itself does not hang
		s.store.mu.Unlock()
		s.pass(time.Minute)
		s.want(false, true, false, errSlow.Error(), "while the id is there")
		s.put(1, 1)
		if n := s.waits(); n != 0 {
			t.Errorf("%d bytes are kept", n)
		}
		s.reads(copyOf(t, s.o.Dir)) // hence the doubt
		s.disk.release()
		s.pass(5 * time.Second)
		s.want(true, false, true, "", "when it answers again")
	})
}

// TestStore_newLogHangs: nothing of a log that does not count yet is called safe.
func TestStore_newLogHangs(t *testing.T) {
	t.Parallel()
	inStore(t, func(_ *Options, disk *hanging) { disk.hang() }, func(s *stalled) {
		s.want(false, false, false, "starting", "at first")
		for i := range uint32(100) {
			s.put(i, i)
		}
		s.pass(time.Minute)
		if n := s.waits() + int(s.safe()); n != 0 {
			t.Errorf("%d bytes wait or are called safe", n)
		}
		s.disk.release()
		s.pass(10 * time.Second)
		s.want(true, false, true, "", "when it answers")
		if s.safe() != s.seq {
			t.Errorf("%d of %d records are safe", s.safe(), s.seq)
		}
	})
}

func TestStore_lessWaitsThanMay(t *testing.T) {
	t.Parallel()
	inStore(t, func(o *Options, _ *hanging) { o.MaxPending = 40 << 20 }, func(s *stalled) {
		s.mu.Lock()
		for i := range uint64(35) {
			s.store.Append(s.seq+i, bytes.Repeat([]byte{1}, 1<<20))
		}
		s.mu.Unlock()
		s.pass(time.Second)
		s.want(true, false, true, "", "with less than may wait")
	})
}
