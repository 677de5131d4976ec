package load

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// These never block, so the scheduler need not be told of them: that alone would
// cost more than they do.

func take(fd int, b []byte) (int, error) {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
	return outcome(n, e)
}

// drop takes up to n bytes off a connection without copying them anywhere.
func drop(fd int, b []byte, n int) (int, error) {
	r, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(n), unix.MSG_DONTWAIT|unix.MSG_TRUNC, 0, 0)
	return outcome(r, e)
}

func put(fd int, b []byte) (int, error) {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return outcome(n, e)
}

func outcome(n uintptr, e unix.Errno) (int, error) {
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}
