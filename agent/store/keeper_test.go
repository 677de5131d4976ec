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
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

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

func (k *keeper) dumped() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dumps
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

// patience is how long tests in real time wait for what must come, and less than
// what they take for a disk that hangs: a busy machine's is only slow.
const patience = time.Minute

func start(t *testing.T, o Options) *run {
	t.Helper()
	o.Stall = 10 * patience
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
	for deadline := time.Now().Add(patience); !f(); <-tick.C {
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

// copyOf is the directory as a process that is killed leaves it: all of its files
// as they were at one moment. That is so where none has changed between its copy
// and a look at it when all had been copied.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		to := filepath.Join(t.TempDir(), "copy")
		err := os.CopyFS(to, os.DirFS(dir))
		if err == nil {
			err = sameFiles(to, dir)
		}
		if err == nil {
			return to
		}
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errDiffer) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
	}
}

var errDiffer = errors.New("changed since")

// sameFiles compares two directories, and returns errDiffer or that a file is
// missing where they are not the same.
func sameFiles(a, b string) error {
	var names [2][]string
	for i, dir := range []string{a, b} {
		err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				names[i] = append(names[i], strings.TrimPrefix(path, dir))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if !slices.Equal(names[0], names[1]) {
		return errDiffer
	}
	for _, name := range names[0] {
		x, err := os.ReadFile(a + name)
		if err != nil {
			return err
		}
		y, err := os.ReadFile(b + name)
		if err != nil {
			return err
		}
		if !bytes.Equal(x, y) {
			return fmt.Errorf("%s: %w", name, errDiffer)
		}
	}
	return nil
}
