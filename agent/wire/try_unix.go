//go:build unix && !linux

package wire

import "syscall"

const canTry = true

// tryWrite writes to a non-blocking descriptor once, and returns how much it
// took.
func tryWrite(fd uintptr, b []byte) int {
	for {
		n, err := syscall.Write(int(fd), b)
		if err == syscall.EINTR {
			continue
		}
		return max(n, 0)
	}
}

// tryRead reads from a non-blocking descriptor once. again says that nothing
// was there yet.
func tryRead(fd uintptr, b []byte) (n int, again bool, err error) {
	for {
		n, err := syscall.Read(int(fd), b)
		switch err {
		case nil:
			return n, false, nil
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return 0, true, nil
		}
		return 0, false, err
	}
}
