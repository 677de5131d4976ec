package agent_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/rondel-project/rondel/agent"
	"github.com/rondel-project/rondel/agent/agenttest"
	"github.com/rondel-project/rondel/agent/config"
)

func TestStart_settingsMustAgree(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*config.Runtime)
		wants  []string
	}{
		"on_partition":  {func(c *config.Runtime) { c.Cluster.OnPartition = config.Refuse }, []string{"session.on_partition", "refuse", "serve"}},
		"replicas":      {func(c *config.Runtime) { c.Cluster.Replicas = 1 }, []string{"session.replicas", "1", "2"}},
		"reap_after":    {func(c *config.Runtime) { c.Cluster.ReapAfter = time.Hour }, []string{"ring.reap_after", "1h0m0s", "10m0s"}},
		"stall_timeout": {func(c *config.Runtime) { c.Cluster.StallTimeout = time.Hour }, []string{"ring.stall_timeout", "1h0m0s", "30s"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := agenttest.NewCluster(t, 3)
				m := c.Add(tc.change)
				c.Leaving(m.Name)
				err := m.Wait()
				if !errors.Is(err, agent.ErrSettings) {
					t.Fatalf("the newcomer ended with %v", err)
				}
				for _, w := range tc.wants {
					if !strings.Contains(err.Error(), w) {
						t.Errorf("%q does not name %q", err, w)
					}
				}
				newWatch(t, c).write(5 * time.Second)
				c.WaitHealthy(time.Minute)
			})
		})
	}
}

func TestStart_oneAgentPerDataDirectory(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		dir := t.TempDir()
		c := agenttest.NewCluster(t, 1, agenttest.OnDisk(dir))
		_, err := c.TryStart("m2", func(cfg *config.Runtime) { cfg.Node.DataDir = filepath.Join(dir, "m1") })
		if err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("a second agent on one data directory: %v", err)
		}
		newWatch(t, c).write(time.Second)
	})
}

func TestStart_keepsItsPlace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3, agenttest.OnDisk(t.TempDir()))
		names := func() (out []string) {
			for _, m := range c.Other().Ring().Members {
				out = append(out, m.Name)
			}
			return out
		}
		before := names()
		for _, name := range before {
			c.Restart(name, true)
			c.WaitHealthy(time.Minute)
		}
		if after := names(); !slices.Equal(before, after) {
			t.Errorf("the order was %v and is %v", before, after)
		}
		// Without its directory it is somebody else of the same name.
		c.Crash("m2")
		c.WaitDown("m2", 10*time.Second)
		c.Restart("m2", false)
		c.WaitHealthy(2 * time.Minute)
		newWatch(t, c).write(time.Second)
	})
}

func TestStart_joinFailsWhereNobodyAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewEmptyCluster(t)
		m := c.Add(func(cfg *config.Runtime) {
			cfg.Join.Retry, cfg.Join.Once = nil, []string{"10.0.0.77:8701", "10.0.0.78:8701"}
		})
		c.Leaving(m.Name)
		err := m.Wait()
		if err == nil || !strings.Contains(err.Error(), "10.0.0.77:8701") || !strings.Contains(err.Error(), "10.0.0.78:8701") {
			t.Errorf("-join where nobody is: %v", err)
		}
	})
}

// Two clusters on one network stay two, though they know of each other.
func TestStart_strangersStayApart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		m := c.Add(func(cfg *config.Runtime) { cfg.Join.BootstrapExpect, cfg.Join.Retry = 1, nil })
		c.Await("it is a cluster of its own", 10*time.Second, func() bool { return len(m.Ring().Members) == 1 })
		if a := m.Do("PUT", "/v1/agent/join/10.0.0.1:8701", nil); a.OK() {
			t.Errorf("a member of another cluster joins: %s", a)
		}
		time.Sleep(10 * time.Second)
		for _, other := range c.Members() {
			want := 3
			if other == m {
				want = 1
			}
			if got := len(other.Ring().Members); got != want {
				t.Errorf("%s has %d members in its ring", other.Name, got)
			}
		}
	})
}

func loopback(t *testing.T, dir string) config.Runtime {
	t.Helper()
	loaded, err := config.Load(config.Options{
		Host: config.Host{Name: "here"},
		Flags: []config.Setting{
			{Option: "data_dir", Value: dir}, {Option: "bind", Value: "127.0.0.1"}, {Option: "client", Value: "127.0.0.1"},
			{Option: "bootstrap_expect", Value: "1"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := loaded.Runtime
	any := netip.MustParseAddrPort("127.0.0.1:0")
	cfg.Network.HTTP, cfg.Network.RPC, cfg.Network.Gossip, cfg.Proxy.HTTP = any, any, any, any
	return cfg
}

// On sockets and files: a port that is taken is named with its option, and
// nothing is left behind.
func TestNew_leavesNothingBehind(t *testing.T) {
	for name, tc := range map[string]struct {
		port   func(*config.Runtime) *netip.AddrPort
		option string
	}{
		"rpc":    {func(c *config.Runtime) *netip.AddrPort { return &c.Network.RPC }, "-rpc-port"},
		"http":   {func(c *config.Runtime) *netip.AddrPort { return &c.Network.HTTP }, "-http-port"},
		"proxy":  {func(c *config.Runtime) *netip.AddrPort { return &c.Proxy.HTTP }, "-proxy-port"},
		"gossip": {func(c *config.Runtime) *netip.AddrPort { return &c.Network.Gossip }, "-gossip-port"},
	} {
		t.Run(name, func(t *testing.T) {
			defer noneLeft(t, goleak.IgnoreCurrent())
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			dir := t.TempDir()
			cfg := loopback(t, dir)
			*tc.port(&cfg) = l.Addr().(*net.TCPAddr).AddrPort()
			if _, err = agent.New(cfg, hclog.NewNullLogger(), nil); err == nil || !strings.Contains(err.Error(), tc.option) {
				t.Fatalf("New with a taken port: %v, want an error that names %s", err, tc.option)
			}
			// The directory is free again, and so are the other ports.
			*tc.port(&cfg) = netip.MustParseAddrPort("127.0.0.1:0")
			runOnce(t, cfg)
		})
	}
}

// noneLeft waits until there are no goroutines but those that there may be. A
// busy machine lets some that have nothing left to do end later.
func noneLeft(t *testing.T, but goleak.Option) {
	t.Helper()
	err := goleak.Find(but)
	for end := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(end); {
		err = goleak.Find(but) // it waits a little itself
	}
	if err != nil {
		t.Error(err)
	}
}

// runOnce runs an agent until it serves, and ends it.
func runOnce(t *testing.T, cfg config.Runtime) {
	t.Helper()
	a, err := agent.New(cfg, hclog.NewNullLogger(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stop, done := context.WithTimeout(ctx, 20*time.Second)
	defer done()
	if err := a.Shutdown(stop, false); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}

func TestNew_brokenDataDirectory(t *testing.T) {
	t.Parallel()
	id := "0123456789abcdef0123456789abcdef\n"
	for name, tc := range map[string]struct {
		files map[string]string
		wants []string
	}{
		"node id":             {map[string]string{"node-id": "garbage"}, []string{"node-id", "damaged"}},
		"empty node id":       {map[string]string{"node-id": ""}, []string{"node-id", "damaged"}},
		"raft without a node": {map[string]string{"raft/x": "x"}, []string{"node-id", "missing"}},
		"cluster id":          {map[string]string{"node-id": id, "cluster-id": "garbage"}, []string{"cluster-id", "damaged"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for f, text := range tc.files {
				path := filepath.Join(dir, f)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			a, err := agent.New(loopback(t, dir), hclog.NewNullLogger(), nil)
			if err == nil {
				t.Fatalf("an agent came up: %v", a)
			}
			for _, w := range append(tc.wants, dir) {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not name %q", err, w)
				}
			}
			for f, text := range tc.files {
				if b, err := os.ReadFile(filepath.Join(dir, f)); err != nil || string(b) != text {
					t.Errorf("%s has changed to %q (%v)", f, b, err)
				}
			}
		})
	}
}
