package store

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rondel-project/rondel/agent/internal/wholefile"
)

const (
	labelFile   = "store"   // under which id everything is kept
	currentFile = "current" // which log it is in, and whose it is
	logPrefix   = "log-"
	damagedName = "damaged"
)

// label is the store's id on disk, and what has to be so for it to hold.
type label struct {
	Store  string // hex
	Sync   Policy
	Kernel string // run of the machine
	Clean  bool   // closed in order: all is on the disk itself
}

// ErrOther means that a directory holds another member's sessions.
var ErrOther = errors.New("these are the sessions of another member")

var errLabel = errors.New("not a store's label")

func parseLabel(b []byte) (l label, id ID, err error) {
	if err := json.Unmarshal(b, &l); err != nil {
		return label{}, ID{}, fmt.Errorf("%w: %w", errLabel, err)
	}
	raw, err := hex.DecodeString(l.Store)
	if err != nil || len(raw) != len(id) {
		return label{}, ID{}, fmt.Errorf("%w: id %q", errLabel, l.Store)
	}
	copy(id[:], raw)
	return l, id, nil
}

// holds reports whether the log under the label still is what it was: a loss of
// power takes what was not on the disk itself.
func (l label) holds(kernel string) bool {
	return l.Sync == Always || l.Clean || l.Kernel != "" && l.Kernel == kernel
}

func (s *Store) readLabel() (label, ID, error) {
	b, err := os.ReadFile(s.path(labelFile))
	if err != nil {
		return label{}, ID{}, err
	}
	return parseLabel(b)
}

func (s *Store) writeLabel(id ID, clean bool) error {
	b, err := json.Marshal(label{hex.EncodeToString(id[:]), s.o.Sync, s.o.Kernel, clean})
	if err != nil {
		return err
	}
	return wholefile.Write(s.path(labelFile), append(b, '\n'))
}

// dropLabel makes sure that a restart does not take what is there for whole.
func (s *Store) dropLabel() error {
	if err := s.o.Remove(s.path(labelFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop the store's id: %w", err)
	}
	return wholefile.SyncDir(s.o.Dir)
}

// current returns the directory of the log, "" where there is none yet, and the
// member whose it is.
func (s *Store) current() (name, owner string, err error) {
	b, err := os.ReadFile(s.path(currentFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	name, owner, ok := parseCurrent(b)
	if !ok {
		return "", "", fmt.Errorf("%s names no log", s.path(currentFile))
	}
	return name, owner, nil
}

func parseCurrent(b []byte) (name, owner string, ok bool) {
	name, owner, _ = strings.Cut(strings.TrimSpace(string(b)), "\n")
	number, ok := strings.CutPrefix(name, logPrefix)
	if _, err := strconv.ParseUint(number, 10, 64); err != nil || !ok {
		return "", "", false
	}
	return name, owner, true
}

// checkOwner refuses what another member has kept: copied to this machine, it
// would bring back what was deleted since.
func (s *Store) checkOwner() error {
	_, owner, err := s.current()
	if err != nil || owner == "" || owner == s.o.Member {
		return nil // Load tells of what cannot be read
	}
	return fmt.Errorf("%s: %w, %s; this one is %s. Give the agent the data directory that belongs to them, node-id and all, or move %s away to start without them",
		s.o.Dir, ErrOther, owner, s.o.Member, s.o.Dir)
}

// following returns the name of the next log.
func (s *Store) following() string {
	last := uint64(0)
	list, _ := filepath.Glob(s.path(logPrefix + "*"))
	for _, p := range list {
		if n, err := strconv.ParseUint(strings.TrimPrefix(filepath.Base(p), logPrefix), 10, 64); err == nil {
			last = max(last, n)
		}
	}
	return fmt.Sprintf("%s%08d", logPrefix, last+1)
}

// tidy removes all logs but the one named.
func (s *Store) tidy(keep string) error {
	list, err := filepath.Glob(s.path(logPrefix + "*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range list {
		if filepath.Base(p) != keep {
			errs = append(errs, os.RemoveAll(p))
		}
	}
	return errors.Join(errs...)
}
