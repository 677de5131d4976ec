package consensus

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/rondel-project/rondel/agent/internal/entrylog"
)

const (
	// segmentSize keeps the log in small files: each is made in full when it is
	// begun, so that a disk without room is met early.
	segmentSize = 4 << 20
	// keptSnapshots is how many snapshots stay on disk.
	keptSnapshots = 2
)

// stores are where Raft keeps its log, its votes and its snapshots.
type stores struct {
	guard     *guard
	snapshots raft.SnapshotStore
	closers   []io.Closer
}

func (s *stores) close() error {
	var errs []error
	for _, c := range slices.Backward(s.closers) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func openStores(dir string, log hclog.Logger, fault func(error)) (_ *stores, err error) {
	if dir == "" {
		mem := raft.NewInmemStore()
		return &stores{guard: newGuard(mem, mem, fault), snapshots: raft.NewInmemSnapshotStore()}, nil
	}
	s := &stores{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	logDir := filepath.Join(dir, "log")
	if err := os.MkdirAll(logDir, 0o700); err != nil {
		return nil, fmt.Errorf("raft directory: %w", err)
	}
	w, err := entrylog.Open(entrylog.Options{Dir: logDir, SegmentSize: segmentSize, Log: log})
	if errors.Is(err, entrylog.ErrDamaged) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open raft log in %s: %w", logDir, err)
	}
	s.closers = append(s.closers, w)
	s.guard = newGuard(w, w, fault)
	s.closers = append(s.closers, s.guard)
	snaps, err := raft.NewFileSnapshotStoreWithLogger(dir, keptSnapshots, log)
	if err != nil {
		return nil, fmt.Errorf("open raft snapshots in %s: %w", dir, err)
	}
	s.snapshots = snaps
	list, err := snaps.List()
	if err != nil {
		return nil, fmt.Errorf("list raft snapshots in %s: %w", dir, err)
	}
	if err := s.guard.check(len(list) > 0); err != nil {
		return nil, fmt.Errorf("raft log in %s: %w; to start anew with a new node id, move the data directory away", logDir, err)
	}
	return s, nil
}
