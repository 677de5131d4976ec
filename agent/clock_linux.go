package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic returns nanoseconds on a clock that never steps and runs on while
// the machine sleeps: a member that was suspended must know that its lease is
// over.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return int64(time.Since(start))
	}
	return ts.Nano()
}
