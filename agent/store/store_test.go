package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const slots = 8

// keeper holds a number for each key, and logs changes of them as a session
// engine does.
type keeper struct {
	mu     sync.Mutex
	store  *Store
	vals   [slots]map[uint32]uint32
	seq    uint64
	synced uint64
	syncs  []uint64 // as they were told
	id     ID
	doubt  bool
	ids    int
	dumps  int
}

func newKeeper() *keeper {
	k := &keeper{}
	for i := range k.vals {
		k.vals[i] = map[uint32]uint32{}
	}
	return k
}

func (k *keeper) Synced(upto uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.synced = max(k.synced, upto)
	k.syncs = append(k.syncs, upto)
}

func (k *keeper) SetStore(id ID, doubt bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.id, k.doubt = id, doubt
	k.ids++
}

func (k *keeper) BeginDump() {}

func (k *keeper) Dump(slot int) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dumps++
	for key, v := range k.vals[slot] {
		k.log(key, v)
	}
	return k.seq
}

// put changes a key and returns the number of the record.
func (k *keeper) put(key, v uint32) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.vals[key%slots][key] = v
	k.log(key, v)
	return k.seq
}

const padding = 100

func (k *keeper) log(key, v uint32) {
	k.seq++
	b := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, key), v)
	k.store.Append(k.seq, append(b, bytes.Repeat([]byte{byte(v)}, padding)...))
}

func (k *keeper) load(records []byte, elapsed time.Duration) error {
	if elapsed < 0 || elapsed > time.Hour {
		return fmt.Errorf("written %v ago", elapsed)
	}
	for ; len(records) > 0; records = records[8+padding:] {
		if len(records) < 8+padding {
			return errors.New("half a record")
		}
		key, v := binary.BigEndian.Uint32(records), binary.BigEndian.Uint32(records[4:])
		k.vals[key%slots][key] = v
	}
	return nil
}

func (k *keeper) safe() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.synced
}

func (k *keeper) whole() (ID, int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.id, k.ids
}

// run is one process's life with a store.
type run struct {
	*keeper
	t      *testing.T
	report Report
	stop   func()
}

func options(dir string) Options {
	return Options{Dir: dir, Member: "m1", Sync: Always, Slots: slots, Log: hclog.NewNullLogger(), Kernel: "k1", Retry: 20 * time.Millisecond}
}

func start(t *testing.T, o Options) *run {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{keeper: newKeeper(), t: t}
	r.store = s
	if r.report, err = s.Load(r.load); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, r.keeper) }()
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	t.Cleanup(r.stop)
	return r
}

func (r *run) until(what string, f func() bool) {
	r.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !f(); <-tick.C {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: it did not come to that; the store: %+v", what, r.store.State())
		}
	}
}

func (r *run) waitWhole() ID {
	r.t.Helper()
	r.until("whole", func() bool { return r.store.State().Whole })
	id, _ := r.whole()
	if id == (ID{}) {
		r.t.Fatal("a whole store without an id")
	}
	return id
}

func (r *run) write(key, v uint32) {
	r.t.Helper()
	n := r.put(key, v)
	r.until("synced", func() bool { return r.safe() >= n })
}

func (r *run) want(key, v uint32) {
	r.t.Helper()
	if got := r.vals[key%slots][key]; got != v {
		r.t.Errorf("key %d is %d, want %d", key, got, v)
	}
}

// copyOf is the directory as a process that was killed leaves it.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		to := filepath.Join(t.TempDir(), "copy")
		err := os.CopyFS(to, os.DirFS(dir))
		if err == nil {
			return to
		}
		// The store may remove a log meanwhile.
		if !errors.Is(err, os.ErrNotExist) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

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

// segments returns the log's files, in order.
func segments(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "log-*", "*.wal"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no segments: %v", err)
	}
	slices.Sort(list)
	return list
}

func TestStore_damageIsFoundAndTold(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir())
	r := start(t, o)
	id := r.waitWhole()
	for i := range uint32(40) {
		r.write(i, i+1)
	}
	killed := copyOf(t, o.Dir)
	r.stop()
	file := segments(t, killed)[0]
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// Where the entries are: each value is in its padding.
	at := bytes.Index(whole, bytes.Repeat([]byte{20}, padding))
	if at < 0 {
		t.Fatal("the value is not in the file")
	}
	end := len(bytes.TrimRight(whole, "\x00"))
	cases := map[string]func(b []byte) []byte{
		"a flipped bit in the middle": func(b []byte) []byte { b[at+padding/2] ^= 1; return b },
		"a flipped bit at the end":    func(b []byte) []byte { b[end-padding] ^= 1; return b },
		"cut in the middle":           func(b []byte) []byte { return b[:at] },
		"cut by one entry":            func(b []byte) []byte { clear(b[end-padding-20:]); return b },
		"zeros in the middle":         func(b []byte) []byte { clear(b[at : at+8]); return b },
		"the head gone":               func(b []byte) []byte { clear(b[:32]); return b },
		"nothing left":                func(b []byte) []byte { return nil },
	}
	for name, damage := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := o
			o.Dir = copyOf(t, killed)
			path := segments(t, o.Dir)[0]
			if err := os.WriteFile(path, damage(bytes.Clone(whole)), 0o600); err != nil {
				t.Fatal(err)
			}
			again := start(t, o)
			d := again.report.Damage
			if d == nil || again.report.ID != (ID{}) {
				t.Fatalf("damage was not found: %+v", again.report)
			}
			if filepath.Dir(d.File) != filepath.Dir(path) || d.Offset < 0 || d.Offset > int64(len(whole)) {
				t.Errorf("told of %s at %d, it was in %s", d.File, d.Offset, path)
			}
			for key := range uint32(40) {
				if got := again.vals[key%slots][key]; got != 0 && got != key+1 {
					t.Errorf("key %d is %d: never written", key, got)
				}
			}
			if next := again.waitWhole(); next == id {
				t.Error("the old id for what may be less")
			}
			if _, err := os.Stat(filepath.Join(o.Dir, damagedName)); err != nil {
				t.Errorf("the damaged log was not set aside: %v", err)
			}
			again.write(3, 99)
			again.stop()
			last := start(t, o)
			last.want(3, 99)
			if last.report.Damage != nil {
				t.Errorf("still damaged: %v", last.report.Damage)
			}
		})
	}
}

// TestStore_markOfTheEndIsLost: without it a log that was cut short looks whole.
func TestStore_markOfTheEndIsLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(path string) error{
		"removed": os.Remove,
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"damaged": func(path string) error { return os.WriteFile(path, make([]byte, 12), 0o600) },
	} {
		for _, entries := range []uint32{0, 10} {
			t.Run(fmt.Sprint(name, entries), func(t *testing.T) {
				t.Parallel()
				o := options(t.TempDir())
				r := start(t, o)
				id := r.waitWhole()
				for i := range entries {
					r.write(i, i+1)
				}
				r.stop()
				ends, err := filepath.Glob(filepath.Join(o.Dir, "log-*", endFile))
				if err != nil || len(ends) != 1 {
					t.Fatalf("the marks: %v, %v", ends, err)
				}
				if err := lose(ends[0]); err != nil {
					t.Fatal(err)
				}
				again := start(t, o)
				if d := again.report.Damage; d == nil || d.File != ends[0] || again.report.ID != (ID{}) {
					t.Errorf("the mark is lost, and the report is %+v", again.report)
				}
				for i := range entries {
					again.want(i, i+1) // proven by their checksums
				}
				if again.waitWhole() == id {
					t.Error("the old id for what may be less")
				}
				again.stop()
				if last := start(t, o); last.report.Damage != nil {
					t.Errorf("still damaged: %v", last.report.Damage)
				}
			})
		}
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
		k.mu.Lock()
		dumps := k.dumps
		k.mu.Unlock()
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

func TestStore_brokenLabels(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{labelFile: "{}", currentFile: "elsewhere"} {
		o := options(t.TempDir())
		r := start(t, o)
		id := r.waitWhole()
		r.write(1, 1)
		r.stop()
		if err := os.WriteFile(filepath.Join(o.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		again := start(t, o)
		if d := again.report.Damage; d == nil || filepath.Base(d.File) != name {
			t.Errorf("%s is broken, and the report is %+v", name, again.report)
		}
		if again.waitWhole() == id {
			t.Error("the old id")
		}
	}
}

func TestStore_logIsWrittenAnewWhenItIsMostlyPast(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir())
	o.CleanAt = 32 << 10
	r := start(t, o)
	id := r.waitWhole()
	for i := range uint32(20000) {
		r.put(i%64, i)
		if i%100 == 0 {
			n := r.seq
			r.until("synced", func() bool { return r.safe() >= n })
		}
	}
	r.write(63, 5)
	if r.dumps <= slots {
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

// tight is a disk without room while full is set.
type tight struct {
	types.VFS
	full atomic.Bool
}

func (v *tight) Create(dir, name string, size uint64) (types.WritableFile, error) {
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
	dead := options(copyOf(t, o.Dir))
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

func TestJournal_bigRecords(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir())
	open := func() *journal {
		j, err := openJournal(filepath.Join(o.Dir, "log-1"), o, o.Log)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	big := bytes.Repeat([]byte{1, 2, 3, 4, 5}, 2*maxEntry/5+1)
	j := open()
	if err := j.write([][]byte{{1}, big, {2, 3}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	j = open()
	var got [][]byte
	if err := j.load(func(b []byte, _ time.Time) error { got = append(got, bytes.Clone(b)); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || !bytes.Equal(got[0], []byte{1}) || !bytes.Equal(got[1], big) || !bytes.Equal(got[2], []byte{2, 3}) {
		t.Errorf("%d pieces", len(got))
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(uint64(3), encodeEntry(3, time.UnixMilli(1e12), false, []byte("records")).Data)
	f.Add(uint64(0), []byte{})
	f.Fuzz(func(t *testing.T, index uint64, b []byte) {
		l := encodeEntry(index, time.UnixMilli(12), index%2 == 0, b)
		at, more, records, err := decodeEntry(index, l)
		if err != nil || at.UnixMilli() != 12 || more != (index%2 == 0) || !bytes.Equal(records, b) {
			t.Fatalf("%v %q %v", at, records, err)
		}
		if _, _, _, err := decodeEntry(index+1, l); err == nil {
			t.Fatal("an entry in another's place")
		}
		l.Data = b
		if _, _, records, err := decodeEntry(index, l); err == nil && len(records) > len(b) {
			t.Fatal("more than there is")
		}
	})
}

func FuzzParseLabel(f *testing.F) {
	f.Add([]byte(`{"Store":"000102030405060708090a0b0c0d0e0f","Sync":"always","Kernel":"k","Clean":true}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, id, err := parseLabel(b); err != nil && (id != ID{} || !errors.Is(err, errLabel)) {
			t.Fatalf("%v %v", id, err)
		}
	})
}

func FuzzParseCurrent(f *testing.F) {
	f.Add([]byte("log-00000001\nm1\n"))
	f.Add([]byte("log-1"))
	f.Add([]byte("../log-1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		name, _, ok := parseCurrent(b)
		if ok != (name != "") || ok && (filepath.Base(name) != name || !strings.HasPrefix(name, logPrefix)) {
			t.Fatalf("%q, %v", name, ok)
		}
	})
}
