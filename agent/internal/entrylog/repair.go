package entrylog

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/types"
)

// filer opens segments that are sealed and have no index, which the library
// leaves behind when entries are taken back, and refuses to read after a
// restart. The index is made from the file again.
type filer struct{ types.SegmentFiler }

// Open implements types.SegmentFiler.
func (f filer) Open(info types.SegmentInfo) (types.SegmentReader, error) {
	if info.IndexStart != 0 {
		return f.SegmentFiler.Open(info)
	}
	open := info
	open.SealTime, open.MaxIndex = time.Time{}, 0
	w, err := f.RecoverTail(open)
	if err != nil {
		return nil, err
	}
	if last := w.LastIndex(); last < info.MaxIndex {
		return nil, errors.Join(fmt.Errorf("%w: a segment ends with entry %d and had %d", types.ErrCorrupt, last, info.MaxIndex), w.Close())
	}
	return w, nil
}

// meta finishes what a process that died has begun: a segment was full, and the
// next one not yet named. The library reads such a log, and refuses every write
// to it.
type meta struct {
	*metadb.BoltMetaDB
	segments filer
}

// Load implements types.MetaStore.
func (m meta) Load(dir string) (types.PersistentState, error) {
	s, err := m.BoltMetaDB.Load(dir)
	if err != nil || len(s.Segments) == 0 {
		return s, err
	}
	tail := &s.Segments[len(s.Segments)-1]
	if !tail.SealTime.IsZero() {
		return s, nil
	}
	w, err := m.segments.RecoverTail(*tail)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil // the library makes it
	}
	if err != nil {
		return s, err
	}
	sealed, _, err := w.Sealed()
	last := w.LastIndex()
	if err := errors.Join(err, w.Close()); err != nil || !sealed {
		return s, err
	}
	next := types.SegmentInfo{
		ID: s.NextSegmentID, BaseIndex: last + 1, MinIndex: last + 1, SizeLimit: tail.SizeLimit, Codec: tail.Codec, CreateTime: time.Now(),
	}
	s.NextSegmentID++
	if last == 0 { // it was to be full with its first write, which did not end
		next.BaseIndex, next.MinIndex = tail.BaseIndex, tail.MinIndex
		*tail = next
	} else {
		// Its index may be of a write that did not end. Without one it is made anew.
		tail.SealTime, tail.MaxIndex = time.Now(), last
		s.Segments = append(s.Segments, next)
	}
	return s, m.CommitState(s)
}
