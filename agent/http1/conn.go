package http1

import (
	"bytes"
	"errors"
	"io"
	"net"
	"time"
)

// Limits bound a message head.
type Limits struct {
	Head int           // bytes, with the first line
	Time time.Duration // from the first byte to the last; 0: the read deadline alone

	Since time.Time // what HeadSince said of a head that had come in part, when it is read on
}

// Conn is a network connection with the bytes received on it that nobody has
// consumed yet. One goroutine at a time may read from it and one may write;
// deadlines may be set by any.
type Conn struct {
	net.Conn
	buf  []byte
	r, w int // buf[r:w] is unconsumed
	held int // buf[:held] is the head returned last; it stays until the next ReadHead or Release
	size int // of buf as a rule

	read, write timer
	probe       probe
	idleSince   time.Time

	got, sent int64     // bytes received and written so far
	partial   time.Time // when the head read last had begun to arrive, if it did not arrive at once
}

// NewConn gives nc a receive buffer of size bytes, which grows for larger
// heads and shrinks again.
func NewConn(nc net.Conn, size int) *Conn {
	c := &Conn{Conn: nc, buf: make([]byte, size), size: size}
	c.probe.init(nc)
	return c
}

// Without returns a Conn that has no receive buffer until it is lent one.
func Without(nc net.Conn, size int) *Conn { return &Conn{Conn: nc, size: size} }

// Lend gives a Conn a receive buffer that has none.
func (c *Conn) Lend(buf []byte) { c.buf = buf }

// HasBuffer reports whether there is a receive buffer.
func (c *Conn) HasBuffer() bool { return c.buf != nil }

// Strip takes the receive buffer away. Nothing may be unconsumed in it.
func (c *Conn) Strip() []byte {
	buf := c.buf
	c.buf, c.r, c.w, c.held = nil, 0, 0, 0
	return buf
}

// Become goes on over another form of the same network connection, with a receive
// buffer of size bytes as a rule.
func (c *Conn) Become(nc net.Conn, size int) {
	c.Conn, c.size = nc, size
	c.read, c.write, c.probe = timer{}, timer{}, probe{}
	c.probe.init(nc)
}

// Rewind makes the head that ReadHead returned last, of n bytes, the next one again.
func (c *Conn) Rewind(n int) { c.r, c.held = c.held-n, 0 }

// Buffered returns how many received bytes are unconsumed.
func (c *Conn) Buffered() int { return c.w - c.r }

// Consumed returns how many bytes were received and consumed so far.
func (c *Conn) Consumed() int64 { return c.got - int64(c.w-c.r) }

// Sent returns how many bytes were written so far.
func (c *Conn) Sent() int64 { return c.sent }

// Write is net.Conn's, counted.
func (c *Conn) Write(p []byte) (n int, err error) {
	n, err = c.Conn.Write(p)
	c.sent += int64(n)
	return n, err
}

// HeadSince returns when the first bytes of the head that ReadHead returned
// last had come. It is the zero time for one that arrived in one piece.
func (c *Conn) HeadSince() time.Time { return c.partial }

// Peek returns the unconsumed bytes; they are valid until the next read.
func (c *Conn) Peek() []byte { return c.buf[c.r:c.w] }

// Discard consumes n of the unconsumed bytes.
func (c *Conn) Discard(n int) { c.r += n }

// Release lets the space of the last head be used again.
func (c *Conn) Release() { c.held = 0 }

// ReadHead returns the next message head, up to and with its empty line. It
// finds where the head ends and refuses lines that do not end in CRLF; the
// rest is for Parse. Empty lines ahead of it are skipped, a few of them.
// The result is valid until the next ReadHead or Release.
//
// ErrClosed means that the other side closed before the first byte. A deadline
// that passes leaves what had arrived in Buffered.
func (c *Conn) ReadHead(lim Limits) ([]byte, error) {
	c.held, c.partial = 0, lim.Since
	if c.r == c.w {
		c.r, c.w = 0, 0
		if len(c.buf) > 4*c.size {
			c.buf = make([]byte, c.size)
		}
	}
	at := headScan{next: c.r, line: c.r}
	for timed := false; ; {
		end, err := c.scan(&at)
		switch {
		case err != nil:
			return nil, err
		case end-c.r > lim.Head, end == 0 && c.w-c.r > lim.Head:
			if at.first > lim.Head || at.line == c.r {
				return nil, ErrLineSize
			}
			return nil, ErrHeadSize
		case end > 0:
			head := c.buf[c.r:end:end]
			c.r, c.held = end, end
			return head, nil
		}
		if c.w > c.r && !timed {
			timed = true
			if c.partial.IsZero() {
				c.partial = time.Now()
			}
			if lim.Time > 0 {
				c.ReadWithin(c.partial, lim.Time)
			}
		}
		if c.w == len(c.buf) {
			moved := c.room(lim.Head + 1)
			at.next, at.line = at.next-moved, at.line-moved
		}
		n, err := c.Conn.Read(c.buf[c.w:])
		c.w += n
		c.got += int64(n)
		switch {
		case n > 0 || err == nil:
		case !errors.Is(err, io.EOF):
			return nil, err
		case c.w == c.r:
			return nil, ErrClosed
		default:
			return nil, io.ErrUnexpectedEOF
		}
	}
}

// headScan is how far a head has been looked through.
type headScan struct {
	next  int // the first byte not looked at
	line  int // where its line begins
	first int // length of the first line, once it is complete
	empty int // empty lines ahead of it
}

// scan goes on through the buffered bytes and returns where the head ends, or
// 0 while that has not arrived.
func (c *Conn) scan(at *headScan) (end int, err error) {
	for {
		nl := bytes.IndexByte(c.buf[at.next:c.w], '\n')
		if nl < 0 {
			at.next = c.w
			return 0, nil
		}
		end := at.next + nl + 1
		length := end - at.line
		if length < 2 || c.buf[end-2] != '\r' {
			return 0, ErrLineFeed
		}
		switch {
		case length > 2 && at.first == 0:
			at.first = length
		case length > 2:
		case at.first > 0:
			return end, nil
		default: // an empty line where a first line should be
			if at.empty++; at.empty > 4 {
				return 0, ErrRequestLine
			}
			c.r = end
		}
		at.next, at.line = end, end
	}
}

// room makes space behind the unconsumed bytes, by moving them to the front or
// by growing, up to limit bytes and one more buffer. It returns how far they moved.
func (c *Conn) room(limit int) int {
	if moved := c.r - c.held; moved > 0 {
		copy(c.buf[c.held:], c.buf[c.r:c.w])
		c.r, c.w = c.held, c.w-moved
		return moved
	}
	grown := make([]byte, min(2*len(c.buf), max(limit, len(c.buf))+c.size))
	copy(grown, c.buf[:c.w])
	c.buf = grown
	return 0
}

// Fill reads once and adds what arrived to the unconsumed bytes. It returns
// io.ErrShortBuffer when there is no space for any.
func (c *Conn) Fill() error {
	if c.r == c.w {
		c.r, c.w = c.held, c.held
	}
	if c.w == len(c.buf) {
		if c.r == c.held {
			return io.ErrShortBuffer
		}
		c.room(0)
	}
	n, err := c.Conn.Read(c.buf[c.w:])
	c.w += n
	c.got += int64(n)
	if n > 0 {
		return nil
	}
	return err
}

// space returns how much Fill could read when nothing is unconsumed.
func (c *Conn) space() int { return len(c.buf) - c.held }

// unread puts bytes back that were read past a body's end.
func (c *Conn) unread(p []byte) {
	if c.r == c.w {
		c.r, c.w = c.held, c.held
	}
	for len(c.buf)-c.w < len(p) {
		c.room(c.w + len(p))
	}
	c.w += copy(c.buf[c.w:], p)
}

// timer remembers a deadline so that it need not be set anew each time.
type timer struct {
	set time.Time
	d   time.Duration
}

// due reports whether a deadline of d from now has to be set. One that is not
// yet a quarter used up is good enough.
func (t *timer) due(now time.Time, d time.Duration) bool {
	if t.d == d && (d == 0 || now.Sub(t.set) < d/4) {
		return false
	}
	t.set, t.d = now, d
	return true
}

// ReadWithin bounds reads to d from now, or to as little as three quarters of
// it; 0 takes the bound away. Setting the same bound again is cheap.
func (c *Conn) ReadWithin(now time.Time, d time.Duration) {
	if c.read.due(now, d) {
		c.SetReadDeadline(deadline(now, d)) // fails on a closed connection, as the read will
	}
}

// WriteWithin is ReadWithin for writes.
func (c *Conn) WriteWithin(now time.Time, d time.Duration) {
	if c.write.due(now, d) {
		c.SetWriteDeadline(deadline(now, d))
	}
}

func deadline(now time.Time, d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return now.Add(d)
}

// Interrupt makes a read that waits, or the next one, return a deadline error.
// It may be called from any goroutine; the reader calls Resume before it reads again.
func (c *Conn) Interrupt() { c.SetReadDeadline(time.Unix(1, 0)) }

// Resume undoes Interrupt.
func (c *Conn) Resume() {
	c.read = timer{}
	c.SetReadDeadline(time.Time{})
}

// HurryWrite gives a write that waits, or the next one, no more than d, whatever
// WriteWithin has set. It may be called from any goroutine; the writer calls
// ResumeWrite before it goes on.
func (c *Conn) HurryWrite(d time.Duration) { c.SetWriteDeadline(time.Now().Add(d)) }

// ResumeWrite undoes HurryWrite.
func (c *Conn) ResumeWrite() {
	c.write = timer{}
	c.SetWriteDeadline(time.Time{})
}

// CloseWrite ends this side's half of the connection.
func (c *Conn) CloseWrite() error {
	if hc, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return hc.CloseWrite()
	}
	return c.Close()
}
