package agent_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondel-project/rondel/agent/agenttest"
	"github.com/rondel-project/rondel/api"
)

type attrs = agenttest.Attrs

// inBubble runs a story in fake time.
func inBubble(t *testing.T, story func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, story)
}

// ok demands a success.
func ok(t *testing.T, what string, a agenttest.Answer) agenttest.Answer {
	t.Helper()
	if !a.OK() {
		t.Fatalf("%s: %s", what, a)
	}
	return a
}

// tries asks one agent after the other, in any order, until one has an answer
// that settles the question, as clients do.
func tries(c *agenttest.Cluster, limit time.Duration, ask func(*agenttest.Member) agenttest.Answer) (a agenttest.Answer) {
	until := time.Now().Add(limit)
	for {
		members := c.Members()
		a = ask(members[rand.IntN(len(members))])
		if a.Status != 0 && a.Status != 503 && a.Status != 504 || time.Now().After(until) {
			return a
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// watch is a user of one session who writes rising numbers through any agent
// and reads them back all the time: never an older one than the last that was
// acknowledged, and never "no such session".
type watch struct {
	t      *testing.T
	c      *agenttest.Cluster
	id     string
	acked  atomic.Int64 // the last number that was acknowledged
	sent   atomic.Int64
	reads  atomic.Int64 // that had an answer
	failed atomic.Int64 // requests of agents that run, answered otherwise than well
	stop   chan struct{}
	work   sync.WaitGroup

	mu   sync.Mutex // guards why
	why  string
	gap  time.Duration // the longest time without a read
	last time.Time
}

func newWatch(t *testing.T, c *agenttest.Cluster) *watch {
	t.Helper()
	a := tries(c, 5*time.Second, func(m *agenttest.Member) agenttest.Answer { return m.Create(attrs{"n": 0}, "") })
	ok(t, "create", a)
	return watchOf(t, c, a.ID)
}

func watchOf(t *testing.T, c *agenttest.Cluster, id string) *watch {
	return &watch{t: t, c: c, id: id, stop: make(chan struct{}), last: time.Now()}
}

// write writes the next number, until it is acknowledged.
func (w *watch) write(limit time.Duration) {
	w.t.Helper()
	n := w.sent.Add(1)
	a := tries(w.c, limit, func(m *agenttest.Member) agenttest.Answer { return m.Patch(w.id, attrs{"n": n}) })
	if !a.OK() {
		w.t.Errorf("write %d: %s", n, a)
		return
	}
	w.acked.Store(n)
}

// again does something again and again until end, or until it says that it is
// enough.
func (w *watch) again(every time.Duration, do func(i int) (enough bool)) {
	w.work.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-w.stop:
				return
			case <-time.After(every):
			}
			if do(i) {
				return
			}
		}
	})
}

// poll reads through all agents until end.
func (w *watch) poll(every time.Duration) {
	w.again(every, func(i int) bool {
		members := w.c.Members()
		w.read(members[i%len(members)])
		return false
	})
}

// writeEvery writes through all agents until end; no write may fail.
func (w *watch) writeEvery(every time.Duration) {
	w.again(every, func(i int) bool {
		members := w.c.Members()
		m := members[i%len(members)]
		n := w.sent.Add(1)
		if a := m.Patch(w.id, attrs{"n": n}); a.OK() {
			w.acked.Store(n)
		} else {
			w.failed.Add(1)
			w.mu.Lock()
			w.why = fmt.Sprintf("write at %s: %s", m.Name, a)
			w.mu.Unlock()
		}
		return false
	})
}

func (w *watch) read(m *agenttest.Member) {
	floor := w.acked.Load()
	a := m.Read(w.id)
	if a.Err != nil { // no agent there any more
		return
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch n, err := strconv.ParseInt(a.Attr("n"), 10, 64); {
	case a.Status == 200 && err == nil && n >= floor:
		w.reads.Add(1)
		w.gap = max(w.gap, now.Sub(w.last))
		w.last = now
	case a.Status == 200, a.Status == 404:
		w.t.Errorf("%s answers %s where %d was acknowledged", m.Name, a, floor)
	default:
		w.failed.Add(1)
		w.why = fmt.Sprintf("%s: %s", m.Name, a)
	}
}

// end stops polling, and tells how many requests failed and the last reason.
func (w *watch) end() (failed int64, why string) {
	close(w.stop)
	w.work.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed.Load(), w.why
}

// longest returns the longest time without an answered read.
func (w *watch) longest() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gap
}

// value is what every agent must answer now.
func (w *watch) value(limit time.Duration) {
	w.t.Helper()
	for _, m := range w.c.Members() {
		var a agenttest.Answer
		w.c.Await("an answer of "+m.Name, limit, func() bool { a = m.Read(w.id); return a.Status == 200 || a.Status == 404 })
		if n, _ := strconv.ParseInt(a.Attr("n"), 10, 64); a.Status != 200 || n < w.acked.Load() {
			w.t.Errorf("%s answers %s where %d was acknowledged", m.Name, a, w.acked.Load())
		}
	}
}

// ownedBy makes a session that a member owns.
func ownedBy(t *testing.T, c *agenttest.Cluster, name string) *watch {
	t.Helper()
	a := ok(t, "create", c.Member(name).Create(attrs{"n": 0}, ""))
	if a.Owner != name {
		t.Fatalf("a session made at %s is owned by %s", name, a.Owner)
	}
	return watchOf(t, c, a.ID)
}

// inUse are sessions that a member owns, read and written all the time.
func inUse(t *testing.T, c *agenttest.Cluster, name string, n int, write func(w *watch, every time.Duration)) (list []*watch) {
	t.Helper()
	for i := range n {
		w := ownedBy(t, c, name)
		w.poll(time.Duration(50+i) * time.Millisecond)
		write(w, time.Duration(60+i)*time.Millisecond)
		list = append(list, w)
	}
	return list
}

// users are sessions in use, of which no request may fail.
func users(t *testing.T, c *agenttest.Cluster, name string, n int) []*watch {
	t.Helper()
	return inUse(t, c, name, n, (*watch).writeEvery)
}

// even reports whether n members are up and no two shares differ by more than
// one slot.
func even(members []api.RingMember, n int) bool {
	least, most, up := 1<<30, 0, 0
	for _, m := range members {
		if m.State == "up" {
			up++
			least, most = min(least, m.Slots), max(most, m.Slots)
		}
	}
	return up == n && most-least <= 1
}
