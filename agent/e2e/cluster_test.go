package e2e

import (
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rondel-project/rondel/api"
)

func TestCluster_formsAndSeesADeath(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, n := range c {
		// What others tell of themselves comes a second later, or more.
		until(t, soon, n.name+" lists three members, one of them the leader", func(context.Context) error {
			var members []struct{ Name, Status, Role string }
			rondelJSON(t, &members, "members", "-http-addr="+n.url())
			alive, leaders := 0, 0
			for _, m := range members {
				if m.Status == "alive" {
					alive++
				}
				if m.Role == "leader" {
					leaders++
				}
			}
			if len(members) != len(c) || alive != len(c) || leaders != 1 {
				return fmt.Errorf("it is %+v", members)
			}
			return nil
		})
	}

	// How soon that is promised, the tests in fake time show.
	victim := c[0]
	victim.kill(t)
	start := time.Now()
	for _, n := range c.without(victim) {
		n.sees(t, soon, victim.name, "failed")
		until(t, soon, n.name+" writes that into its log", func(context.Context) error {
			for _, line := range n.deaths(t) {
				if strings.Contains(line, "member="+victim.name+" ") {
					return nil
				}
			}
			return fmt.Errorf("its log tells of no such death: %q", n.deaths(t))
		})
	}
	t.Logf("failed everywhere after %s", time.Since(start).Round(time.Millisecond))
	victim.start(t)
	for _, n := range c {
		n.sees(t, soon, victim.name, "alive")
	}
	c.whole(t)
}

func TestStop_comesBackAndLeave_isGone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := create(t, c[0])
	write(t, c[0], id, 1)

	stopped := c[2]
	stopped.signal(t, syscall.SIGTERM)
	if stopped.err != nil {
		t.Errorf("SIGTERM ended the agent with %v, want exit code 0", stopped.err)
	}
	inRing(t, c[0], stopped.name, true)
	read(t, c[1], id, 1)
	write(t, c[1], id, 2)

	stopped.start(t)
	c.whole(t)
	for _, n := range c {
		n.sees(t, soon, stopped.name, "alive")
		read(t, n, id, 2)
	}

	gone := c[2]
	if out, errs, code := rondel(t, "leave", "-http-addr="+gone.url()); code != 0 {
		t.Fatalf("leave: exit code %d: %s%s", code, out, errs)
	}
	gone.wait(t)
	if gone.err != nil {
		t.Errorf("leave ended the agent with %v, want exit code 0", gone.err)
	}
	for _, n := range c.without(gone) {
		until(t, soon, n.name+" sees "+gone.name+" left, or no more", func(ctx context.Context) error {
			if status, err := n.status(ctx, gone.name); err == nil && status != "left" {
				return fmt.Errorf("it is %s", status)
			}
			return nil
		})
		inRing(t, n, gone.name, false)
		read(t, n, id, 2)
	}
}

// inRing waits until the ring has a member, or has it no more.
func inRing(t *testing.T, n *node, member string, want bool) {
	t.Helper()
	until(t, soon, fmt.Sprintf("%s is in the ring of %s: %v", member, n.name, want), func(ctx context.Context) error {
		ring, _, err := n.api.Ring().Get(ctx, api.Wait{})
		if err != nil {
			return err
		}
		for _, m := range ring.Members {
			if m.Name == member {
				if want {
					return nil
				}
				return fmt.Errorf("it is there as %s", m.State)
			}
		}
		if want {
			return fmt.Errorf("it is not there")
		}
		return nil
	})
}

func TestAgent_badStartIsClear(t *testing.T) {
	t.Parallel()
	places := freePlaces(t, 2)
	at, other := places[0], places[1]
	taken, err := net.Listen("tcp", at.http())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() }) // after the subtests, which are parallel
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"taken port":       {append(at.flags(), "-data-dir="+t.TempDir(), "-bootstrap-expect=1"), 1, at.http()},
		"unknown flag":     {[]string{"-dve"}, 2, "-dev"},
		"no such address":  {[]string{"-dev", "-bind=192.0.2.1"}, 1, "192.0.2.1"},
		"join that fails":  {append(other.flags(), "-data-dir="+t.TempDir(), "-join="+other.addr+":2"), 1, other.addr + ":2"},
		"two on one port":  {[]string{"-dev", "-rpc-port=8700"}, 1, "collides"},
		"nowhere to store": {append(other.flags(), "-data-dir="+program, "-bootstrap-expect=1"), 1, program},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, errs, code := rondel(t, append([]string{"agent"}, c.args...)...)
			if code != c.code || !strings.Contains(errs, c.says) {
				t.Errorf("exit code %d, want %d; it should speak of %q:\n%s", code, c.code, c.says, errs)
			}
		})
	}
}
