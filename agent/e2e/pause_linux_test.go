package e2e

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rondel-project/rondel/api"
)

// counter is a session whose value is increased by one again and again.
type counter struct {
	id    string
	acked atomic.Int64
}

// count increases the value through one agent after the other, each time under a
// key of its own and again until that is acknowledged, until stop is closed: it
// must be one more each time. Less is a lost write, more one that was made twice.
func (c cluster) count(t *testing.T, k *counter, stop <-chan struct{}) {
	at := 0
	for n := int64(1); ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(pollEvery):
		}
		var last error
		for until := time.Now().Add(later); ; at++ {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			m, err := c[at%len(c)].api.Sessions().Incr(ctx, k.id, "value", 1, api.WithIdempotencyKey(strconv.FormatInt(n, 10)))
			cancel()
			if err == nil {
				if got, _ := m.Value.Int64(); got != n {
					t.Errorf("1 added %d times, through %s: %d", n, c[at%len(c)].name, got)
					return
				}
				break
			}
			if last = err; t.Context().Err() != nil || time.Now().After(until) {
				t.Errorf("1 added for the %dth time: %v", n, last)
				return
			}
		}
		k.acked.Store(n)
	}
}

// look reads the value through an agent: it may say that it cannot tell, or that
// the answer is stale, but never show less than was acknowledged before.
func (k *counter) look(ctx context.Context, t *testing.T, n *node) (stale bool) {
	least := k.acked.Load()
	s, err := n.api.Sessions().Get(ctx, k.id)
	if api.IsNotFound(err) {
		t.Errorf("%s says that there is no session to which 1 was added %d times", n.name, least)
	}
	if err != nil {
		return false
	}
	if got, err := strconv.ParseInt(string(s.Attributes["value"]), 10, 64); !s.Stale && (err != nil || got < least) {
		t.Errorf("%s shows %s where %d was acknowledged before it was asked", n.name, s.Attributes["value"], least)
	}
	return s.Stale
}

// A process that stands still for ten seconds, and does not know it: others take
// its place, and what it shows when it wakes is what they have done meanwhile.
func TestPause_ofTenSeconds(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"serve", "refuse"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, withConfig(t, fmt.Sprintf("session {\n  on_partition = %q\n}\n", mode)))
			var all []*counter
			for _, n := range c {
				for range 2 {
					id := create(t, n)
					write(t, n, id, 0)
					all = append(all, &counter{id: id})
				}
			}
			stop := make(chan struct{})
			var work sync.WaitGroup
			for _, k := range all {
				work.Go(func() { c.count(t, k, stop) })
			}
			for _, leads := range []bool{false, true} {
				c.moreOf(t, all)
				var victim *node
				until(t, soon, "the leader is known", func(ctx context.Context) error {
					r, _, err := c[0].api.Ring().Get(ctx, api.Wait{})
					for _, n := range c {
						if err == nil && (n.name == r.Leader) == leads {
							victim = n
						}
					}
					if victim == nil {
						return fmt.Errorf("leader %q: %v", r.Leader, err)
					}
					return err
				})
				c.pause(t, victim, all)
			}
			close(stop)
			work.Wait()
			for _, k := range all {
				for _, n := range c {
					read(t, n, k.id, int(k.acked.Load()))
				}
			}
		})
	}
}

// moreOf waits until every counter was increased some more.
func (c cluster) moreOf(t *testing.T, all []*counter) {
	t.Helper()
	for _, k := range all {
		from := k.acked.Load()
		until(t, later, "a session is written to", func(context.Context) error {
			if n := k.acked.Load() - from; n < 5 {
				return fmt.Errorf("%d times", n)
			}
			return nil
		})
	}
}

// pause stops an agent's process for ten seconds, and asks it at once when it
// goes on: what it was asked while it stood still, and more.
func (c cluster) pause(t *testing.T, victim *node, all []*counter) {
	t.Helper()
	to := func(s syscall.Signal) {
		t.Helper()
		if err := victim.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	to(syscall.SIGSTOP)
	over := time.After(10 * time.Second)
	c.moreOf(t, all)
	<-over

	reading, enough := context.WithTimeout(t.Context(), later)
	defer enough()
	var work sync.WaitGroup
	var stale atomic.Int64
	for _, k := range all {
		work.Go(func() {
			for reading.Err() == nil {
				if k.look(reading, t, victim) {
					stale.Add(1)
				}
				select {
				case <-reading.Done():
				case <-time.After(pollEvery / 4):
				}
			}
		})
	}
	c.moreOf(t, all) // while the questions wait at its door
	to(syscall.SIGCONT)
	c.whole(t)
	c.moreOf(t, all)
	enough()
	work.Wait()
	t.Logf("%s was asked as it woke; answers that it called stale: %d", victim.name, stale.Load())
}
