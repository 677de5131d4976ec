package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A frame is the length of what follows (4 bytes), a kind byte and a payload.
// Kind 0 is a ping from the dialling end and the answer to it from the other.
const (
	frameHead = 5
	kindPing  = 0

	smallBuffer = 16 << 10  // what a quiet connection holds
	largeBuffer = 128 << 10 // what a busy one may keep
)

// errBadFrame means that the bytes received cannot be a frame.
var errBadFrame = errors.New("broken frame")

func appendFrame(b []byte, kind byte, head, body []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(1+len(head)+len(body)))
	b = append(b, kind)
	b = append(b, head...)
	return append(b, body...)
}

// frameReader cuts a stream into frames. It reads much at a time and hands out
// slices of its own buffer.
type frameReader struct {
	src        io.Reader
	max        int // largest length accepted
	buf        []byte
	start, end int // buf[start:end] is read and not yet handed out
}

func newFrameReader(src io.Reader, max int) *frameReader {
	return &frameReader{src: src, max: max, buf: make([]byte, smallBuffer)}
}

// next returns a frame that is already in the buffer; ok is false when fill has
// to come first. The payload is valid until fill is called.
func (f *frameReader) next() (kind byte, payload []byte, ok bool, err error) {
	have := f.buf[f.start:f.end]
	if len(have) < 4 {
		return 0, nil, false, nil
	}
	n := uint64(binary.BigEndian.Uint32(have))
	if n == 0 || n > uint64(f.max) {
		return 0, nil, false, fmt.Errorf("length %d: %w", n, errBadFrame)
	}
	if uint64(len(have)) < 4+n {
		return 0, nil, false, nil
	}
	f.start += 4 + int(n)
	return have[4], have[frameHead : 4+n : 4+n], true, nil
}

// fill reads once, after next has returned all it could.
func (f *frameReader) fill() error {
	f.makeRoom()
	n, err := f.src.Read(f.buf[f.end:])
	f.end += n
	if n > 0 {
		return nil // an error will come again
	}
	if err == nil {
		return io.ErrNoProgress
	}
	if err == io.EOF && f.end > f.start {
		return io.ErrUnexpectedEOF
	}
	return err
}

// makeRoom moves the half frame that is left to the front. The buffer grows by
// doubling as bytes arrive, never because a length was announced.
func (f *frameReader) makeRoom() {
	left := f.end - f.start
	full := f.end == len(f.buf)
	size := len(f.buf)
	switch {
	case left == len(f.buf): // a frame larger than the buffer
		size = min(2*size, f.max+4)
	case full && size < largeBuffer:
		size *= 2
	case left == 0 && size > largeBuffer:
		size = smallBuffer
	}
	if size != len(f.buf) {
		b := make([]byte, size)
		copy(b, f.buf[f.start:f.end])
		f.buf = b
	} else if f.start > 0 {
		copy(f.buf, f.buf[f.start:f.end])
	}
	f.start, f.end = 0, left
}
