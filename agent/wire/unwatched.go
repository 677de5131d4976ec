package wire

import (
	"io"
	"net"
	"os"
	"syscall"
)

// reader returns the cheapest way to read from conn.
func reader(conn net.Conn) io.Reader {
	if tcp, ok := conn.(*net.TCPConn); ok && canTry {
		if raw, err := tcp.SyscallConn(); err == nil {
			r := &rawReader{raw: raw}
			r.once = r.try
			return r
		}
	}
	return conn
}

// rawReader reads from a descriptor by itself and only waits by way of the
// runtime. One goroutine uses it.
type rawReader struct {
	raw  syscall.RawConn
	once func(fd uintptr) bool
	buf  []byte // what once fills
	n    int    // how much it has read
	err  error
}

// Read implements io.Reader.
func (r *rawReader) Read(b []byte) (int, error) {
	r.buf, r.n, r.err = b, 0, nil
	err := r.raw.Read(r.once)
	r.buf = nil
	switch {
	case err != nil: // closed
		return 0, err
	case r.err != nil:
		return 0, os.NewSyscallError("read", r.err)
	case r.n == 0 && len(b) > 0:
		return 0, io.EOF
	}
	return r.n, nil
}

// unwatchedConn is a connection of which neither reads nor writes make the scheduler
// look up. One goroutine reads from it, and one writes.
type unwatchedConn struct {
	net.Conn
	in  io.Reader
	raw syscall.RawConn
}

// unwatched returns conn, made so where that is possible.
func unwatched(conn net.Conn) net.Conn {
	in, ok := reader(conn).(*rawReader)
	if !ok {
		return conn
	}
	return &unwatchedConn{conn, in, in.raw}
}

// Read implements net.Conn.
func (c *unwatchedConn) Read(b []byte) (int, error) { return c.in.Read(b) }

// Write implements net.Conn.
func (c *unwatchedConn) Write(b []byte) (n int, err error) {
	err = c.raw.Write(func(fd uintptr) bool {
		n = tryWrite(fd, b)
		return true
	})
	if err != nil || n == len(b) {
		return n, err
	}
	more, err := c.Conn.Write(b[n:]) // waits, or meets what is wrong
	return n + more, err
}

// try returns false to be called again when something can be read.
func (r *rawReader) try(fd uintptr) bool {
	var again bool
	r.n, again, r.err = tryRead(fd, r.buf)
	return !again
}
