package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rondel-project/rondel/api"
)

// newDiskCluster starts three agents that keep sessions on disk.
func newDiskCluster(t *testing.T) cluster {
	t.Helper()
	return newCluster(t, withConfig(t, "session {\n  durability = \"disk\"\n}\n"))
}

// killAll is kill -9 of all agents at once.
func (c cluster) killAll(t *testing.T) {
	t.Helper()
	for _, n := range c {
		if err := n.cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatalf("kill %s: %v", n.name, err)
		}
	}
	for _, n := range c {
		n.wait(t)
	}
}

// acked is what writers were promised.
type acked struct {
	mu    sync.Mutex     // guards value
	value map[string]int // the last one acknowledged, by session
}

// promised returns a copy.
func (a *acked) promised() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[string]int, len(a.value))
	for id, v := range a.value {
		out[id] = v
	}
	return out
}

// writeOn has four writers make sessions and write to them through all agents
// until the agents are gone or stop is called, which waits for them.
func (c cluster) writeOn(t *testing.T, a *acked) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	for w := range 4 {
		work.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				n := c[(w+round)%len(c)]
				s, err := n.api.Sessions().Create(ctx, api.SessionCreate{Attributes: map[string]any{"value": 0}})
				if err != nil {
					continue
				}
				a.note(s.ID, 0)
				for v := 1; v <= 5; v++ {
					if _, err := c[(w+v)%len(c)].api.Sessions().Patch(ctx, s.ID, map[string]any{"value": v}); err != nil {
						break
					}
					a.note(s.ID, v)
				}
			}
		})
	}
	return func() { cancel(); work.Wait() }
}

// settled waits until no member has a write that was acknowledged without all its
// copies, as it is where one of them was slow: one disk alone may lack that.
func (c cluster) settled(t *testing.T) {
	t.Helper()
	for _, n := range c {
		until(t, later, n.name+" has all writes in all copies", func(ctx context.Context) error {
			self, err := n.api.Agent().Self(ctx)
			if err != nil {
				return err
			}
			if left := self.Stats["sessions"]["records_unsettled"]; left != "0" {
				return fmt.Errorf("%q are not", left)
			}
			return nil
		})
	}
}

func (a *acked) note(id string, v int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.value[id] = v
}

// holds reads every session through every agent. A write that was under way
// when all died may show or not; one that was acknowledged must.
func (c cluster) holds(t *testing.T, promised map[string]int) {
	t.Helper()
	for id, want := range promised {
		for _, n := range c {
			until(t, soon, "a read through "+n.name+" is answered", func(ctx context.Context) error {
				got, err := value(ctx, n, id)
				switch {
				case api.IsNotFound(err):
					t.Fatalf("through %s a session is gone of which value %d was acknowledged", n.name, want)
				case err == nil && (got < want || got > want+1):
					t.Fatalf("through %s a session holds %d, and %d was acknowledged", n.name, got, want)
				}
				return err
			})
		}
	}
}

func TestDisk_sessionsOutliveAllAgents(t *testing.T) {
	t.Parallel()
	c := newDiskCluster(t)
	a := &acked{value: map[string]int{}}
	for kills := range 2 {
		stop := c.writeOn(t, a)
		before := len(a.promised())
		until(t, later, "sessions were written", func(context.Context) error {
			if n := len(a.promised()) - before; n < 100 {
				return fmt.Errorf("%d", n)
			}
			return nil
		})
		c.killAll(t)
		stop()
		start := time.Now()
		for _, n := range c {
			n.start(t)
		}
		promised := a.promised()
		c.holds(t, promised)
		t.Logf("kill %d: all %d sessions read %s after the start", kills+1, len(promised), time.Since(start).Round(time.Millisecond))
		c.whole(t)
	}
}

func TestDisk_damageIsToldAndNotServed(t *testing.T) {
	t.Parallel()
	c := newDiskCluster(t)
	a := &acked{value: map[string]int{}}
	stop := c.writeOn(t, a)
	until(t, later, "sessions were written", func(context.Context) error {
		if n := len(a.promised()); n < 100 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	stop()
	c.settled(t)
	c.killAll(t)
	flip(t, c[0])
	cut(t, c[1])
	for _, n := range c {
		n.start(t)
	}
	c.holds(t, a.promised())
	c.whole(t)
	for i, n := range c {
		text, err := os.ReadFile(n.log)
		if err != nil {
			t.Fatal(err)
		}
		told := 0
		for _, line := range strings.Split(string(text), "\n") {
			if strings.Contains(line, "[ERROR]") && strings.Contains(line, "damaged") && strings.Contains(line, "file=") && strings.Contains(line, "offset=") {
				told++
			}
		}
		if want := map[int]int{0: 1, 1: 1, 2: 0}[i]; told != want {
			t.Errorf("%s told of damage with file and offset %d times, want %d", n.name, told, want)
		}
	}

	// What was made whole again is as good as any: the only whole one dies for good.
	c.settled(t)
	c.killAll(t)
	for _, n := range c[:2] {
		n.start(t)
	}
	c[:2].holds(t, a.promised())
}

// logOf returns the file that a member's log ends in, and how much of it is
// written to.
func logOf(t *testing.T, n *node) (file string, b []byte, used int) {
	t.Helper()
	var list []string
	err := filepath.WalkDir(filepath.Join(filepath.Dir(n.log), n.name, "sessions"), func(path string, _ os.DirEntry, err error) error {
		if filepath.Ext(path) == ".wal" {
			list = append(list, path)
		}
		return err
	})
	if err != nil || len(list) == 0 {
		t.Fatalf("the log of %s: %v, %v", n.name, list, err)
	}
	file = list[len(list)-1]
	if b, err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	used = len(bytes.TrimRight(b, "\x00"))
	if used < 1000 {
		t.Fatalf("the log of %s holds %d bytes", n.name, used)
	}
	return file, b, used
}

// flip turns a bit in the middle of the log, of what was written there: between
// that are bytes that mean nothing (padding, the log's own time stamps), and
// nobody has to notice when those change.
func flip(t *testing.T, n *node) {
	t.Helper()
	file, b, used := logOf(t, n)
	attribute := []byte("value")
	at := bytes.LastIndex(b[:used/2], attribute)
	if at < 0 {
		t.Fatalf("the log of %s names no attribute %q before %d", n.name, attribute, used/2)
	}
	b[at] ^= 0x10
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func cut(t *testing.T, n *node) {
	t.Helper()
	file, _, used := logOf(t, n)
	if err := os.Truncate(file, int64(used-used/4)); err != nil {
		t.Fatal(err)
	}
}
