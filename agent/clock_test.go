package agent

import (
	"sync"
	"testing"
	"time"
)

func TestClock_neverGoesBack(t *testing.T) {
	t.Parallel()
	c := newClock()
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			last := c.now().Mono
			for range 100_000 {
				now := c.now().Mono
				if now < last {
					t.Errorf("%d after %d", now, last)
					return
				}
				last = now
			}
		})
	}
	wait.Wait()
}

// A machine that slept is noticed at once: its wall clock has moved against the
// process's own.
func TestClock_asksWhenTheClocksComeApart(t *testing.T) {
	t.Parallel()
	c := newClock()
	asked := int64(0)
	for tries := 0; ; tries++ {
		c.now()
		asked = c.asked.Load()
		c.asked.Store(asked + int64(time.Hour)) // not due for long
		if c.now(); c.asked.Load() == asked+int64(time.Hour) {
			break
		}
		if tries == 10 { // one who is held up between the two clocks sees them apart
			t.Fatal("asked for no reason")
		}
	}
	c.apart.Add(-int64(time.Second))
	c.now()
	if c.asked.Load() == asked+int64(time.Hour) {
		t.Fatal("did not ask")
	}
}
