package netloop

import (
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below are those for sockets alone: read and write would do, but the
// kernel has more to look at on their way.

// Read reads what has arrived. It returns ErrAgain where nothing has, and io.EOF
// after the other side's end. p must not be empty.
func Read(fd int, p []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0, 0, 0)
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			return 0, ErrAgain
		case errno != 0:
			return 0, os.NewSyscallError("recvfrom", errno)
		case n == 0:
			return 0, io.EOF
		default:
			return int(n), nil
		}
	}
}

// Write writes as much as goes without waiting, and returns ErrAgain if that is
// not all.
func Write(fd int, p []byte) (int, error) {
	done := 0
	for done < len(p) {
		rest := p[done:]
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(rest))), uintptr(len(rest)), unix.MSG_NOSIGNAL, 0, 0)
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			return done, ErrAgain
		case errno != 0:
			return done, os.NewSyscallError("sendto", errno)
		default:
			done += int(n)
		}
	}
	return done, nil
}

// Quiet reports whether a connection is open and has nothing to be read.
func Quiet(fd int) bool {
	var one [1]byte
	_, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&one[0])), 1, unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	return errno == unix.EAGAIN
}

// CloseWrite ends this side's half of a connection.
func CloseWrite(fd int) error {
	return os.NewSyscallError("shutdown", unix.Shutdown(fd, unix.SHUT_WR))
}

// Close closes the descriptor of a connection, which waits for nothing.
func Close(fd int) { unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }
