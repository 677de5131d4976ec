package http1

import (
	"errors"
	"io"
)

// Body moves one message body. Framing is kept: a sized body passes as its
// bytes, a chunked one in checked chunks, one that ends with the connection as
// its bytes.
type Body struct {
	framing Framing
	left    int64
	done    bool
	chunks  chunkReader
}

// Begin starts a body of the given framing; length counts for Sized only. A
// chunked one passes trailer fields that keep accepts; with bare set it is
// turned into its plain data.
func (b *Body) Begin(f Framing, length int64, bare bool, keep func(name []byte) bool) {
	section := b.chunks.section[:0]
	*b = Body{framing: f, left: length, done: f == NoBody}
	b.chunks = chunkReader{bare: bare, keep: keep, section: section}
}

// Unframed returns how much a chunked body has held so far, without its framing.
func (b *Body) Unframed() int64 { return b.chunks.data }

// Done reports whether the whole body has been moved.
func (b *Body) Done() bool { return b.done }

// Next returns the next piece of the body in the form in which it goes on, and
// whether it is the last one; a piece may be empty. It takes bytes that c holds
// already, or else reads once: into big where that has more space than c. The
// piece is valid until the next call.
//
// io.ErrUnexpectedEOF means that the other side closed within the body; an
// *Error that it is malformed.
func (b *Body) Next(c *Conn, big []byte) (piece []byte, done bool, err error) {
	if b.done {
		return nil, true, nil
	}
	if c.Buffered() > 0 {
		return b.buffered(c)
	}
	if len(big) <= c.space() || b.framing == Sized && b.left <= int64(c.space()) {
		if err := c.Fill(); err != nil {
			return nil, b.end(err), b.broken(err)
		}
		return b.buffered(c)
	}
	if b.framing == Sized && b.left < int64(len(big)) {
		big = big[:b.left]
	}
	n, err := c.Conn.Read(big)
	c.got += int64(n)
	if n == 0 && err != nil {
		return nil, b.end(err), b.broken(err)
	}
	piece, used, err := b.take(big[:n])
	if used < n {
		c.unread(big[used:n])
	}
	return piece, b.done, err
}

func (b *Body) buffered(c *Conn) ([]byte, bool, error) {
	piece, used, err := b.take(c.Peek())
	c.Discard(used)
	return piece, b.done, err
}

func (b *Body) take(p []byte) (piece []byte, used int, err error) {
	switch b.framing {
	case Sized:
		n := int(min(int64(len(p)), b.left))
		b.left -= int64(n)
		b.done = b.left == 0
		return p[:n], n, nil
	case Chunked:
		piece, used, err = b.chunks.step(p)
		b.done = err == nil && b.chunks.state == chunkDone
		return piece, used, err
	}
	return p, len(p), nil
}

// end reports whether the other side's end is this body's end.
func (b *Body) end(err error) bool {
	b.done = b.framing == UntilClose && errors.Is(err, io.EOF)
	return b.done
}

func (b *Body) broken(err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	if b.framing == UntilClose {
		return nil
	}
	return io.ErrUnexpectedEOF
}
