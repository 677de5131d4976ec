package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrMissing says that a peer's program is not on this machine.
var ErrMissing = errors.New("not on this machine")

// Setting is where a peer is to stand.
type Setting struct {
	Addr      string   // where it listens
	TLS       string   // and with TLS; empty: not at all
	Cert, Key string   // files for that
	Instances []string // their addresses; the first one's name is b001
	Threads   int
	CPU       int // where it may run; -1: anywhere
}

// Peer is one proxy in one configuration.
type Peer struct {
	Name string
	// start starts the peer.
	start func(r *Runner, s *Setting) (Program, error)
	// Rondel is whether it is one, and has what only Rondel has.
	Rondel bool
}

// Start starts a peer and waits until it listens.
func (p Peer) Start(ctx context.Context, r *Runner, s Setting) (*Process, error) {
	program, err := p.start(r, &s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	program.Name, program.CPU = slug(p.Name), s.CPU
	proc, err := r.Start(program)
	if err != nil {
		return nil, err
	}
	for _, addr := range []string{s.Addr, s.TLS} {
		if addr == "" {
			continue
		}
		if err := proc.AwaitPort(ctx, addr); err != nil {
			return nil, err
		}
	}
	return proc, nil
}

// slug makes a name of a peer or case good for files.
func slug(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name)
}

// Find looks for a program, in a cache of programs first, then where the system has
// its servers.
func Find(name string) (string, error) {
	if cache, err := os.UserCacheDir(); err == nil {
		if path, err := exec.LookPath(filepath.Join(cache, "rondel-bench", "bin", name)); err == nil {
			return path, nil
		}
	}
	for _, path := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
		if path, err := exec.LookPath(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is %w", name, ErrMissing)
}

// write writes a configuration.
func (r *Runner) write(name, text string) (string, error) {
	path := filepath.Join(r.Dir, name)
	return path, os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // workers of nginx may run as somebody else
}

// InstanceName is what instance i calls itself.
func InstanceName(i int) string { return fmt.Sprintf("b%03d", i+1) }

// lines makes one line for each instance, from its name and its address.
func lines(instances []string, form string) string {
	var b strings.Builder
	for i, addr := range instances {
		b.WriteString(strings.NewReplacer("NAME", InstanceName(i), "ADDR", addr).Replace(form))
	}
	return b.String()
}
