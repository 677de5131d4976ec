package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Runner starts processes and ends them.
type Runner struct {
	Dir   string // for configurations and logs; gone at the end
	procs []*Process
}

// New makes a runner with a directory of its own.
func New() (*Runner, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // workers of nginx may run as somebody else
		return nil, err
	}
	return &Runner{Dir: dir}, nil
}

// Close ends all processes, the last one first, and removes the directory.
func (r *Runner) Close() {
	r.Stop(r.procs...)
	os.RemoveAll(r.Dir)
}

// Stop ends some of the processes, the last one first.
func (r *Runner) Stop(procs ...*Process) {
	for i := len(procs) - 1; i >= 0; i-- {
		procs[i].stop()
	}
}

// Program is what a Runner starts.
type Program struct {
	Name   string // of the process, for its log
	Args   []string
	Env    []string // beside the bench's own
	CPU    int      // where it may run; -1: anywhere
	Stdout io.Writer
	Stdin  io.Reader
}

// Process is a process that was started here, with its children.
type Process struct {
	PID   int
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
	err   error // valid once ended
	once  sync.Once
}

// Start starts a program. It must be called on the goroutine of main, and that must
// be locked to its thread: the system ends the process when that thread ends.
func (r *Runner) Start(p Program) (*Process, error) {
	args := p.Args
	if p.CPU >= 0 {
		args = append([]string{"taskset", "-c", strconv.Itoa(p.CPU)}, args...)
	}
	log, err := os.Create(filepath.Join(r.Dir, fmt.Sprintf("%s-%d.log", p.Name, len(r.procs))))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = r.Dir, append(os.Environ(), p.Env...)
	cmd.Stdout, cmd.Stderr, cmd.Stdin = log, log, p.Stdin
	if p.Stdout != nil {
		cmd.Stdout = p.Stdout
	}
	bindToParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	proc := &Process{PID: cmd.Process.Pid, cmd: cmd, log: log.Name(), ended: make(chan struct{})}
	go func() {
		defer close(proc.ended)
		proc.err = cmd.Wait()
	}()
	r.procs = append(r.procs, proc)
	return proc, nil
}

// Ended is closed when the process has ended and all its output was read.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Kill ends a process at once, as kill -9 does, and returns when it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.ended
}

func (p *Process) stop() {
	p.once.Do(func() {
		family := p.pids()
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // likewise
		select {
		case <-p.ended:
		case <-time.After(2 * time.Second):
			for _, pid := range family {
				_ = syscall.Kill(pid, syscall.SIGKILL) // the children of one that does not end its own
			}
			<-p.ended
		}
	})
}

// Await asks try again and again until it returns nil.
func (p *Process) Await(ctx context.Context, limit time.Duration, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended (%w): %s", filepath.Base(p.log), errors.Join(p.err, err), p.words())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", filepath.Base(p.log), err, p.words())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// words are the last ones of a process's log.
func (p *Process) words() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// AwaitPort waits until somebody listens.
func (p *Process) AwaitPort(ctx context.Context, addr string) error {
	return p.Await(ctx, 20*time.Second, func() error {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			c.Close()
		}
		return err
	})
}

// Ports finds n ports of loopback that nobody uses.
func Ports(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out, nil
}

// Err is why a process that has ended did not end well.
func (p *Process) Err() error {
	<-p.ended
	if p.err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(p.log), p.err, p.words())
	}
	return nil
}
