package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Kind is what a process is.
type Kind string

// The kinds there are.
const (
	Agent Kind = "agent"
	Shop  Kind = "shop"
)

// Process is one process of the stage. A restart makes a new one.
type Process struct {
	Kind  Kind
	Name  string
	Place Place
	Args  []string // without the program
	PID   int

	program string
	log     string // path
	ended   chan struct{}
	state   *os.ProcessState // once ended is closed
}

// Command is the command line that starts the process, to copy.
func (p *Process) Command() string {
	words := []string{quote(p.program)}
	for _, a := range p.Args {
		words = append(words, quote(a))
	}
	return strings.Join(words, " ")
}

func quote(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("-_=:/.,+@%", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Ended is closed when the process is no more.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Alive reports whether the process runs.
func (p *Process) Alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Fate says how a process that has ended did.
func (p *Process) Fate() string { return p.state.String() }

// start starts the process; ended is called after it has.
func (p *Process) start(ended func(*Process)) error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(p.program, p.Args...)
	cmd.Env = environment()
	cmd.Dir = filepath.Dir(p.log)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes()

	p.ended = make(chan struct{})
	started := make(chan error, 1)
	go func() {
		// The kernel ends a child when the thread that started it ends: this
		// one stays as long as the child does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.PID = cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // how it ended is in the state
		p.state = cmd.ProcessState
		close(p.ended)
		ended(p)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	return nil
}

// kill ends the process as kill -9 does, and waits until it has.
func (p *Process) kill(ctx context.Context) error {
	if !p.Alive() {
		return nil
	}
	child, err := os.FindProcess(p.PID)
	if err != nil {
		return err
	}
	if err := child.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s (process %d): %w", p.Name, p.PID, err)
	}
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("kill %s (process %d): it has not ended: %w", p.Name, p.PID, context.Cause(ctx))
	}
}

// tail returns the last lines of the process's log.
func (p *Process) tail(lines int) string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}

// environment is this process's without what would configure an agent.
func environment() []string {
	var out []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "RONDEL_") {
			out = append(out, entry)
		}
	}
	return out
}

// killTime bounds the wait for a killed process: the kernel may have to finish
// a write for it.
const killTime = 10 * time.Second
