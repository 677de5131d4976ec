//go:build unix

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
