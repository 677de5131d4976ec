package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft-wal/types"
)

// Policy says when what was written reaches the disk itself. Whatever it is,
// nothing is lost when a process dies.
type Policy string

// The policies, by the names that Redis gives them.
const (
	Always   Policy = "always"   // before anything is promised
	EverySec Policy = "everysec" // once a second: a power loss costs that much
	No       Policy = "no"       // when the operating system likes
)

// ID names what a store holds; zero means that it may be less than was promised.
type ID = [16]byte

// Keeper is whose records a store keeps.
type Keeper interface {
	// Synced says that the records up to upto are as safe as the policy promises.
	Synced(upto uint64)
	// SetStore says under which id everything is kept; zero: nothing is, so that
	// there is nothing to wait for. With doubt an earlier id may still be found
	// after a restart.
	SetStore(id ID, doubt bool)
	// BeginDump and Dump make the keeper log everything anew, slot by slot. Dump
	// returns the number of the last record logged.
	BeginDump()
	Dump(slot int) (upto uint64)
}

// Options make a Store.
type Options struct {
	Dir    string // its own; made where it is missing
	Member string // whose records it keeps: another's are refused
	Sync   Policy
	Slots  int // how many the keeper has
	Log    hclog.Logger

	// Kernel names the run of the machine, so that a loss of power is noticed.
	Kernel string
	// CleanAt is the size in bytes above which the log is written anew when it
	// is more than twice what it holds. Retry is how long after a fault a new
	// log is tried.
	CleanAt int64
	Retry   time.Duration
	// VFS and Remove, if set, replace the file system in tests.
	VFS    types.VFS
	Remove func(path string) error
}

// The sizes and times that Open takes where Options says nothing.
const (
	cleanAt = 64 << 20
	retry   = 5 * time.Second
	// chunkBytes is how much one log entry holds, about; maxPending how much may
	// wait for a disk that is too slow.
	chunkBytes = 1 << 20
	maxPending = 256 << 20
)

var errSlow = errors.New("the disk does not keep up with the changes")

// State is what a store can say of itself.
type State struct {
	Whole  bool   // all that the member holds is kept
	Reason string // why not
	Bytes  int64  // of the log
	Since  time.Time
}

// Store is a log on disk. Open makes it, Load reads it, Run writes it.
type Store struct {
	o   Options
	log hclog.Logger

	mu      sync.Mutex // guards the following
	open    bool       // records are taken
	chunks  [][]byte
	pending int
	upto    uint64
	state   State
	wake    chan struct{}

	// The rest is Run's, and Open's and Load's before it.
	wal    *journal
	id     ID
	loaded bool
	told   bool // that the disk fails
	dump   dump
}

// dump is everything being logged anew.
type dump struct {
	on      bool
	rebuild bool   // into a log of its own
	next    int    // the slot
	from    uint64 // its first entry
	upto    uint64
}

// Open opens the store in o.Dir, which must be locked against others. It returns
// ErrOther where that holds another member's records.
func Open(o Options) (*Store, error) {
	if o.CleanAt == 0 {
		o.CleanAt = cleanAt
	}
	if o.Retry == 0 {
		o.Retry = retry
	}
	if o.Remove == nil {
		o.Remove = os.Remove
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of sessions: %w", err)
	}
	s := &Store{
		o: o, log: o.Log.Named("store"), wake: make(chan struct{}, 1),
		state: State{Reason: "starting", Since: time.Now()},
	}
	if err := s.checkOwner(); err != nil {
		return nil, err
	}
	return s, nil
}

// State returns how the store fares.
func (s *Store) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *Store) set(f func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.state.Whole
	if f(&s.state); s.state.Whole != was {
		s.state.Since = time.Now()
	}
}

// Append takes records, of which upto is the number of the last, to be written
// with others. It does not block, and copies them.
func (s *Store) Append(upto uint64, records []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upto = upto
	if !s.open {
		return
	}
	if k := len(s.chunks); k > 0 && len(s.chunks[k-1])+len(records) <= chunkBytes {
		s.chunks[k-1] = append(s.chunks[k-1], records...)
	} else {
		s.chunks = append(s.chunks, append(make([]byte, 0, max(len(records), 4<<10)), records...))
	}
	s.pending += len(records)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Store) take() (chunks [][]byte, upto uint64, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	chunks, upto, full = s.chunks, s.upto, s.pending > maxPending
	s.chunks, s.pending = nil, 0
	return chunks, upto, full
}

func (s *Store) accept(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open, s.chunks, s.pending = yes, nil, 0
}

func newID() (id ID) {
	rand.Read(id[:])
	return id
}

func (s *Store) path(name string) string { return filepath.Join(s.o.Dir, name) }
