package accesslog

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// file is where lines end up. One goroutine writes; close may be called by any.
type file struct {
	path  string
	w     io.Writer
	mu    sync.Mutex // guards f, which is nil for streams
	f     *os.File
	split bool // what was written last is not the end of a line
}

// openFile opens what a path stands for. Files are appended to, so that one
// that is cut short by somebody else goes on at its new end.
func openFile(path string, stdout, stderr io.Writer) (*file, error) {
	switch path {
	case "stdout":
		return &file{path: path, w: stdout}, nil
	case "stderr":
		return &file{path: path, w: stderr}, nil
	}
	f, err := appendTo(path)
	if err != nil {
		return nil, err
	}
	return &file{path: path, w: f, f: f}, nil
}

func appendTo(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
}

// own reports whether the file was opened here.
func (f *file) own() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.f != nil
}

// write writes whole lines. It returns how many bytes of lines were taken.
func (f *file) write(lines []byte) (int, error) {
	if f.split {
		if _, err := f.w.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
		f.split = false
	}
	n, err := f.w.Write(lines)
	f.split = n > 0 && lines[n-1] != '\n'
	return n, err
}

// moved reports whether the path does not lead to the file any more.
func (f *file) moved() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.f == nil {
		return false
	}
	there, err := os.Stat(f.path)
	if err != nil {
		return os.IsNotExist(err)
	}
	here, err := f.f.Stat()
	return err == nil && !os.SameFile(there, here)
}

// reopen makes the file at the path anew.
func (f *file) reopen() error {
	next, err := appendTo(f.path)
	if err != nil {
		return fmt.Errorf("make the access log anew: %w", err)
	}
	f.mu.Lock()
	old := f.f
	f.f, f.w, f.split = next, next, false
	f.mu.Unlock()
	return old.Close()
}

// close closes a file; streams stay open.
func (f *file) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.f == nil {
		return nil
	}
	return f.f.Close()
}
