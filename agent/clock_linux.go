package agent

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// sinceBoot returns nanoseconds since the machine was started, the time that it
// slept included.
//
// The call cannot block, and the scheduler is not told of it: that would wake
// its monitor thread, which then looks every 20 µs for a millisecond whether a
// processor is to be taken from a call that lasts.
func sinceBoot() (ns int64, ok bool) {
	var ts unix.Timespec
	if _, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0, false
	}
	return ts.Nano(), true
}
