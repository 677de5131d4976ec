package accesslog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
)

// run starts a log and returns what stops it.
func run(t *testing.T, opt Options) (*Log, func()) {
	t.Helper()
	l, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return l, stop
}

func entry(target string) *Entry {
	e := sample()
	e.Target = []byte(target)
	return &e
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
		<-tick.C
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

func TestLog_writesEveryLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "access.log")
	l, stop := run(t, Options{Config: Config{Path: path}})
	const each = 200 // so few that all could wait, if the file were slow
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range each {
				l.Write(entry("/x"))
			}
		})
	}
	wg.Wait()
	eventually(t, "lines before the end", func() bool { return strings.Contains(content(t, path), "\n") })
	stop()
	text := content(t, path)
	if n := strings.Count(text, `"target":"/x"`); n != 8*each || strings.Count(text, "\n") != n || l.Dropped() != 0 {
		t.Errorf("%d lines, %d dropped", n, l.Dropped())
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("anybody may read it: %v %v", info.Mode(), err)
	}
}

func TestLog_offAndNil(t *testing.T) {
	t.Parallel()
	var none *Log
	if none.On() || none.Dropped() != 0 {
		t.Error("no log is on")
	}
	l, _ := run(t, Options{})
	if l.On() {
		t.Error("without a path it is on")
	}
	l.Write(entry("/x"))
	if l.shards[0].lines != nil {
		t.Error("something was kept")
	}
	if _, err := Open(Options{Config: Config{Path: filepath.Join(t.TempDir(), "none", "x")}}); err == nil {
		t.Error("a file that cannot be made is no error")
	}
}

func TestLog_followsAFileThatWasMoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "access.log")
	synctest.Test(t, func(t *testing.T) { // or it might look of itself just when the file is moved
		l, stop := run(t, Options{Config: Config{Path: path}})
		l.Write(entry("/before"))
		time.Sleep(batch)
		synctest.Wait()
		if text := content(t, path); !strings.Contains(text, "/before") {
			t.Fatalf("the file has %q", text)
		}
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
		l.Write(entry("/between"))
		l.Reopen()
		time.Sleep(batch)
		synctest.Wait()
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("no new file: %v", err)
		}
		l.Write(entry("/after"))
		time.Sleep(batch)
		synctest.Wait()
		if text := content(t, path); !strings.Contains(text, "/after") {
			t.Errorf("the new file has %q", text)
		}
		// Again, and nobody says so.
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery)
		synctest.Wait()
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("no other file: %v", err)
		}
		l.Write(entry("/last"))
		stop()
		if old := content(t, path+".1"); !strings.Contains(old, "/before") || !strings.Contains(old, "/between") || strings.Contains(old, "/after") {
			t.Errorf("the old file has %q", old)
		}
		if text := content(t, path); !strings.Contains(text, "/last") {
			t.Errorf("the new file has %q", text)
		}
	})
}

// A directory may let nobody make files anew: the log goes on in the old one,
// and that is news once, however long it lasts and whatever is written.
func TestLog_saysOnceThatTheFileCannotBeMadeAnew(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	l, err := Open(Options{Config: Config{Path: filepath.Join(dir, "access.log")}, Log: hclog.New(&hclog.LoggerOptions{Output: &said})})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	look := func() {
		l.follow()
		l.Write(entry("/x"))
		l.flush()
	}
	look()
	for range 2 {
		if err := os.Rename(dir, dir+".old"); err != nil {
			t.Fatal(err)
		}
		said.Reset()
		for range 3 {
			look()
		}
		if n := strings.Count(said.String(), "\n"); n != 1 || !strings.Contains(said.String(), "goes on in the file that was moved") {
			t.Errorf("%d lines:\n%s", n, said.String())
		}
		if err := os.Rename(dir+".old", dir); err != nil {
			t.Fatal(err)
		}
		look() // all is well again, until the next time
	}
	if text := content(t, filepath.Join(dir, "access.log")); strings.Count(text, "\n") != 9 {
		t.Errorf("written: %s", text)
	}
}

func TestLog_setKeepsLinesApart(t *testing.T) {
	t.Parallel()
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	l, stop := run(t, Options{Config: Config{Path: one}})
	l.Write(entry("/json"))
	if err := l.Set(Config{Path: one, Format: Combined}); err != nil {
		t.Fatal(err)
	}
	l.Write(entry("/combined"))
	if err := l.Set(Config{Path: filepath.Join(one, "x")}); err == nil {
		t.Error("a file below a file was opened")
	}
	l.Write(entry("/still"))
	if err := l.Set(Config{Path: two}); err != nil {
		t.Fatal(err)
	}
	l.Write(entry("/two"))
	if err := l.Set(Config{}); err != nil || l.On() {
		t.Fatalf("still on: %v", err)
	}
	l.Write(entry("/none"))
	stop()
	// Lines of one moment come in no order.
	first := content(t, one)
	if strings.Count(first, "\n") != 3 || !strings.Contains(first, `"target":"/json"`) || !strings.Contains(first, `"GET /combined HTTP/1.1"`) || !strings.Contains(first, `"GET /still HTTP/1.1"`) {
		t.Errorf("the first file has %q", first)
	}
	if second := content(t, two); strings.Count(second, "\n") != 1 || !strings.Contains(second, `"/two"`) {
		t.Errorf("the second file has %q", second)
	}
}

// stuck is a writer that takes nothing until it is let go.
type stuck struct {
	mu    sync.Mutex
	goOn  chan struct{}
	began chan struct{}
	took  bytes.Buffer
}

func (w *stuck) lines() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Count(w.took.Bytes(), []byte{'\n'})
}

func (w *stuck) Write(p []byte) (int, error) {
	select {
	case w.began <- struct{}{}:
	default:
	}
	<-w.goOn
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.took.Write(p)
}

func TestLog_dropsWhatNobodyTakes(t *testing.T) {
	t.Parallel()
	w := &stuck{goOn: make(chan struct{}), began: make(chan struct{}, 1)}
	var said bytes.Buffer
	l, stop := run(t, Options{Config: Config{Path: "stdout"}, Stdout: w, Log: hclog.New(&hclog.LoggerOptions{Output: &said})})
	l.Write(entry("/first"))
	<-w.began
	written := 1
	for l.Dropped() == 0 { // it never waits
		l.Write(entry("/" + strings.Repeat("x", 4000)))
		written++
		if written > 10_000 {
			t.Fatal("it keeps without bound")
		}
	}
	for range 1000 {
		l.Write(entry("/" + strings.Repeat("x", 4000)))
		written++
	}
	kept := 0
	for i := range l.shards {
		kept += cap(l.shards[i].lines)
	}
	if kept > 2*capacity+1<<20 {
		t.Errorf("%d bytes are kept", kept)
	}
	close(w.goOn)
	eventually(t, "the rest to be written", func() bool { return w.lines()+int(l.Dropped()) >= written })
	stop()
	if got := w.lines(); got+int(l.Dropped()) != written {
		t.Errorf("%d lines written, %d dropped, of %d", got, l.Dropped(), written)
	}
}

func TestLog_stopsAlthoughNobodyTakes(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path := filepath.Join(t.TempDir(), "access.log")
	l, stop := run(t, Options{Config: Config{Path: path}})
	l.Write(entry("/x"))
	eventually(t, "the first line", func() bool { return content(t, path) != "" })
	// A pipe that is full, as a named one may be, in the file's place.
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	t0 := l.current.Load().file
	t0.mu.Lock()
	real := t0.f
	raw.Control(func(fd uintptr) { t0.path = fmt.Sprintf("/dev/fd/%d", fd) }) // where nobody finds it moved
	t0.f, t0.w = w, w
	t0.mu.Unlock()
	defer real.Close()
	if t0.moved() {
		t.Fatal("the pipe looks moved")
	}
	for range 1000 {
		l.Write(entry("/" + strings.Repeat("x", 1000)))
	}
	stop()
}

// short takes some bytes and then no more, until it is healed.
type short struct {
	mu   sync.Mutex
	left int
	took bytes.Buffer
}

func (w *short) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(p), w.left)
	w.left -= n
	w.took.Write(p[:n])
	if n < len(p) {
		return n, errors.New("no space left")
	}
	return n, nil
}

func TestFile_aLineThatWasCutSpoilsNoOther(t *testing.T) {
	t.Parallel()
	w := &short{left: 5}
	f, err := openFile("stdout", w, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.write([]byte("first line\n")); err == nil {
		t.Fatal("all was taken")
	}
	if n, err := f.write([]byte("lost\n")); n != 0 || err == nil {
		t.Fatalf("%d bytes of a line taken: %v", n, err)
	}
	w.left = 100
	if _, err := f.write([]byte("second\n")); err != nil {
		t.Fatal(err)
	}
	if got, want := w.took.String(), "first\nsecond\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLog_countsWhatCannotBeWritten(t *testing.T) {
	t.Parallel()
	w := &short{}
	l, stop := run(t, Options{Config: Config{Path: "stderr", Format: Combined}, Stderr: w})
	for range 3 {
		l.Write(entry("/x"))
	}
	eventually(t, "three lost lines", func() bool { return l.Dropped() == 3 })
	w.mu.Lock()
	w.left = 1 << 20
	w.mu.Unlock()
	l.Write(entry("/y"))
	eventually(t, "a line that is taken", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return strings.HasSuffix(w.took.String(), "\n")
	})
	stop()
	if got := w.took.String(); l.Dropped() != 3 || !strings.Contains(got, "/y") || strings.Contains(got, "/x") {
		t.Errorf("%d dropped, written %q", l.Dropped(), got)
	}
}

// Not parallel: allocations are counted for the whole process.
func TestLog_writeAllocatesNothing(t *testing.T) {
	for _, f := range []Format{JSON, Combined} {
		l, err := Open(Options{Config: Config{Path: "stdout", Format: f}, Stdout: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		e := entry("/shop/cart?page=2")
		for i := range l.shards {
			l.shards[i].lines = make([]byte, 0, 1<<20)
		}
		if n := testing.AllocsPerRun(100, func() { l.Write(e) }); n != 0 {
			t.Errorf("format %d: %v allocations", f, n)
		}
	}
}

func BenchmarkLog(b *testing.B) {
	for name, f := range map[string]Format{"json": JSON, "combined": Combined} {
		b.Run(name, func(b *testing.B) {
			l, err := Open(Options{Config: Config{Path: "stdout", Format: f}, Stdout: io.Discard})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error)
			go func() { done <- l.Run(ctx) }()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				e := entry("/shop/cart?page=2")
				for pb.Next() {
					l.Write(e)
				}
			})
			cancel()
			<-done
		})
	}
}
