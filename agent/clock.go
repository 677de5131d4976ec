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
}

// resync is for how long the time that the machine has slept is taken as known.
// Asking the kernel costs a system call; a machine that wakes up goes by the old
// time for so long at the most.
const resync = int64(time.Millisecond)

func newClock() *clock { return &clock{start: time.Now().Add(-time.Hour)} }

func (c *clock) now() replicate.Time {
	now := time.Now()
	own := int64(now.Sub(c.start))
	if asked := c.asked.Load(); asked == 0 || own-asked >= resync {
		c.ask(own)
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
