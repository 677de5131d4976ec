package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/command/term"
	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// fakeAgent runs until it is told to stop and records what it is asked.
type fakeAgent struct {
	end     chan error // what Run returns, when not stopped otherwise
	stuck   bool       // Shutdown waits for its context
	running chan struct{}
	once    sync.Once
	stopped chan struct{}

	mu       sync.Mutex
	reloads  []config.Runtime
	reopened int
	leaves   []bool
	refuse   error // of Reload
}

func newFake() *fakeAgent {
	return &fakeAgent{end: make(chan error, 1), running: make(chan struct{}), stopped: make(chan struct{})}
}

func (f *fakeAgent) Run(ctx context.Context) error {
	close(f.running)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.stopped:
		return nil
	case err := <-f.end:
		return err
	}
}

func (f *fakeAgent) Shutdown(ctx context.Context, leave bool) error {
	f.mu.Lock()
	f.leaves = append(f.leaves, leave)
	f.mu.Unlock()
	if f.stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	f.once.Do(func() { close(f.stopped) })
	return nil
}

func (f *fakeAgent) Reload(cfg config.Runtime) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return f.refuse
	}
	f.reloads = append(f.reloads, cfg)
	return nil
}

func (f *fakeAgent) Reopen() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reopened++
}

func (f *fakeAgent) reloaded() []config.Runtime {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.reloads)
}

// safeBuffer may be written to by an agent while a test reads it.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// process is a running verb.
type process struct {
	signals chan os.Signal
	reload  ReloadFunc
	stderr  *safeBuffer
	code    chan int
}

func start(t *testing.T, fake *fakeAgent, args ...string) *process {
	t.Helper()
	p := &process{signals: make(chan os.Signal), stderr: &safeBuffer{}, code: make(chan int, 1)}
	var built ReloadFunc
	c := New(term.Streams{Out: io.Discard, Err: p.stderr}, func(_ config.Runtime, _ hclog.Logger, reload ReloadFunc) (Agent, error) {
		built = reload
		return fake, nil
	})
	c.signals = p.signals
	go func() { p.code <- c.Run(args) }()
	select {
	case <-fake.running:
		p.reload = built
	case code := <-p.code:
		t.Fatalf("the agent did not run: exit %d, %s", code, p.stderr)
	case <-time.After(time.Minute):
		t.Fatal("the agent does not run")
	}
	return p
}

func (p *process) exit(t *testing.T, want int) {
	t.Helper()
	select {
	case code := <-p.code:
		if code != want {
			t.Errorf("exit %d, want %d; stderr:\n%s", code, want, p.stderr)
		}
	case <-time.After(time.Minute):
		t.Fatalf("the verb does not end; stderr:\n%s", p.stderr)
	}
}

func (p *process) says(t *testing.T, want string) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !strings.Contains(p.stderr.String(), want) {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no %q in stderr:\n%s", want, p.stderr)
		}
	}
}

func TestAgent_signalStopsAndStaysMember(t *testing.T) {
	t.Parallel()
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		fake := newFake()
		p := start(t, fake, "-dev")
		p.signals <- s
		p.exit(t, 0)
		if !slices.Equal(fake.leaves, []bool{false}) {
			t.Errorf("%s: shutdowns %v", s, fake.leaves)
		}
	}
}

func TestAgent_secondSignalStopsAtOnce(t *testing.T) {
	t.Parallel()
	fake := newFake()
	fake.stuck = true
	p := start(t, fake, "-dev")
	p.signals <- syscall.SIGTERM
	p.signals <- syscall.SIGTERM
	p.exit(t, 1)
	p.says(t, "stopped before all was handed over")
}

func TestAgent_endByItself(t *testing.T) {
	t.Parallel()
	left := newFake()
	p := start(t, left, "-dev")
	left.end <- nil // a leave that came by the API
	p.exit(t, 0)

	broken := newFake()
	p = start(t, broken, "-dev")
	broken.end <- errors.New("the disk is full")
	p.exit(t, 1)
	p.says(t, "Error: the disk is full")
}

func TestAgent_wrongConfigurationStartsNothing(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	c := New(term.Streams{Err: &stderr}, func(config.Runtime, hclog.Logger, ReloadFunc) (Agent, error) {
		t.Error("an agent was built")
		return nil, errors.New("unreachable")
	})
	if code := c.Run([]string{"-dev", "-http-port=many", "-profile=moon"}); code != 1 {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"flag -http-port: ports.http", "flag -profile: profile"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in %s", want, stderr.String())
		}
	}
}

func TestAgent_buildFails(t *testing.T) {
	t.Parallel()
	pid := filepath.Join(t.TempDir(), "pid")
	stderr := &safeBuffer{}
	c := New(term.Streams{Err: stderr}, func(config.Runtime, hclog.Logger, ReloadFunc) (Agent, error) {
		return nil, errors.New("port 8700 is taken")
	})
	if code := c.Run([]string{"-dev", "-pid-file", pid}); code != 1 || !strings.Contains(stderr.String(), "Error: start the agent: port 8700 is taken") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if _, err := os.Stat(pid); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the pid file is there: %v", err)
	}
}

func TestAgent_pidFile(t *testing.T) {
	t.Parallel()
	pid := filepath.Join(t.TempDir(), "pid")
	fake := newFake()
	p := start(t, fake, "-dev", "-pid-file", pid)
	if text, err := os.ReadFile(pid); err != nil || strings.TrimSpace(string(text)) == "" {
		t.Errorf("pid file: %q, %v", text, err)
	}
	fake.end <- nil
	p.exit(t, 0)
	if _, err := os.Stat(pid); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the pid file stays: %v", err)
	}

	unwritable := newFake()
	c := New(term.Streams{Err: io.Discard}, func(config.Runtime, hclog.Logger, ReloadFunc) (Agent, error) { return unwritable, nil })
	if code := c.Run([]string{"-dev", "-pid-file", filepath.Join(pid, "no", "such")}); code != 1 {
		t.Errorf("exit %d", code)
	}
}

func TestAgent_reload(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.hcl")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	write(`service "a" { port = 1 }`)
	fake := newFake()
	p := start(t, fake, "-dev", "-config-file", file)

	write(`service "a" { port = `)
	p.signals <- syscall.SIGHUP
	p.says(t, "reload failed")
	if n := len(fake.reloaded()); n != 0 {
		t.Errorf("%d reloads by a broken file", n)
	}

	write("service \"b\" { port = 2 }\nnode_name = \"other\"\nlog_level = \"debug\"")
	p.signals <- syscall.SIGHUP
	p.says(t, "needs a restart")
	got := fake.reloaded()
	if len(got) != 1 || got[0].Services[0].ID != "b" || got[0].Node.Name == "other" {
		t.Fatalf("reloads: %+v", got)
	}

	fake.mu.Lock()
	fake.refuse = errors.New("no")
	fake.mu.Unlock()
	write(`service "c" { port = 3 }`)
	if _, _, err := p.reload(); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("reload that the agent refuses: %v", err)
	}
	fake.mu.Lock()
	fake.refuse = nil
	fake.mu.Unlock()
	changed, restart, err := p.reload()
	fake.mu.Lock()
	if fake.reopened != 4 {
		t.Errorf("files reopened %d times, by 4 reloads", fake.reopened)
	}
	fake.mu.Unlock()
	if want := []string{"log_level", "service.b", "service.c"}; err != nil || !slices.Equal(slices.Sorted(slices.Values(changed)), want) || len(restart) != 0 {
		t.Errorf("reload = %v, %v, %v, want %v", changed, restart, err, want)
	}
	fake.end <- nil
	p.exit(t, 0)
}
