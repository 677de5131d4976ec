package entrylog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"
)

func open(t *testing.T, dir string, files types.VFS) *Log {
	t.Helper()
	l, err := Open(Options{Dir: dir, SegmentSize: 16 << 10, Files: files, Log: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func entry(i uint64) *raft.Log {
	return &raft.Log{Index: i, Term: 1, Data: bytes.Repeat([]byte(fmt.Sprintf("%08d", i)), 128)}
}

func appendTo(t *testing.T, l *Log, from, to uint64) {
	t.Helper()
	for i := from; i <= to; i++ {
		if err := l.StoreLog(entry(i)); err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
	}
}

func want(t *testing.T, l *Log, to uint64) {
	t.Helper()
	if last, err := l.LastIndex(); err != nil || last != to {
		t.Fatalf("it ends with entry %d (%v), want %d", last, err, to)
	}
	for i := uint64(1); i <= to; i++ {
		var got raft.Log
		if err := l.GetLog(i, &got); err != nil || !bytes.Equal(got.Data, entry(i).Data) {
			t.Fatalf("entry %d: %v", i, err)
		}
	}
}

func TestLog_goesOnAfterItsEndWasTakenBack(t *testing.T) {
	t.Parallel()
	for _, back := range []uint64{35, 16, 5} {
		dir := t.TempDir()
		l := open(t, dir, nil)
		appendTo(t, l, 1, 40)
		if err := l.DeleteRange(back, 40); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l = open(t, dir, nil)
			want(t, l, back-1)
		}
		appendTo(t, l, back, 50)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		want(t, open(t, dir, nil), 50)
	}
}

// snapshots is a disk that keeps a copy of its directory as it is after each
// write: what a process that is killed then leaves.
type snapshots struct {
	types.VFS
	dir   string
	take  func(n int)
	taken int
}

func (s *snapshots) Create(dir, name string, size uint64) (types.WritableFile, error) {
	w, err := s.VFS.Create(dir, name, size)
	return &snapshotFile{w, s}, err
}

type snapshotFile struct {
	types.WritableFile
	s *snapshots
}

func (f *snapshotFile) Sync() error {
	err := f.WritableFile.Sync()
	f.s.taken++
	f.s.take(f.s.taken)
	return err
}

func TestLog_goesOnAfterAKillAtAnyWrite(t *testing.T) {
	t.Parallel()
	dir, copies := t.TempDir(), t.TempDir()
	s := &snapshots{VFS: fs.New(), dir: dir}
	s.take = func(n int) {
		if err := os.CopyFS(filepath.Join(copies, fmt.Sprint(n)), os.DirFS(dir)); err != nil {
			t.Error(err)
		}
	}
	appendTo(t, open(t, dir, s), 1, 40)
	for n := 1; n <= 40; n++ {
		killed := filepath.Join(copies, fmt.Sprint(n))
		l := open(t, killed, nil)
		want(t, l, uint64(n))
		appendTo(t, l, uint64(n)+1, 60)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		want(t, open(t, killed, nil), 60)
	}
}

func TestOpen_scrambledDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, nil)
	appendTo(t, l, 1, 3)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "wal-meta.db"), bytes.Repeat([]byte{7, 91, 3}, 20000), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := Open(Options{Dir: dir, SegmentSize: 16 << 10, Log: hclog.NewNullLogger()}); err == nil {
		l.Close()
		t.Fatal("opened")
	} else if errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}
