package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rondel-project/rondel/api"
)

// setRoom sets how large the agent's files may grow from now on: the kernel
// refuses to write beyond that, as it does on a disk that is full. A new file of
// the log of sessions is made larger than any limit used here.
func (n *node) setRoom(t *testing.T, bytes uint64) {
	t.Helper()
	limit := unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}
	var was unix.Rlimit
	if err := unix.Prlimit(n.cmd.Process.Pid, unix.RLIMIT_FSIZE, nil, &was); err != nil {
		t.Fatal(err)
	}
	limit.Max = was.Max
	limit.Cur = min(limit.Cur, was.Max)
	if err := unix.Prlimit(n.cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		t.Fatal(err)
	}
}

// withoutDisk waits until the agent says that sessions are in memory only, with
// the reason.
func (n *node) withoutDisk(t *testing.T) {
	t.Helper()
	until(t, soon, n.name+" says that sessions are not on disk", func(ctx context.Context) error {
		h, err := n.api.Health().Agent(ctx)
		if err != nil {
			return err
		}
		for _, reason := range h.Reasons {
			if !h.Healthy && strings.Contains(reason, "not on disk") && strings.Contains(reason, "file too large") {
				return nil
			}
		}
		return fmt.Errorf("healthy %v: %v", h.Healthy, h.Reasons)
	})
}

// fill writes more than the room that setRoom leaves.
func (a *acked) fill(t *testing.T, c cluster, room int) {
	t.Helper()
	const size = 64 << 10
	for i := range room/size + 1 {
		until(t, soon, "a large session is made", func(ctx context.Context) error {
			s, err := c[i%len(c)].api.Sessions().Create(ctx, api.SessionCreate{Attributes: map[string]any{
				"value": i, "large": strings.Repeat("x", size),
			}})
			if err == nil {
				a.note(s.ID, i)
			}
			return err
		})
	}
}

func TestDisk_fullDiskAndRoomAgain(t *testing.T) {
	t.Parallel()
	const room = 1 << 20
	c := newDiskCluster(t)
	a := &acked{value: map[string]int{}}
	full := c[1]
	full.setRoom(t, room)
	a.fill(t, c, room)
	full.withoutDisk(t)

	// All goes on, through and on that member too.
	stop := c.writeOn(t, a)
	before := len(a.promised())
	until(t, later, "sessions were written", func(context.Context) error {
		if n := len(a.promised()) - before; n < 30 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	stop()
	c.holds(t, a.promised())
	until(t, soon, "the others are not to blame", func(ctx context.Context) error {
		h, err := c[0].api.Health().Agent(ctx)
		if err == nil && !h.Healthy {
			err = errors.New(strings.Join(h.Reasons, "; "))
		}
		return err
	})

	// Killed like this, it comes back with less than was acknowledged, and does
	// not serve that.
	full.kill(t)
	full.start(t)
	c.whole(t)
	c.holds(t, a.promised())

	// With room again it is as good as the others: it alone brings all back.
	full.setRoom(t, room)
	a.fill(t, c, room)
	full.withoutDisk(t)
	full.setRoom(t, unix.RLIM_INFINITY)
	c.settled(t)
	c.whole(t)
	c.killAll(t)
	for _, n := range c {
		if n != full {
			forget(t, n)
		}
	}
	for _, n := range c {
		n.start(t)
	}
	c.holds(t, a.promised())
}

// forget takes from a member what it has on disk of sessions.
func forget(t *testing.T, n *node) {
	t.Helper()
	dir := filepath.Join(filepath.Dir(n.log), n.name, "sessions")
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}
