package agent

import "golang.org/x/sys/unix"

// sinceBoot returns nanoseconds since the machine was started, the time that it
// slept included.
func sinceBoot() (ns int64, ok bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, false
	}
	return ts.Nano(), true
}
