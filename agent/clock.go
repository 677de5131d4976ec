package agent

import (
	"sync/atomic"
	"time"

	"github.com/rondel-project/rondel/agent/replicate"
)

// clock tells the time as the session engine wants it: its Mono never steps, and
// runs on while the machine sleeps where the system can tell that. A member that
// was suspended must know that its lease is over.
type clock struct {
	start time.Time
	ahead atomic.Int64 // by how much the system's clock that never sleeps is ahead of the process's own
	asked atomic.Int64 // when that was asked last, by the process's own; 0: never
	apart atomic.Int64 // by how much the wall clock was ahead of the process's own then
}

// Asking the kernel how long the machine has slept costs a system call, and one
// that has the scheduler look after it. Sleep moves the wall clock against the
// process's own, as nothing else does but somebody who sets it: so it is asked
// when they have come apart by more than tolerance, and to be sure every resync.
const (
	resync    = int64(100 * time.Millisecond)
	tolerance = int64(time.Millisecond)
)

func newClock() *clock { return &clock{start: time.Now().Add(-time.Hour)} }

func (c *clock) now() replicate.Time {
	now := time.Now()
	own := int64(now.Sub(c.start))
	apart := now.UnixNano() - own
	moved := apart - c.apart.Load()
	if asked := c.asked.Load(); asked == 0 || own-asked >= resync || moved > tolerance || moved < -tolerance {
		c.ask(own)
		c.apart.Store(apart)
	}
	return replicate.Time{Mono: own + c.ahead.Load(), Wall: now.UnixMilli()}
}

// ask measures how far the process's own clock is behind. It never moves back,
// whatever goroutines ask at the same time.
func (c *clock) ask(own int64) {
	sleepless, ok := sinceBoot()
	if !ok {
		return
	}
	ahead := sleepless - int64(time.Since(c.start))
	for old := c.ahead.Load(); ahead > old; old = c.ahead.Load() {
		if c.ahead.CompareAndSwap(old, ahead) {
			break
		}
	}
	c.asked.Store(own)
}
