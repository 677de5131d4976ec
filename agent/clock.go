package agent

import (
	"time"

	"github.com/rondel-project/rondel/agent/replicate"
)

// start is the zero of the process's own clock.
var start = time.Now().Add(-time.Hour)

func systemClock() replicate.Time {
	return replicate.Time{Mono: monotonic(), Wall: time.Now().UnixMilli()}
}

// processClock follows the runtime's clock, which tests can fake.
func processClock() replicate.Time {
	now := time.Now()
	return replicate.Time{Mono: int64(now.Sub(start)), Wall: now.UnixMilli()}
}
