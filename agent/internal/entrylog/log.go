package entrylog

import (
	"errors"
	"fmt"

	"github.com/hashicorp/go-hclog"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// ErrDamaged means that a log on disk is not what was written to it.
var ErrDamaged = errors.New("the log on disk is damaged")

// Options make a Log.
type Options struct {
	Dir         string    // must exist
	SegmentSize int       // each file is made in full when it is begun, so that a disk without room is met early
	Files       types.VFS // nil: the disk itself
	Log         hclog.Logger
}

// Log is a log in a directory of its own.
type Log struct {
	*wal.WAL
	meta *metadb.BoltMetaDB
}

// Open opens the log, which it makes if there is none. The libraries below panic
// on some damaged files; here that is ErrDamaged.
func Open(o Options) (_ *Log, err error) {
	l := &Log{meta: &metadb.BoltMetaDB{}}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v: %w", p, ErrDamaged)
		}
		if err != nil {
			err = errors.Join(err, l.closeMeta())
		}
	}()
	if o.Files == nil {
		o.Files = fs.New()
	}
	segments := filer{segment.NewFiler(o.Dir, o.Files)}
	l.WAL, err = wal.Open(o.Dir, wal.WithMetaStore(meta{l.meta, segments}), wal.WithSegmentFiler(segments),
		wal.WithSegmentSize(o.SegmentSize), wal.WithLogger(o.Log))
	if errors.Is(err, wal.ErrCorrupt) {
		err = fmt.Errorf("%w: %w", err, ErrDamaged)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Close closes the log and its own database, which the log leaves open.
func (l *Log) Close() error { return errors.Join(l.WAL.Close(), l.closeMeta()) }

// closeMeta closes the database. One that was never opened has nothing to close.
func (l *Log) closeMeta() error {
	if err := l.meta.Close(); err != nil && !errors.Is(err, metadb.ErrUnintialized) {
		return fmt.Errorf("close the log's database: %w", err)
	}
	return nil
}
