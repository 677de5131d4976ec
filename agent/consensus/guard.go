package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	keyMark    = []byte("rondel-log-end")
	keyTerm    = []byte("CurrentTerm") // Raft's own
)

// guard stands between Raft and its stores. It gives every entry a checksum, so
// that a flipped bit is found instead of applied; it remembers how far the log
// reached, so that one that was cut short is found instead of voted with; and
// it tells of the first error of the disk, since Raft itself carries on after
// most of them and panics at the others.
type guard struct {
	log    raft.LogStore
	stable raft.StableStore
	fault  func(error)
	serves atomic.Bool // Raft's goroutines call: end them instead of letting them panic

	mu     sync.Mutex // guards the following
	end    uint64     // the last entry stored
	marked uint64     // what of it the stable store remembers, never more than is there
}

func newGuard(log raft.LogStore, stable raft.StableStore, fault func(error)) *guard {
	return &guard{log: log, stable: stable, fault: fault}
}

// check reads the whole log and returns ErrDamaged where it is not what was
// written.
func (g *guard) check(snapshots bool) error {
	first, err := g.log.FirstIndex()
	if err != nil {
		return fmt.Errorf("first entry: %w", err)
	}
	last, err := g.log.LastIndex()
	if err != nil {
		return fmt.Errorf("last entry: %w", err)
	}
	b, err := g.stable.Get(keyMark)
	if err != nil && err.Error() != "not found" {
		return fmt.Errorf("end of the log: %w", err)
	}
	var mark uint64
	if len(b) == 8 {
		mark = binary.BigEndian.Uint64(b)
	}
	if last < mark {
		return fmt.Errorf("it ends with entry %d and had %d: %w", last, mark, ErrDamaged)
	}
	term, err := g.GetUint64(keyTerm)
	if err != nil {
		return fmt.Errorf("term: %w", err)
	}
	if term == 0 && (last > 0 || snapshots) {
		return fmt.Errorf("the term is missing: %w", ErrDamaged)
	}
	for i := max(first, 1); i <= last; i++ {
		var l raft.Log
		if err := g.read(i, &l); err != nil {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end, g.marked = last, mark
	return nil
}

// mark remembers how far the log reaches. It may lag, so that not every entry
// costs a second write.
func (g *guard) mark() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.marked >= g.end {
		return nil
	}
	return g.markLocked(g.end)
}

func (g *guard) markLocked(at uint64) error {
	if err := g.stable.Set(keyMark, binary.BigEndian.AppendUint64(nil, at)); err != nil {
		return fmt.Errorf("mark the end of the raft log: %w", err)
	}
	g.marked = at
	return nil
}

// Close remembers the end of the log; the stores are closed by their owner.
func (g *guard) Close() error { return g.mark() }

func sum(l *raft.Log, data []byte) uint32 {
	var head [17]byte
	binary.BigEndian.PutUint64(head[:], l.Index)
	binary.BigEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	c := crc32.Update(0, castagnoli, head[:])
	c = crc32.Update(c, castagnoli, data)
	return crc32.Update(c, castagnoli, l.Extensions)
}

func (g *guard) read(index uint64, l *raft.Log) error {
	if err := g.log.GetLog(index, l); err != nil {
		return err
	}
	n := len(l.Data) - 4
	if n < 0 || l.Index != index || sum(l, l.Data[:n]) != binary.BigEndian.Uint32(l.Data[n:]) {
		return fmt.Errorf("entry %d: wrong checksum: %w", index, ErrDamaged)
	}
	if l.Data = l.Data[:n:n]; n == 0 {
		l.Data = nil
	}
	return nil
}

// failed tells of a store's error and passes it on. Where Raft would answer it
// with a panic, the goroutine ends instead: Run returns the error, and takes
// Raft down with it.
func (g *guard) failed(err error, fatal bool) error {
	if err == nil {
		return nil
	}
	g.fault(err)
	if fatal && g.serves.Load() {
		runtime.Goexit()
	}
	return err
}

// FirstIndex implements raft.LogStore.
func (g *guard) FirstIndex() (uint64, error) { return g.log.FirstIndex() }

// LastIndex implements raft.LogStore.
func (g *guard) LastIndex() (uint64, error) { return g.log.LastIndex() }

// IsMonotonic implements raft.MonotonicLogStore.
func (g *guard) IsMonotonic() bool {
	m, ok := g.log.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// GetLog implements raft.LogStore.
func (g *guard) GetLog(index uint64, l *raft.Log) error {
	err := g.read(index, l)
	if errors.Is(err, raft.ErrLogNotFound) {
		return raft.ErrLogNotFound // asked for in the ordinary course, and compared with ==
	}
	return g.failed(err, true)
}

// StoreLog implements raft.LogStore.
func (g *guard) StoreLog(l *raft.Log) error { return g.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (g *guard) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	out := make([]*raft.Log, len(logs))
	for i, l := range logs {
		c := *l
		c.Data = binary.BigEndian.AppendUint32(append(make([]byte, 0, len(l.Data)+4), l.Data...), sum(l, l.Data))
		out[i] = &c
	}
	if err := g.log.StoreLogs(out); err != nil {
		return g.failed(fmt.Errorf("write the raft log: %w", err), false)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end = logs[len(logs)-1].Index
	return nil
}

// DeleteRange implements raft.LogStore. What the mark says is lowered first, so
// that it never claims more than is there.
func (g *guard) DeleteRange(lo, hi uint64) error {
	first, err := g.log.FirstIndex()
	if err != nil {
		return g.failed(err, false)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if hi >= g.end {
		left := lo - 1
		if lo <= first {
			left = 0
		}
		if g.marked > left {
			if err := g.markLocked(left); err != nil {
				return g.failed(err, false)
			}
		}
		g.end = left
	}
	if err := g.log.DeleteRange(lo, hi); err != nil {
		return g.failed(fmt.Errorf("shorten the raft log: %w", err), false)
	}
	return nil
}

// Set implements raft.StableStore.
func (g *guard) Set(key, val []byte) error { return g.failed(g.stable.Set(key, val), true) }

// Get implements raft.StableStore.
func (g *guard) Get(key []byte) ([]byte, error) { return g.stable.Get(key) }

// SetUint64 implements raft.StableStore.
func (g *guard) SetUint64(key []byte, val uint64) error {
	return g.failed(g.stable.SetUint64(key, val), true)
}

// GetUint64 implements raft.StableStore. A key never set is 0.
func (g *guard) GetUint64(key []byte) (uint64, error) {
	v, err := g.stable.GetUint64(key)
	if err != nil && err.Error() == "not found" {
		return 0, nil
	}
	return v, err
}
