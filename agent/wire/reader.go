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

// try returns false to be called again when something can be read.
func (r *rawReader) try(fd uintptr) bool {
	var again bool
	r.n, again, r.err = tryRead(fd, r.buf)
	return !again
}
