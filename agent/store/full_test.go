package store

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"
)

// tight is a disk without room while full is set.
type tight struct {
	types.VFS
	full atomic.Bool
	hold sync.Mutex // held: no file is made
}

func (v *tight) Create(dir, name string, size uint64) (types.WritableFile, error) {
	v.hold.Lock()
	defer v.hold.Unlock()
	if v.full.Load() {
		return nil, syscall.ENOSPC
	}
	w, err := v.VFS.Create(dir, name, size)
	return &tightFile{w, v}, err
}

type tightFile struct {
	types.WritableFile
	v *tight
}

func (f *tightFile) WriteAt(b []byte, off int64) (int, error) {
	if f.v.full.Load() {
		n, _ := f.WritableFile.WriteAt(b[:len(b)/2], off)
		return n, syscall.ENOSPC
	}
	return f.WritableFile.WriteAt(b, off)
}

func TestStore_fullDisk(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir())
	disk := &tight{VFS: fs.New()}
	o.VFS = disk
	r := start(t, o)
	id := r.waitWhole()
	r.write(1, 1)
	disk.full.Store(true)
	r.put(1, 2)
	r.until("aside", func() bool { return !r.store.State().Whole })
	r.until("no doubt", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.id == (ID{}) && !r.doubt })
	if r.store.State().Reason == "" {
		t.Error("no reason")
	}
	for i := range uint32(1000) {
		r.put(i, i+7)
	}
	// A process that dies now finds less than was promised, and knows it.
	disk.hold.Lock() // or each try to begin anew changes something
	dead := options(copyOf(t, o.Dir))
	disk.hold.Unlock()
	if s := start(t, dead); s.report.ID != (ID{}) || s.report.Why == "" && s.report.Damage == nil {
		t.Errorf("killed with a full disk: %+v", s.report)
	}
	disk.full.Store(false)
	if next := r.waitWhole(); next == id {
		t.Error("the old id for another log")
	}
	r.write(2000, 1)
	killed := copyOf(t, o.Dir)
	r.stop()
	o.Dir, o.VFS = killed, nil
	again := start(t, o)
	if again.report.ID == (ID{}) {
		t.Fatalf("%+v", again.report)
	}
	again.want(999, 1006)
	again.want(2000, 1)
}

// TestStore_noRoomForTheNextFile: a file of the log is made when the one before
// is full, in the library's background.
func TestStore_noRoomForTheNextFile(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir())
	disk := &fewFiles{VFS: fs.New()}
	disk.room.Store(1)
	o.VFS, o.Retry = disk, time.Hour
	var told bytes.Buffer
	o.Log = hclog.New(&hclog.LoggerOptions{Output: &told, Level: hclog.Info, Mutex: &sync.Mutex{}})
	r := start(t, o)
	r.waitWhole()
	big := make([]byte, 1<<20)
	for i := range uint64(2 * segmentSize / len(big)) {
		r.store.Append(1<<20+i, big)
		r.until("written, or aside", func() bool { return r.safe() >= 1<<20+i || !r.store.State().Whole })
	}
	r.until("aside", func() bool { return !r.store.State().Whole })
	r.stop()
	if reason := r.store.State().Reason; !strings.Contains(reason, syscall.ENOSPC.Error()) {
		t.Errorf("the reason is %q", reason)
	}
	if n := strings.Count(told.String(), "[ERROR]"); n != 1 {
		t.Errorf("told %d times:\n%s", n, told.String())
	}
}

// fewFiles is a disk with room for so many more files.
type fewFiles struct {
	types.VFS
	room atomic.Int32
}

func (v *fewFiles) Create(dir, name string, size uint64) (types.WritableFile, error) {
	if v.room.Add(-1) < 0 {
		return nil, syscall.ENOSPC
	}
	return v.VFS.Create(dir, name, size)
}

func TestStore_idThatCannotBeDropped(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir())
	disk := &tight{VFS: fs.New()}
	o.VFS = disk
	var stuck atomic.Bool
	var tries atomic.Int32
	o.Remove = func(path string) error {
		if stuck.Load() && filepath.Base(path) == labelFile {
			tries.Add(1)
			return syscall.EROFS
		}
		return os.Remove(path)
	}
	r := start(t, o)
	r.waitWhole()
	stuck.Store(true)
	disk.full.Store(true)
	r.put(1, 2)
	r.until("tried again", func() bool { return tries.Load() > 1 })
	r.until("doubt", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.id == (ID{}) && r.doubt })
	disk.full.Store(false)
	stuck.Store(false)
	r.waitWhole()
}
