package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/types"

	"github.com/rondel-project/rondel/agent/internal/entrylog"
	"github.com/rondel-project/rondel/agent/internal/wholefile"
)

// segmentSize is the size of a log's files: each is made in full when it is
// begun, so that a disk without room is met early.
const segmentSize = 16 << 20

// maxEntry is how much goes into one entry: the library writes more than 64 MiB,
// and cannot read that again.
const maxEntry = 16 << 20

// endFile remembers the last entry that was written. It is not synced with each
// entry: what it says was certainly there. A log that counts always has one.
const endFile = "end"

// journal is one log: raft-wal, with a checksum for each entry, and the memory
// of its end, since the library drops a damaged end without a word.
type journal struct {
	dir   string
	files *files
	wal   *entrylog.Log
	end   *os.File
	next  uint64 // index of the next entry
	size  int64  // bytes of the entries
	since int64  // of those since the last dump began
	live  int64  // bytes that were left after the last dump; 0: not known
}

// Damage is a place where a log is not what was written.
type Damage struct {
	File   string
	Offset int64
	Err    error
}

func (d *Damage) Error() string {
	return fmt.Sprintf("%s is damaged at offset %d: %v", d.File, d.Offset, d.Err)
}

func (d *Damage) Unwrap() error { return d.Err }

var (
	// errShort means that entries are missing at the end of a log.
	errShort = errors.New("it has been cut short")
	// errNoEnd means that nobody can tell.
	errNoEnd = errors.New("it does not say where the log ends, so entries may be missing there")
)

// openJournal opens the log in dir. The libraries below panic on some damaged
// files; here that is an error like any other.
func openJournal(dir string, o Options, log hclog.Logger) (_ *journal, err error) {
	j := &journal{dir: dir, files: newFiles(o.VFS, o.Sync != Always)}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v: %w", p, types.ErrCorrupt)
		}
		if err != nil {
			err = errors.Join(err, j.close())
		}
	}()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if j.end, err = os.OpenFile(filepath.Join(dir, endFile), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	j.wal, err = entrylog.Open(entrylog.Options{Dir: dir, SegmentSize: segmentSize, Files: j.files, Log: libraryLog{log}})
	if err != nil {
		name, at := j.files.read()
		if errors.Is(err, entrylog.ErrDamaged) && name != "" {
			return nil, &Damage{filepath.Join(dir, name), at, err}
		}
		return nil, err
	}
	j.next = 1
	return j, nil
}

// load reads the whole log and hands out its entries in order, up to the first
// that is not what was written; *Damage then says where that is.
func (j *journal) load(f func(records []byte, at time.Time) error) (err error) {
	at := uint64(0)
	var begun []byte // of what does not end with its entry
	defer func() {
		if p := recover(); p != nil {
			err = j.damage(at, fmt.Errorf("%v: %w", p, types.ErrCorrupt))
		}
	}()
	first, err := j.wal.FirstIndex()
	if err != nil {
		return err
	}
	last, err := j.wal.LastIndex()
	if err != nil {
		return err
	}
	for at = max(first, 1); at <= last; at++ {
		var l raft.Log
		if err := j.wal.GetLog(at, &l); err != nil {
			return j.damage(at, err)
		}
		when, more, records, err := decodeEntry(at, &l)
		if err != nil {
			return j.damage(at, err)
		}
		if more || begun != nil {
			begun = append(begun, records...)
			records = begun
		}
		if !more {
			begun = nil
			if err := f(records, when); err != nil {
				return j.damage(at, err)
			}
		}
		j.size += int64(len(l.Data))
		j.next = at + 1
	}
	end, ok := j.marked()
	if !ok {
		return &Damage{j.end.Name(), 0, errNoEnd}
	}
	if end > last {
		return j.damage(last+1, fmt.Errorf("entries %d to %d are missing: %w", last+1, end, errShort))
	}
	return nil
}

// damage says where the entry was looked for.
func (j *journal) damage(index uint64, err error) *Damage {
	name, at := j.files.read()
	if name == "" { // nothing was read: the file that the log would go on in
		name = lastSegment(j.dir)
	}
	return &Damage{filepath.Join(j.dir, name), at, fmt.Errorf("entry %d: %w", index, err)}
}

func lastSegment(dir string) string {
	list, _ := filepath.Glob(filepath.Join(dir, "*.wal"))
	if len(list) == 0 {
		return "."
	}
	return filepath.Base(list[len(list)-1])
}

// write appends the chunks, one entry each or several for a big one, in one write and one sync.
func (j *journal) write(chunks [][]byte, now time.Time) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v: %w", p, types.ErrCorrupt)
		}
	}()
	logs := make([]*raft.Log, 0, len(chunks))
	bytes := int64(0)
	for _, c := range chunks {
		for more := true; more; {
			piece := c[:min(len(c), maxEntry)]
			c = c[len(piece):]
			more = len(c) > 0
			l := encodeEntry(j.next+uint64(len(logs)), now, more, piece)
			logs, bytes = append(logs, l), bytes+int64(len(l.Data))
		}
	}
	if err := j.wal.StoreLogs(logs); err != nil {
		return fmt.Errorf("write the log of sessions: %w", j.files.explain(err))
	}
	j.next += uint64(len(logs))
	j.size += bytes
	j.since += bytes
	return j.mark()
}

// cut forgets the entries before from.
func (j *journal) cut(from uint64) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v: %w", p, types.ErrCorrupt)
		}
	}()
	first, err := j.wal.FirstIndex()
	if err != nil || first == 0 || first >= from {
		return err
	}
	if err := j.wal.DeleteRange(first, from-1); err != nil {
		return fmt.Errorf("shorten the log of sessions: %w", err)
	}
	j.size = j.since
	return nil
}

func (j *journal) mark() error {
	var b [12]byte
	binary.BigEndian.PutUint64(b[:], j.next-1)
	binary.BigEndian.PutUint32(b[8:], crc32.Checksum(b[:8], castagnoli))
	if _, err := j.end.WriteAt(b[:], 0); err != nil {
		return fmt.Errorf("remember the end of the log of sessions: %w", err)
	}
	return nil
}

// marked returns the last entry that was certainly there, if that is known.
func (j *journal) marked() (last uint64, ok bool) {
	var b [12]byte
	if n, _ := j.end.ReadAt(b[:], 0); n < len(b) || crc32.Checksum(b[:8], castagnoli) != binary.BigEndian.Uint32(b[8:]) {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[:]), true
}

// settle brings the mark itself to the disk, for a log that is about to count:
// later ones are written over it, and a power loss leaves one of them.
func (j *journal) settle() error {
	if err := errors.Join(j.mark(), j.end.Sync()); err != nil {
		return err
	}
	return wholefile.SyncDir(j.dir)
}

func (j *journal) sync() error {
	if err := j.files.sync(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("sync the log of sessions: %w", err)
	}
	return nil
}

func (j *journal) close() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.Join(err, fmt.Errorf("close the log of sessions: %v", p))
		}
	}()
	var errs []error
	if j.wal != nil {
		errs = append(errs, j.wal.Close())
	}
	if j.end != nil {
		errs = append(errs, j.end.Close())
	}
	return errors.Join(errs...)
}
