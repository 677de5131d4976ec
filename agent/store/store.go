package store

import (
	"crypto/rand"
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
	// Stall is how long changes wait for a disk that does not answer, and
	// MaxPending how many bytes of them, before they are given up.
	Stall      time.Duration
	MaxPending int
	// VFS and Remove, if set, replace the file system in tests.
	VFS    types.VFS
	Remove func(path string) error
}

// The sizes and times that Open takes where Options says nothing.
const (
	cleanAt = 64 << 20
	retry   = 5 * time.Second
	stall   = 5 * time.Second
	// maxPending is more than chunkBytes, how much one log entry holds, about.
	maxPending = 256 << 20
	chunkBytes = 1 << 20
)

// State is what a store can say of itself.
type State struct {
	Whole  bool   // all that the member holds is kept
	ID     ID     // and under what id; zero where not
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
	failed  error  // why what is being written does not count; nil again with a new log
	busy    bool   // a call to the disk is under way that changes wait for,
	turns   uint64 // and how many have returned

	wake   chan struct{} // there is something to write, or the log was given up
	gaveUp chan struct{}

	telling sync.Mutex // held while the keeper is told of a store; taken before mu. It guards:
	doubted bool       // the keeper knows that the log was given up
	told    bool       // so does whoever reads the agent's log

	// The rest is the writer's, and Open's and Load's before it.
	wal    *journal
	id     ID
	loaded bool
	dump   dump
}

// dump is everything being logged anew.
type dump struct {
	on      bool
	rebuild bool   // into a log of its own
	next    int    // the slot
	from    uint64 // its first entry
	upto    uint64 // the last record that was written
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
	if o.Stall == 0 {
		o.Stall = stall
	}
	if o.MaxPending == 0 {
		o.MaxPending = maxPending
	}
	if o.Remove == nil {
		o.Remove = os.Remove
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of sessions: %w", err)
	}
	s := &Store{
		o: o, log: o.Log.Named("store"), wake: make(chan struct{}, 1), gaveUp: make(chan struct{}, 1),
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

// set changes the state of a log that was not given up.
func (s *Store) set(f func(*State)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return s.failed
	}
	was := s.state.Whole
	if f(&s.state); s.state.Whole != was {
		s.state.Since = time.Now()
	}
	return nil
}

// Append takes records, of which upto is the number of the last, to be written
// with others. It does not block, and copies them. What would be more than may
// wait gives up the log.
func (s *Store) Append(upto uint64, records []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upto = upto
	if !s.open {
		return
	}
	if s.pending+len(records) > s.o.MaxPending {
		s.giveUp(errSlow)
		return
	}
	if k := len(s.chunks); k > 0 && len(s.chunks[k-1])+len(records) <= chunkBytes {
		s.chunks[k-1] = append(s.chunks[k-1], records...)
	} else {
		s.chunks = append(s.chunks, append(make([]byte, 0, max(len(records), 4<<10)), records...))
	}
	s.pending += len(records)
	poke(s.wake)
}

func (s *Store) take() (chunks [][]byte, upto uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	chunks, upto = s.chunks, s.upto
	s.chunks, s.pending = nil, 0
	return chunks, upto, s.failed
}

func (s *Store) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending
}

// accept begins to take records for a log, or ends it.
func (s *Store) accept(yes bool) {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open, s.chunks, s.pending = yes, nil, 0
	if yes {
		s.failed, s.doubted = nil, false
	}
}

func newID() (id ID) {
	rand.Read(id[:])
	return id
}

func (s *Store) path(name string) string { return filepath.Join(s.o.Dir, name) }
