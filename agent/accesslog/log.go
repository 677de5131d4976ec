package accesslog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// capacity bounds the lines that wait, in bytes; as many again may be on
	// their way to the file.
	capacity   = 2 << 20
	maxShards  = 16
	maxSpare   = 2 << 20                // of a buffer that is kept
	batch      = 100 * time.Millisecond // that lines wait for more of them
	lookEvery  = time.Second            // after the file
	stopWithin = 2 * time.Second        // the last lines have to be taken
)

// Config is what can be changed while it runs.
type Config struct {
	Path   string // "stdout", "stderr" or a file's; "" turns the log off
	Format Format
	Query  Query
}

// Options are what a log is made of.
type Options struct {
	Config
	Stdout, Stderr io.Writer // what the two paths stand for
	Log            hclog.Logger
}

// Log is an access log. Its methods may be called from any goroutine.
type Log struct {
	opt     Options
	log     hclog.Logger
	current atomic.Pointer[target] // nil: off
	shards  []shard
	dropped atomic.Uint64
	wake    chan struct{}
	look    chan struct{}

	mu      sync.Mutex // held while targets change; before any shard's
	retired []batchOf  // lines of targets that were replaced

	// Of the goroutine that writes.
	spare   []byte // becomes the next shard's
	told    uint64 // of dropped, to the agent's log
	failing bool   // the target takes nothing, and that was told
	stuck   bool   // so was that the file cannot be made anew
}

// target is where lines go, and in which form.
type target struct {
	Config
	file *file
}

// batchOf is lines and the target that they are meant for.
type batchOf struct {
	to    *target
	lines []byte
	last  bool // nothing more will come for it
}

// shard is where some of the lines wait, so that those who log seldom meet.
type shard struct {
	mu    sync.Mutex // guards lines and to
	lines []byte
	to    *target
	_     [64]byte
}

// Open returns a log, with its file open. It starts nothing; lines are written
// by Run.
func Open(opt Options) (*Log, error) {
	log := opt.Log
	if log == nil {
		log = hclog.NewNullLogger()
	}
	n := min(1<<bits.Len(uint(runtime.GOMAXPROCS(0)-1)), maxShards)
	l := &Log{
		opt: opt, log: log.Named("access"), shards: make([]shard, n),
		wake: make(chan struct{}, 1), look: make(chan struct{}, 1),
	}
	return l, l.Set(opt.Config)
}

// Set puts another configuration in force. It changes nothing if it returns an
// error. Lines that wait still go where they were meant to.
func (l *Log) Set(cfg Config) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.current.Load()
	if old == nil && cfg.Path == "" || old != nil && old.Config == cfg {
		return nil
	}
	var next *target
	if cfg.Path != "" {
		next = &target{Config: cfg}
		if old != nil && old.Path == cfg.Path {
			next.file = old.file
		} else {
			f, err := openFile(cfg.Path, l.opt.Stdout, l.opt.Stderr)
			if err != nil {
				return fmt.Errorf("open the access log: %w", err)
			}
			next.file = f
		}
	}
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		if len(s.lines) > 0 {
			l.retireLocked(batchOf{to: s.to, lines: s.lines})
			s.lines = nil
		}
		s.to = next
		s.mu.Unlock()
	}
	if old != nil && (next == nil || next.file != old.file) {
		l.retireLocked(batchOf{to: old, last: true})
	}
	l.current.Store(next)
	poke(l.wake)
	return nil
}

// retireLocked keeps lines for a target that is replaced, as long as there are
// not too many of them already: its writer may hang.
func (l *Log) retireLocked(b batchOf) {
	kept := len(b.lines)
	for _, r := range l.retired {
		kept += len(r.lines)
	}
	if kept > capacity {
		l.dropped.Add(uint64(bytes.Count(b.lines, []byte{'\n'})))
		b.lines = nil
	}
	l.retired = append(l.retired, b)
}

// On reports whether entries are wanted at all.
func (l *Log) On() bool { return l != nil && l.current.Load() != nil }

// Dropped returns how many lines were lost since the start.
func (l *Log) Dropped() uint64 {
	if l == nil {
		return 0
	}
	return l.dropped.Load()
}

// Reopen looks at once whether the file was moved away, and makes it anew if
// so. It does not wait for that.
func (l *Log) Reopen() { poke(l.look) }

// Close closes the file of a log that was never run.
func (l *Log) Close() error {
	if t := l.current.Swap(nil); t != nil {
		return t.file.close()
	}
	return nil
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Write logs an entry. It never waits for the file.
func (l *Log) Write(e *Entry) {
	s := &l.shards[rand.Uint32()&uint32(len(l.shards)-1)]
	s.mu.Lock()
	if s.to == nil {
		s.mu.Unlock()
		return
	}
	most := capacity / len(l.shards)
	if len(s.lines) >= most {
		s.mu.Unlock()
		l.dropped.Add(1)
		return
	}
	before := len(s.lines)
	s.lines = e.append(s.lines, s.to.Format, s.to.Query)
	after := len(s.lines)
	s.mu.Unlock()
	if before == 0 || before < most/2 && after >= most/2 {
		poke(l.wake)
	}
}

// Run writes what is logged until ctx ends, and then what is left. It can be
// called once.
func (l *Log) Run(ctx context.Context) error {
	done := make(chan struct{})
	quit := make(chan struct{})
	go func() {
		defer close(done)
		l.write(quit)
	}()
	<-ctx.Done()
	close(quit)
	limit := time.NewTimer(stopWithin)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		// A pipe that nobody reads. Closing a file wakes its writer; one that
		// was handed to this process cannot be helped, and ends with it.
		l.log.Error("access log not written to its end: it is not being taken")
		if t := l.current.Load(); t != nil && t.file.close() == nil && t.file.own() {
			<-done
		}
	}
	return nil
}
