package agent

import (
	"time"

	"github.com/rondel-project/rondel/agent/replicate"
)

// start is the zero of the process's own clock, where the system has no better
// one.
var start = time.Now().Add(-time.Hour)

func systemClock() replicate.Time {
	return replicate.Time{Mono: monotonic(), Wall: time.Now().UnixMilli()}
}
