package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rondel-project/rondel/api"
)

// The bounds of waiting: generous, as the machine may be busy.
const (
	soon      = time.Minute
	later     = 2 * time.Minute
	pollEvery = 20 * time.Millisecond
)

// node is one agent: its place, and its process while that runs.
type node struct {
	name string
	at   place
	args []string
	log  string // path
	api  *api.Client

	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of Wait, once ended is closed
}

func (n *node) url() string { return "http://" + n.at.http() }

// start runs the agent's process.
func (n *node) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program, n.args...)
	cmd.Env = environment()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes()
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		// The kernel may end a child together with the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			n.err = cmd.Wait()
			close(ended)
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	n.cmd, n.ended = cmd, ended
}

// environment is this process's without what would configure an agent.
func environment() []string {
	var out []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "RONDEL_") {
			out = append(out, e)
		}
	}
	return out
}

// signal sends a signal and waits for the end of the process.
func (n *node) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("signal %s: %v", n.name, err)
	}
	n.wait(t)
}

// kill is kill -9.
func (n *node) kill(t *testing.T) {
	t.Helper()
	n.signal(t, syscall.SIGKILL)
}

// wait waits for the end of the process.
func (n *node) wait(t *testing.T) {
	t.Helper()
	select {
	case <-n.ended:
	case <-time.After(later):
		t.Fatalf("%s has not ended", n.name)
	}
}

// cleanUp ends the process if it runs.
func (n *node) cleanUp() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Kill() // it may have ended already
	<-n.ended
}

// tail is the end of the agent's log.
func (n *node) tail() string {
	text, err := os.ReadFile(n.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-25):], "\n")
}

// deaths are what the agent's log says of members that failed, however soon they
// were back.
func (n *node) deaths(t *testing.T) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(n.log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "member failed") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// cluster is three agents.
type cluster []*node

// withConfig writes a configuration file and returns the flag that names it.
func withConfig(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent.hcl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "-config-file=" + file
}

// newCluster starts three agents, with further flags if there are any, and waits
// until they are one cluster.
func newCluster(t *testing.T, flags ...string) cluster {
	t.Helper()
	places := freePlaces(t, 3)
	dir := t.TempDir()
	var c cluster
	for i, at := range places {
		n := &node{name: fmt.Sprintf("m%d", i+1), at: at}
		n.log = filepath.Join(dir, n.name+".log")
		n.args = append([]string{"agent", "-node=" + n.name, "-data-dir=" + filepath.Join(dir, n.name), "-bootstrap-expect=3"}, at.flags()...)
		n.args = append(n.args, flags...)
		for j, other := range places {
			if j != i {
				n.args = append(n.args, "-retry-join="+other.gossip())
			}
		}
		client, err := api.NewClient(api.Config{Address: n.url()})
		if err != nil {
			t.Fatal(err)
		}
		n.api = client
		c = append(c, n)
	}
	t.Cleanup(func() {
		for _, n := range c {
			n.cleanUp()
			n.api.Close()
			if t.Failed() {
				t.Logf("the end of the log of %s:\n%s", n.name, n.tail())
			}
		}
	})
	for _, n := range c {
		n.start(t)
	}
	c.whole(t)
	return c
}

// whole waits until every agent says that the cluster is.
func (c cluster) whole(t *testing.T) {
	t.Helper()
	for _, n := range c {
		until(t, later, n.name+" says that the cluster is whole", func(ctx context.Context) error {
			h, err := n.api.Health().Agent(ctx)
			if err != nil {
				return err
			}
			if !h.Healthy {
				return errors.New(strings.Join(h.Reasons, "; "))
			}
			return nil
		})
	}
}

// without is the agents but one.
func (c cluster) without(gone *node) cluster {
	var out cluster
	for _, n := range c {
		if n != gone {
			out = append(out, n)
		}
	}
	return out
}

func (c cluster) named(t *testing.T, name string) *node {
	t.Helper()
	for _, n := range c {
		if n.name == name {
			return n
		}
	}
	t.Fatalf("no agent is named %q", name)
	return nil
}

// status is what an agent says a member is.
func (n *node) status(ctx context.Context, member string) (string, error) {
	all, err := n.api.Agent().Members(ctx)
	if err != nil {
		return "", err
	}
	for _, m := range all {
		if m.Name == member {
			return m.Status, nil
		}
	}
	return "", fmt.Errorf("%s does not know %s", n.name, member)
}

// sees waits until an agent says that a member has a status.
func (n *node) sees(t *testing.T, within time.Duration, member, status string) {
	t.Helper()
	until(t, within, fmt.Sprintf("%s sees %s %s", n.name, member, status), func(ctx context.Context) error {
		got, err := n.status(ctx, member)
		if err == nil && got != status {
			err = fmt.Errorf("it is %s", got)
		}
		return err
	})
}

// until asks again and again until there is no error.
func until(t *testing.T, within time.Duration, what string, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var last error
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("within %s it did not come to this: %s: %v", within, what, last)
		case <-tick.C:
		}
	}
}

// rondel runs a command and returns what it printed.
func rondel(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), later)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = environment()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// rondelJSON runs a command that must succeed, with -format=json.
func rondelJSON(t *testing.T, into any, args ...string) {
	t.Helper()
	out, errs, code := rondel(t, append(args, "-format=json")...)
	if code != 0 {
		t.Fatalf("rondel %s: exit code %d: %s", strings.Join(args, " "), code, errs)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("rondel %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
