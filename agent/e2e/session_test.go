package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rondel-project/rondel/api"
)

// create makes a session.
func create(t *testing.T, n *node) (id string) {
	t.Helper()
	until(t, soon, "a session is made through "+n.name, func(ctx context.Context) error {
		s, err := n.api.Sessions().Create(ctx, api.SessionCreate{})
		if err == nil {
			id = s.ID
		}
		return err
	})
	return id
}

// write puts a value into a session; a repeat is the same write.
func write(t *testing.T, n *node, id string, value int) {
	t.Helper()
	until(t, soon, fmt.Sprintf("value %d is written through %s", value, n.name), func(ctx context.Context) error {
		_, err := n.api.Sessions().Patch(ctx, id, map[string]any{"value": value}, api.WithIdempotencyKey(strconv.Itoa(value)))
		return err
	})
}

// value reads what a session holds, through one agent, once. An answer that is
// said to be stale, as an owner's that was held up, is none.
func value(ctx context.Context, n *node, id string) (int, error) {
	s, err := n.api.Sessions().Get(ctx, id)
	if err != nil {
		return 0, err
	}
	if s.Stale {
		return 0, errors.New("the answer may be stale")
	}
	return strconv.Atoi(string(s.Attributes["value"]))
}

// read waits for an answer, which must be the value: an agent may say that it
// cannot tell now, but never anything else than the last acknowledged write.
func read(t *testing.T, n *node, id string, want int) {
	t.Helper()
	n.readWithin(t, soon, id, want)
}

func (n *node) readWithin(t *testing.T, limit time.Duration, id string, want int) {
	t.Helper()
	until(t, limit, fmt.Sprintf("a read through %s is answered", n.name), func(ctx context.Context) error {
		got, err := value(ctx, n, id)
		if err == nil && got != want {
			t.Fatalf("through %s the session holds %d, want %d", n.name, got, want)
		}
		if api.IsNotFound(err) {
			t.Fatalf("%s says that the session does not exist", n.name)
		}
		return err
	})
}

func owner(t *testing.T, n *node, id string) (name string) {
	t.Helper()
	until(t, soon, "the owner of a session is known", func(ctx context.Context) error {
		at, err := n.api.Ring().Locate(ctx, id)
		if err == nil {
			name = at.Owner
		}
		return err
	})
	return name
}

func TestSession_outlivesItsOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := create(t, c[0])
	write(t, c[1], id, 1)
	read(t, c[2], id, 1)

	first := c.named(t, owner(t, c[0], id))
	others := c.without(first)
	first.kill(t)
	start := time.Now()
	for _, n := range others {
		read(t, n, id, 1)
	}
	t.Logf("readable through both others %s after the owner's death", time.Since(start).Round(time.Millisecond))
	write(t, others[0], id, 2)
	read(t, others[1], id, 2)

	// While it comes back writes go on, and no read through it may ever show
	// less than was acknowledged before the read began.
	first.start(t)
	last := c.comingBack(t, first, id, 2)
	for _, n := range c {
		read(t, n, id, last)
	}
	until(t, later, first.name+" owns its slot again", func(ctx context.Context) error {
		at, err := others[0].api.Ring().Locate(ctx, id)
		if err == nil && at.Owner != first.name {
			err = fmt.Errorf("the owner is %s, home is %s", at.Owner, at.Home)
		}
		return err
	})
	for _, n := range c {
		read(t, n, id, last)
	}
}

// comingBack writes through the others and reads through a member that comes
// back, until the cluster is whole. It returns the last value written.
func (c cluster) comingBack(t *testing.T, back *node, id string, acked int) int {
	t.Helper()
	var mu sync.Mutex // guards acked
	reading, stop := context.WithCancel(t.Context())
	defer stop()
	stale := make(chan error, 1)
	go func() {
		defer close(stale)
		for reading.Err() == nil {
			mu.Lock()
			least := acked
			mu.Unlock()
			got, err := value(reading, back, id)
			if err == nil && got < least || api.IsNotFound(err) {
				stale <- fmt.Errorf("through %s: %d (%v), but %d was acknowledged before", back.name, got, err, least)
				return
			}
			if err != nil { // it is not up yet
				select {
				case <-reading.Done():
				case <-time.After(pollEvery):
				}
			}
		}
	}()
	writer := c.without(back)[0]
	until(t, later, "the cluster is whole again", func(ctx context.Context) error {
		write(t, writer, id, acked+1)
		mu.Lock()
		acked++
		mu.Unlock()
		h, err := back.api.Health().Agent(ctx)
		if err == nil && !h.Healthy {
			err = fmt.Errorf("%v", h.Reasons)
		}
		return err
	})
	stop()
	if err := <-stale; err != nil {
		t.Error(err)
	}
	return acked
}
