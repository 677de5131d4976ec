package httpapi

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
)

// quickAnswer is the ResponseWriter of the quick path. It holds a small answer
// back until the handler has returned, so that it leaves in one piece.
type quickAnswer struct {
	conn   *http1.Conn
	body   *quickBody
	header http.Header
	status int
	bare   bool // no body leaves: HEAD
	last   bool // the connection ends behind this answer
	sent   bool
	failed bool
	buf    []byte // the body so far
	out    []byte // head and body, as they leave
	names  []string

	dates dates
}

func (a *quickAnswer) begin(bare bool) {
	clear(a.header)
	a.status, a.bare, a.last, a.sent, a.failed = 0, bare, false, false, false
	a.buf = a.buf[:0]
	if cap(a.buf) > largeAnswer {
		a.buf = nil
	}
	if cap(a.out) > largeAnswer {
		a.out = nil
	}
}

// Header implements http.ResponseWriter.
func (a *quickAnswer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *quickAnswer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *quickAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	switch {
	case a.bare || a.sent || !bodyAllowed(a.status):
	case len(p) > quickBuffer && len(a.buf) == 0 && a.header.Get("Content-Length") == strconv.Itoa(len(p)):
		// All of it, and too much to copy.
		a.sent = true
		a.last = !a.body.finish()
		a.writeHead()
		pieces := net.Buffers{a.out, p}
		_, err := pieces.WriteTo(a.conn.Conn)
		a.failed = err != nil
		return len(p), err
	default:
		a.buf = append(a.buf, p...)
	}
	return len(p), nil
}

// SetReadDeadline is for http.ResponseController. It counts only once the body
// has to be waited for.
func (a *quickAnswer) SetReadDeadline(t time.Time) error {
	if !t.IsZero() {
		a.body.until, a.body.timed = t, false
	}
	return nil
}

// SetWriteDeadline is for http.ResponseController.
func (a *quickAnswer) SetWriteDeadline(t time.Time) error { return a.conn.SetWriteDeadline(t) }

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// finish sends what has not left yet, and reports whether the connection can
// go on.
func (a *quickAnswer) finish() bool {
	if !a.sent {
		a.WriteHeader(http.StatusOK)
		if a.header["Content-Length"] == nil && bodyAllowed(a.status) && !a.bare {
			a.header["Content-Length"] = []string{strconv.Itoa(len(a.buf))}
		}
		a.last = !a.body.finish()
		a.writeHead()
		a.out = append(a.out, a.buf...)
		_, err := a.conn.Conn.Write(a.out)
		a.failed = err != nil
	}
	return !a.failed && !a.last
}

func (a *quickAnswer) writeHead() {
	b := append(a.out[:0], "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(a.status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(a.status)...)
	b = append(b, "\r\n"...)
	a.names = a.names[:0]
	for name := range a.header {
		a.names = append(a.names, name)
	}
	slices.Sort(a.names)
	for _, name := range a.names {
		for _, v := range a.header[name] {
			if strings.ContainsAny(v, "\r\n") {
				v = strings.NewReplacer("\r", " ", "\n", " ").Replace(v)
			}
			b = append(append(b, name...), ": "...)
			b = append(append(b, v...), "\r\n"...)
		}
	}
	b = a.dates.append(append(b, "Date: "...), time.Now())
	if a.last {
		b = append(b, "\r\nConnection: close"...)
	}
	a.out = append(b, "\r\n\r\n"...)
}
