package consensus

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/rondel-project/rondel/agent/ring"
)

// The commands in the log. Numbers are never used again. A server that meets
// one it does not know stops: to skip it would be to have another table than
// the others.
const cmdChange = 1

// snapshotVersion starts every snapshot.
const snapshotVersion = 1

// maxSnapshot bounds what a restore reads: far above any table.
const maxSnapshot = 64 << 20

// machine is the state machine: one table, replaced whole.
type machine struct {
	mu      sync.Mutex // guards table, changed and broken
	table   *ring.Table
	changed chan struct{} // closed when table is replaced
	broken  error         // a command could not be understood; nothing is applied after it

	fault func(error) // tells of broken
}

type applied struct {
	table *ring.Table
	err   error
}

func newMachine(fault func(error)) *machine {
	return &machine{table: &ring.Table{}, changed: make(chan struct{}), fault: fault}
}

func (m *machine) current() *ring.Table {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table
}

func (m *machine) watch() (*ring.Table, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table, m.changed
}

func (m *machine) replace(t *ring.Table) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.table = t
	close(m.changed)
	m.changed = make(chan struct{})
}

// Apply implements raft.FSM.
func (m *machine) Apply(l *raft.Log) any {
	m.mu.Lock()
	table, broken := m.table, m.broken
	m.mu.Unlock()
	if broken != nil {
		return applied{table, broken}
	}
	next, err := step(table, l)
	if err != nil {
		err = fmt.Errorf("entry %d of the raft log: %w", l.Index, err)
		m.mu.Lock()
		m.broken = err
		m.mu.Unlock()
		m.fault(err)
		return applied{table, err}
	}
	if next.err == nil {
		m.replace(next.table)
	}
	return next
}

// step applies one command. Its error means that the command could not be
// understood; one that was, and does not fit, is an answer like any other.
func step(t *ring.Table, l *raft.Log) (applied, error) {
	if len(l.Data) == 0 {
		return applied{}, fmt.Errorf("empty command: %w", ErrDamaged)
	}
	if l.Data[0] != cmdChange {
		return applied{}, fmt.Errorf("unknown command %d: a newer version wrote it", l.Data[0])
	}
	c, err := ring.DecodeChange(l.Data[1:])
	if err != nil {
		return applied{}, err
	}
	next, err := t.Apply(c, ring.Epoch(l.Index))
	if err != nil {
		return applied{t, err}, nil
	}
	return applied{next, nil}, nil
}

// Snapshot implements raft.FSM: a pointer to a table that never changes.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return nil, m.broken
	}
	return snapshot{m.table}, nil
}

// Restore implements raft.FSM.
func (m *machine) Restore(r io.ReadCloser) error {
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxSnapshot+1))
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	t, err := decodeSnapshot(b)
	if err != nil {
		return err
	}
	m.replace(t)
	return nil
}

func decodeSnapshot(b []byte) (*ring.Table, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || len(b) > maxSnapshot {
		return nil, fmt.Errorf("snapshot of %d bytes: %w", len(b), ErrDamaged)
	}
	if v != snapshotVersion {
		return nil, fmt.Errorf("snapshot version %d, this agent reads %d", v, snapshotVersion)
	}
	t, err := ring.DecodeTable(b[n:])
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return t, nil
}

type snapshot struct{ table *ring.Table }

// Persist implements raft.FSMSnapshot.
func (s snapshot) Persist(sink raft.SnapshotSink) error {
	b := binary.AppendUvarint(nil, snapshotVersion)
	if _, err := sink.Write(ring.AppendTable(b, s.table)); err != nil {
		_ = sink.Cancel() // the write's error says more
		return fmt.Errorf("write snapshot: %w", err)
	}
	if err := sink.Close(); err != nil {
		return fmt.Errorf("close snapshot: %w", err)
	}
	return nil
}

// Release implements raft.FSMSnapshot.
func (snapshot) Release() {}
