package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondel-project/rondel/api"
)

// peakMemory is the most memory that the agent's process has had.
func (n *node) peakMemory(t *testing.T) (bytes int) {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			if _, err := fmt.Sscan(text, &bytes); err != nil {
				t.Fatal(err)
			}
		}
	}
	return bytes << 10
}

// states are those of the members in the ring, as the agent sees them.
func (n *node) states(t *testing.T) (text string) {
	t.Helper()
	until(t, soon, n.name+" shows the ring", func(ctx context.Context) error {
		r, _, err := n.api.Ring().Get(ctx, api.Wait{})
		if err != nil {
			return err
		}
		text = ""
		for _, m := range r.Members {
			text += fmt.Sprint(m.Name, " ", m.State, ", ")
		}
		return nil
	})
	return text
}

// A hundred writers of a mebibyte each: every answer says clearly what became of
// it, small reads go on, nobody is taken for dead, and memory stays bounded.
func TestCase_D22_manyLargeWritersAtOnce(t *testing.T) {
	t.Parallel()
	// On a slow machine all are late now. The usual profile would take that for death.
	c := newCluster(t, "-profile=wan")
	small := create(t, c[0])
	write(t, c[0], small, 1)
	before := make([]string, len(c))
	deaths := make([]int, len(c)) // seen until then
	for i, n := range c {
		before[i], deaths[i] = n.states(t), len(n.deaths(t))
	}
	const writers, size = 100, 1<<20 - 4096
	// The usual client gives up before a busy machine has worked all off.
	patient := make([]*api.Client, len(c))
	for i, n := range c {
		var err error
		if patient[i], err = api.NewClient(api.Config{Address: n.url(), Timeout: later}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(patient[i].Close)
	}
	ids := make([]string, writers)
	for i := range ids {
		ids[i] = create(t, c[i%len(c)])
	}
	var refused atomic.Int64
	var work sync.WaitGroup
	for w := range writers {
		work.Go(func() {
			body := bytes.Repeat([]byte{byte(w)}, size)
			for at, until := w, time.Now().Add(2*later); ; at++ {
				_, err := patient[at%len(c)].Sessions().PutAttribute(t.Context(), ids[w], "v", body, "application/octet-stream")
				if err == nil {
					return
				}
				var op *net.OpError // the client waits less long for a connection than for its answer
				undialled := errors.As(err, &op) && op.Op == "dial"
				told := api.HasStatus(err, http.StatusServiceUnavailable) || api.HasStatus(err, http.StatusGatewayTimeout)
				if !told && !undialled || time.Now().After(until) {
					t.Errorf("a large write: %v", err)
					return
				}
				refused.Add(1)
			}
		})
	}
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }()
	reads := 0
	for busy := true; busy; {
		select {
		case <-done:
			busy = false
		case <-time.After(pollEvery):
			c[reads%len(c)].readWithin(t, 2*later, small, 1)
			reads++
		}
	}
	for i, n := range c {
		for w, id := range ids {
			var b []byte
			until(t, later, "a large session is read through "+n.name, func(ctx context.Context) (err error) {
				b, _, err = patient[i].Sessions().Attribute(ctx, id, "v")
				if api.IsNotFound(err) {
					t.Fatalf("%s says that what writer %d wrote does not exist: %v", n.name, w, err)
				}
				return err
			})
			if len(b) != size || bytes.Count(b, []byte{byte(w)}) != size {
				t.Errorf("%s shows %d bytes, and not what writer %d wrote", n.name, len(b), w)
			}
		}
		// Who was too slow for the others' writes to wait is back by itself.
		until(t, later, n.name+" sees the ring as before", func(context.Context) error {
			if now := n.states(t); now != before[i] {
				return fmt.Errorf("%s, then %s", before[i], now)
			}
			return nil
		})
		if seen := n.deaths(t)[deaths[i]:]; len(seen) > 0 {
			t.Errorf("%s has taken members for dead:\n%s", n.name, strings.Join(seen, "\n"))
		}
		// Each member holds 100 MiB of sessions, and takes each write in and passes
		// it on to two others.
		peak := n.peakMemory(t)
		t.Logf("%s: peak memory %d MiB", n.name, peak>>20)
		if peak > 1200<<20 {
			t.Errorf("%s has needed %d MiB", n.name, peak>>20)
		}
	}
	t.Logf("%d writes of 1 MiB, %d tries refused, %d small reads meanwhile", writers, refused.Load(), reads)
}
