//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rondel-project/rondel/api"
)

// agent is one agent: its machine, and its process while that runs.
type agent struct {
	i     int
	name  string
	api   *api.Client
	args  []string
	log   string
	cmd   *exec.Cmd
	ended chan struct{}
}

// cluster is all agents on their network.
type cluster struct {
	net    *network
	dir    string
	bin    string
	agents []*agent
}

// newCluster starts n agents in one mode and waits until they are healthy.
func newCluster(ctx context.Context, net *network, bin, dir string, n int, m mode) (*cluster, error) {
	c := &cluster{net: net, dir: dir, bin: bin}
	conf := filepath.Join(dir, "agent.hcl")
	text := fmt.Sprintf("session {\n  on_partition = %q\n  durability = %q\n}\n", m.partition, m.durability)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, err
	}
	for i := range n {
		a := &agent{i: i, name: fmt.Sprintf("m%d", i+1), log: filepath.Join(dir, fmt.Sprintf("m%d.log", i+1))}
		a.args = []string{
			"agent", "-node=" + a.name, "-data-dir=" + filepath.Join(dir, a.name), "-bind=" + address(i), "-client=" + address(i),
			"-bootstrap-expect=3", "-config-file=" + conf,
		}
		for k := range n {
			if k != i {
				a.args = append(a.args, "-retry-join="+address(k))
			}
		}
		var err error
		if a.api, err = api.NewClient(api.Config{Address: "http://" + address(i) + ":8700", Timeout: 4 * time.Second}); err != nil {
			return nil, err
		}
		c.agents = append(c.agents, a)
		if err := c.start(a); err != nil {
			return nil, errors.Join(err, c.stop())
		}
	}
	if err := c.healthy(ctx, time.Minute); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

func (c *cluster) start(a *agent) error {
	log, err := os.OpenFile(a.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	// ip execs the agent, so that the process is ours to end.
	a.cmd = exec.Command("ip", append([]string{"netns", "exec", c.net.names[a.i], c.bin}, a.args...)...)
	a.cmd.Stdout, a.cmd.Stderr = log, log
	if err := a.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", a.name, err)
	}
	ended, cmd := make(chan struct{}), a.cmd
	a.ended = ended
	go func() {
		_ = cmd.Wait() // how it ends is up to whoever ends it
		close(ended)
	}()
	return nil
}

// kill is kill -9, and returns when the process is gone.
func (c *cluster) kill(a *agent) {
	_ = a.cmd.Process.Kill() // it may have ended already
	<-a.ended
}

func (c *cluster) terminate(a *agent) error {
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-a.ended:
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("%s does not end", a.name)
	}
}

// leave takes a member out of the cluster for good, and waits for its process.
func (c *cluster) leave(ctx context.Context, a *agent) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	long, err := api.NewClient(api.Config{Address: "http://" + address(a.i) + ":8700", Timeout: 2 * time.Minute})
	if err != nil {
		return err
	}
	if err := long.Agent().Leave(ctx, false); err != nil {
		return fmt.Errorf("%s leaves: %w", a.name, err)
	}
	select {
	case <-a.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s has left, and does not end", a.name)
	}
}

func (c *cluster) pause(a *agent, on bool) error {
	s := syscall.SIGCONT
	if on {
		s = syscall.SIGSTOP
	}
	return a.cmd.Process.Signal(s)
}

func (c *cluster) running(a *agent) bool {
	select {
	case <-a.ended:
		return false
	default:
		return true
	}
}

func (c *cluster) stop() error {
	for _, a := range c.agents {
		if a.cmd != nil && a.ended != nil {
			c.kill(a)
		}
	}
	return nil
}

// healthy waits until every agent says that all copies are where they belong.
func (c *cluster) healthy(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for _, a := range c.agents {
		if err := c.wait(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) wait(ctx context.Context, a *agent) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		h, err := a.api.Health().Agent(ctx)
		if err == nil && h.Healthy {
			return nil
		}
		why := fmt.Sprint(err)
		if h != nil {
			why = fmt.Sprint(h.Reasons)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not healthy: %s", a.name, why)
		case <-tick.C:
		}
	}
}

func (c *cluster) named(name string) *agent {
	for _, a := range c.agents {
		if a.name == name {
			return a
		}
	}
	return nil
}

// leader asks until somebody knows.
func (c *cluster) leader(ctx context.Context) (*agent, error) {
	for range 100 {
		for _, a := range c.agents {
			if !c.running(a) {
				continue
			}
			members, err := a.api.Agent().Members(ctx)
			if err != nil {
				continue
			}
			for _, m := range members {
				if m.Role == "leader" && m.Status == "alive" {
					return c.named(m.Name), nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil, errors.New("nobody knows the leader")
}

// locate says who owns a session and who would take over.
func (c *cluster) locate(ctx context.Context, id string) (owner *agent, successors []*agent, err error) {
	for _, a := range c.agents {
		if !c.running(a) {
			continue
		}
		at, err := a.api.Ring().Locate(ctx, id)
		if err != nil {
			continue
		}
		for _, s := range at.Successors {
			successors = append(successors, c.named(s))
		}
		return c.named(at.Owner), successors, nil
	}
	return nil, nil, errors.New("nobody knows whose the session is")
}
