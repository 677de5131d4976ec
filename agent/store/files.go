package store

import (
	"errors"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"
)

// files is the file system as the log sees it: it decides when a sync reaches
// the disk, and remembers where the last read was, so that damage can be told
// with its place, and why a file could not be made, which the library keeps to
// itself.
type files struct {
	types.VFS
	lazy bool // syncs wait for sync

	mu    sync.Mutex // guards the following
	dirty map[types.WritableFile]bool
	name  string // of the file that was read last,
	at    int64  // and where in it
	fault error  // why the last file could not be made
}

func newFiles(under types.VFS, lazy bool) *files {
	if under == nil {
		under = fs.New()
	}
	return &files{VFS: under, lazy: lazy, dirty: map[types.WritableFile]bool{}}
}

// sync writes through what lazy syncs have left.
func (f *files) sync() error {
	f.mu.Lock()
	todo := f.dirty
	f.dirty = map[types.WritableFile]bool{}
	f.mu.Unlock()
	for w := range todo {
		if err := w.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// read returns where the last read was.
func (f *files) read() (name string, at int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.name, f.at
}

func (f *files) note(name string, at int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.name, f.at = name, at
}

// explain returns why a write failed where err only says that the file before is
// full: the next one is made in the background.
func (f *files) explain(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if errors.Is(err, types.ErrSealed) && f.fault != nil {
		return f.fault
	}
	return err
}

// libraryLog leaves out what the next write returns.
type libraryLog struct{ hclog.Logger }

// Error implements hclog.Logger.
func (l libraryLog) Error(msg string, args ...any) {
	if msg == "rotate error" {
		l.Debug(msg, args...)
		return
	}
	l.Logger.Error(msg, args...)
}

// Create implements types.VFS.
func (f *files) Create(dir, name string, size uint64) (types.WritableFile, error) {
	w, err := f.VFS.Create(dir, name, size)
	f.mu.Lock()
	f.fault = err
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return &writable{WritableFile: w, files: f, name: name}, nil
}

// OpenReader implements types.VFS.
func (f *files) OpenReader(dir, name string) (types.ReadableFile, error) {
	r, err := f.VFS.OpenReader(dir, name)
	if err != nil {
		return nil, err
	}
	return &readable{ReadableFile: r, files: f, name: name}, nil
}

// OpenWriter implements types.VFS.
func (f *files) OpenWriter(dir, name string) (types.WritableFile, error) {
	w, err := f.VFS.OpenWriter(dir, name)
	if err != nil {
		return nil, err
	}
	return &writable{WritableFile: w, files: f, name: name}, nil
}

type readable struct {
	types.ReadableFile
	files *files
	name  string
}

// ReadAt implements io.ReaderAt.
func (r *readable) ReadAt(b []byte, off int64) (int, error) {
	r.files.note(r.name, off)
	return r.ReadableFile.ReadAt(b, off)
}

type writable struct {
	types.WritableFile
	files *files
	name  string
}

// ReadAt implements io.ReaderAt.
func (w *writable) ReadAt(b []byte, off int64) (int, error) {
	w.files.note(w.name, off)
	return w.WritableFile.ReadAt(b, off)
}

// Sync implements types.WritableFile.
func (w *writable) Sync() error {
	if !w.files.lazy {
		return w.WritableFile.Sync()
	}
	w.files.mu.Lock()
	defer w.files.mu.Unlock()
	w.files.dirty[w.WritableFile] = true
	return nil
}

// Close implements io.Closer. A file that is closed for good is complete.
func (w *writable) Close() error {
	w.files.mu.Lock()
	dirty := w.files.dirty[w.WritableFile]
	delete(w.files.dirty, w.WritableFile)
	w.files.mu.Unlock()
	if dirty {
		if err := w.WritableFile.Sync(); err != nil {
			return err
		}
	}
	return w.WritableFile.Close()
}
