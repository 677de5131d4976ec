package agent

import (
	"sync"
	"testing"
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
