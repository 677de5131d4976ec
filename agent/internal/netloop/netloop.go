package netloop

import (
	"errors"
	"net"
	"os"
)

// ErrUnsupported is what New returns on systems without epoll.
var ErrUnsupported = errors.New("no event loop on this system")

// ErrClosed is what Add returns once the loop has ended.
var ErrClosed = errors.New("the event loop has ended")

// ErrAgain is what Read and Write return when they would have to wait.
var ErrAgain = errors.New("the connection is not ready")

// Handler is what the loop calls. It must not block.
type Handler interface {
	// Ready says that something arrived since the last Read, or, with hup, that
	// the other side has ended its half or the connection has failed. It is not
	// called again before more arrives, so the handler must read until Read
	// returns less than it could have. After Remove it may be called once more,
	// and after Writable also because something can be written.
	Ready(hup bool)
}

// Options make a Loop.
type Options struct {
	// Round, if set, is called in the loop's goroutine after each bunch of
	// connections that were ready.
	Round func()
	// Loops, if positive, is how many loops a pool has.
	Loops int
	// Failed, if set, is told why a pool's loop ended before its time.
	Failed func(error)
}

// Give makes a descriptor a connection of the net package again, which owns it
// from then on. It closes the descriptor in any case.
func Give(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "tcp")
	defer f.Close()
	return net.FileConn(f)
}
