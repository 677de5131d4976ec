package netloop

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bunch is how many ready connections are taken at a time. Those beyond wait
// for the next.
const bunch = 128

// Loop calls the handlers of connections that are ready. Add, Again and Remove may
// be called by any goroutine, handlers and Round included.
type Loop struct {
	o    Options
	file *os.File // epoll, which the runtime's poller waits for
	raw  syscall.RawConn
	poll int // its descriptor

	events [bunch]unix.EpollEvent // of Run's goroutine
	ready  [bunch]Handler

	mu     sync.Mutex // guards all below
	places []place
	free   []int32
	closed bool
}

// place is where a connection's handler is found. Events carry the turn too, so
// that those of a connection that has gone do not reach the next one there.
type place struct {
	handler Handler
	turn    int32
	fd      int
}

// New returns a loop that waits for nothing until Run. Close it where Run is
// never called.
func New(o Options) (*Loop, error) {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(poll, true); err != nil { // else NewFile does not poll for it
		unix.Close(poll)
		return nil, os.NewSyscallError("fcntl", err)
	}
	l := &Loop{o: o, file: os.NewFile(uintptr(poll), "epoll"), poll: poll}
	if l.raw, err = l.file.SyscallConn(); err == nil {
		err = l.file.SetReadDeadline(time.Time{}) // fails where it cannot be polled for
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("epoll in the runtime's poller: %w", err)
	}
	return l, nil
}

// Close ends a loop that does not run. Connections that it still has stay open;
// they are their handlers'.
func (l *Loop) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.file.Close()
	}
}

// Add has h called whenever something arrives on fd, which must not block; what
// has arrived already counts. The result is for Remove.
func (l *Loop) Add(fd int, h Handler) (at int32, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return -1, ErrClosed
	}
	if n := len(l.free); n > 0 {
		at, l.free = l.free[n-1], l.free[:n-1]
	} else {
		at = int32(len(l.places))
		l.places = append(l.places, place{})
	}
	p := &l.places[at]
	p.handler, p.fd = h, fd
	p.turn++
	event := l.event(at)
	if err := unix.EpollCtl(l.poll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		l.release(at)
		return -1, os.NewSyscallError("epoll_ctl", err)
	}
	return at, nil
}

// Remove has the handler at a place not called any more, except for a call that
// is already under way. The descriptor must still be open, and each place is
// removed once; -1, which Add returns with an error, is none.
func (l *Loop) Remove(at int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at < 0 {
		return
	}
	if !l.closed {
		unix.EpollCtl(l.poll, unix.EPOLL_CTL_DEL, l.places[at].fd, nil) // fails only where it was never added
	}
	l.release(at)
}

// Leave is Remove for a descriptor that is closed next, and of which there is no
// other: the kernel forgets it by itself.
func (l *Loop) Leave(at int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at >= 0 {
		l.release(at)
	}
}

// Again has the handler at a place called once more if there is something to
// read, as if it had just arrived. It is for handlers that leave something to
// give others their turn.
func (l *Loop) Again(at int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := &l.places[at]; !l.closed && p.handler != nil {
		event := l.event(at)
		unix.EpollCtl(l.poll, unix.EPOLL_CTL_MOD, p.fd, &event) // fails only on a closed descriptor
	}
}

// Writable has the handler at a place called once what is written there is taken
// again, or at once if it is already. It is for those whose Write has returned
// ErrAgain.
func (l *Loop) Writable(at int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := &l.places[at]; !l.closed && p.handler != nil {
		event := l.event(at)
		event.Events |= unix.EPOLLOUT
		unix.EpollCtl(l.poll, unix.EPOLL_CTL_MOD, p.fd, &event) // fails only on a closed descriptor
	}
}

func (l *Loop) event(at int32) unix.EpollEvent {
	return unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET, Fd: at, Pad: l.places[at].turn}
}

func (l *Loop) release(at int32) {
	l.places[at].handler = nil
	l.free = append(l.free, at)
}

// Run calls handlers until ctx ends, and closes the loop.
func (l *Loop) Run(ctx context.Context) error {
	defer l.Close()
	defer context.AfterFunc(ctx, l.interrupt)()
	n := 0
	wait := func(uintptr) bool {
		n = l.ask()
		return n > 0
	}
	for ctx.Err() == nil {
		if err := l.raw.Read(wait); err == nil {
			l.call(n)
		} else if ctx.Err() == nil {
			return fmt.Errorf("event loop: %w", err)
		}
	}
	return nil
}

// ask asks once which connections are ready.
func (l *Loop) ask() int {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.poll), uintptr(unsafe.Pointer(&l.events[0])), bunch, 0, 0, 0)
	if errno != 0 { // EINTR; others cannot be on a descriptor that is held
		return 0
	}
	return int(n)
}

// call calls the handlers of the first n events.
func (l *Loop) call(n int) {
	l.mu.Lock()
	for i := range l.events[:n] {
		e := &l.events[i]
		if p := &l.places[e.Fd]; p.turn == e.Pad {
			l.ready[i] = p.handler
		} else {
			l.ready[i] = nil
		}
	}
	l.mu.Unlock()
	for i, h := range l.ready[:n] {
		if h != nil {
			h.Ready(l.events[i].Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0)
		}
	}
	clear(l.ready[:n])
	if l.o.Round != nil {
		l.o.Round()
	}
}

// interrupt ends the wait that is under way.
func (l *Loop) interrupt() {
	l.file.SetReadDeadline(time.Unix(1, 0)) // fails once the loop is closed
}

// Take takes the socket out of a TCP connection, which is closed with that. It
// reports false, and leaves the connection as it is, for any other.
func Take(nc net.Conn) (fd int, ok bool) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return 0, false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, false
	}
	// The socket is taken by a descriptor of its own, since the one of the net
	// package stays with the runtime's poller, which would wake up for it too.
	var dupErr error
	if err := raw.Control(func(own uintptr) {
		fd, dupErr = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0)
	}); err != nil || dupErr != nil {
		return 0, false
	}
	tcp.Close()
	return fd, true
}
