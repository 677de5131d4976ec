package wire

import (
	"syscall"
	"unsafe"
)

const canTry = true

// The descriptors are non-blocking: a call is over in a few microseconds. So the
// scheduler is not told that a call is under way. Where it is, it wakes a thread
// of its own after each idle moment to watch over the call, and that costs more
// than the call does.

// tryWrite writes to a non-blocking descriptor once, and returns how much it
// took.
func tryWrite(fd uintptr, b []byte) int {
	n, err := try(syscall.SYS_WRITE, fd, b)
	if err != 0 {
		return 0
	}
	return n
}

// tryRead reads from a non-blocking descriptor once. again says that nothing
// was there yet.
func tryRead(fd uintptr, b []byte) (n int, again bool, err error) {
	n, errno := try(syscall.SYS_READ, fd, b)
	switch errno {
	case 0:
		return n, false, nil
	case syscall.EAGAIN:
		return 0, true, nil
	}
	return 0, false, errno
}

func try(call, fd uintptr, b []byte) (int, syscall.Errno) {
	if len(b) == 0 {
		return 0, 0
	}
	for {
		n, _, err := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		if err != syscall.EINTR {
			return int(n), err
		}
	}
}
