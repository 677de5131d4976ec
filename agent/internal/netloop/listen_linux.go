package netloop

import (
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Keep-alive as the net package has it for connections that it accepts.
const (
	keepIdle     = 15 // seconds
	keepInterval = 15
	keepCount    = 9
)

// Listener accepts the connections of a TCP listener as descriptors: what the net
// package makes of a connection, its place in the runtime's poller above all, is of
// no use to one that goes to a loop. It is a second descriptor of the socket, which the
// listener shares: connections come to either. One goroutine at a time may accept.
type Listener struct {
	file *os.File
	raw  syscall.RawConn
	addr netip.AddrPort // its own; not valid where it listens at several
	over atomic.Bool    // Close was called

	try  func(fd uintptr) bool // accept, made once
	sock unix.RawSockaddrAny
	fd   int
	no   syscall.Errno
}

// Listen returns a Listener beside ln. Connections get from the socket what the net
// package sets for each: small writes are not delayed, and silent ones are probed.
func Listen(ln *net.TCPListener) (*Listener, error) {
	file, err := ln.File()
	if err != nil {
		return nil, err //nolint:wrapcheck // it says it all
	}
	l := &Listener{file: file}
	if l.raw, err = file.SyscallConn(); err == nil {
		err = l.prepare()
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	if a, ok := ln.Addr().(*net.TCPAddr); ok && !a.AddrPort().Addr().IsUnspecified() {
		l.addr = a.AddrPort()
	}
	l.try = l.accept
	return l, nil
}

func (l *Listener) prepare() error {
	var failed error
	set := func(fd, level, option, value int) {
		if err := unix.SetsockoptInt(fd, level, option, value); err != nil && failed == nil {
			failed = os.NewSyscallError("setsockopt", err)
		}
	}
	err := l.raw.Control(func(own uintptr) {
		fd := int(own)
		set(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		set(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
		set(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepIdle)
		set(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepInterval)
		set(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepCount)
	})
	if err == nil {
		err = failed
	}
	if err == nil {
		err = l.file.SetReadDeadline(time.Time{}) // fails where it cannot be waited for
	}
	return err
}

// Accept waits for a connection, and returns its descriptor and the addresses of its
// two ends. Errors are as those of net.Listener.
func (l *Listener) Accept() (fd int, remote, local netip.AddrPort, err error) {
	for {
		if err := l.raw.Read(l.try); err != nil {
			if l.over.Load() {
				err = net.ErrClosed
			}
			return -1, remote, local, &net.OpError{Op: "accept", Net: "tcp", Err: err}
		}
		switch l.no {
		case 0:
			if local = l.addr; !local.IsValid() {
				local = localAddr(l.fd)
			}
			return l.fd, addrOf(&l.sock), local, nil
		case unix.EINTR, unix.ECONNABORTED: // it was gone before it was accepted
		default:
			return -1, remote, local, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", l.no)}
		}
	}
}

// accept tries once. It reports false where there is nobody.
func (l *Listener) accept(own uintptr) bool {
	size := uint32(unix.SizeofSockaddrAny)
	fd, _, no := unix.RawSyscall6(unix.SYS_ACCEPT4, own, uintptr(unsafe.Pointer(&l.sock)), uintptr(unsafe.Pointer(&size)), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	l.fd, l.no = int(fd), no
	return no != unix.EAGAIN
}

// SetDeadline has Accept fail from then on.
func (l *Listener) SetDeadline(t time.Time) error { return l.file.SetReadDeadline(t) } //nolint:wrapcheck // it says it all

// Close ends Accept. The net package's listener stays as it is.
func (l *Listener) Close() error {
	l.over.Store(true)
	return l.file.Close() //nolint:wrapcheck // it says it all
}

func localAddr(fd int) netip.AddrPort {
	var sock unix.RawSockaddrAny
	size := uint32(unix.SizeofSockaddrAny)
	if _, _, no := unix.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&sock)), uintptr(unsafe.Pointer(&size))); no != 0 {
		return netip.AddrPort{}
	}
	return addrOf(&sock)
}

// addrOf leaves the zone out, which means something on this machine only.
func addrOf(sock *unix.RawSockaddrAny) netip.AddrPort {
	port := func(p uint16) uint16 { // it is in network order
		b := (*[2]byte)(unsafe.Pointer(&p))
		return uint16(b[0])<<8 | uint16(b[1])
	}
	switch sock.Addr.Family {
	case unix.AF_INET:
		a := (*unix.RawSockaddrInet4)(unsafe.Pointer(sock))
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), port(a.Port))
	case unix.AF_INET6:
		a := (*unix.RawSockaddrInet6)(unsafe.Pointer(sock))
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), port(a.Port))
	}
	return netip.AddrPort{}
}
