//go:build unix

package http1

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// probe asks the kernel whether an idle connection has something to read: the
// other side's end, or bytes that belong to no request. Either makes it unfit
// for another request.
type probe struct {
	raw   syscall.RawConn
	ask   func(fd uintptr)
	fds   [1]unix.PollFd
	dirty bool
}

func (p *probe) init(nc net.Conn) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	p.raw = raw
	p.ask = func(fd uintptr) {
		p.fds[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
		n, err := unix.Poll(p.fds[:], 0)
		p.dirty = n > 0 || err != nil && err != unix.EINTR
	}
}

// readable reports whether a read would return at once.
func (p *probe) readable() bool {
	if p.raw == nil {
		return false
	}
	p.dirty = false
	if err := p.raw.Control(p.ask); err != nil {
		return true
	}
	return p.dirty
}
