package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed means that bytes are not the encoding of what was expected.
var ErrMalformed = errors.New("malformed")

// AppendBytes appends b behind its length.
func AppendBytes[T ~[]byte | ~string](dst []byte, b T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// AppendBool appends one byte.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// Flags returns a byte with a bit for each of at most 8 values, the lowest first.
func Flags(bits ...bool) (f byte) {
	for i, on := range bits {
		if on {
			f |= 1 << i
		}
	}
	return f
}

// Reader takes values off the front of a buffer. After the first error all
// further reads return zero values; Err tells.
type Reader struct {
	buf []byte
	err error
}

// NewReader returns a reader of b. What Bytes returns is part of b.
func NewReader(b []byte) *Reader { return &Reader{buf: b} }

// Len returns how many bytes are left.
func (r *Reader) Len() int { return len(r.buf) }

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Done returns the first error, or one that says that bytes are left over.
func (r *Reader) Done() error {
	if r.err == nil && len(r.buf) > 0 {
		r.Failf("%d bytes left over", len(r.buf))
	}
	return r.err
}

// Fail makes err the reader's error, if it has none yet.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err, r.buf = err, nil
	}
}

// Failf is Fail with an error that wraps ErrMalformed.
func (r *Reader) Failf(format string, args ...any) {
	if r.err == nil {
		r.Fail(fmt.Errorf(format+": %w", append(args, ErrMalformed)...))
	}
}

func (r *Reader) short(what string) { r.Failf("cut off in %s", what) }

// Uvarint reads an unsigned varint.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.buf)
	if n <= 0 {
		r.short("a number")
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

// UpTo reads an unsigned varint; one above limit is an error.
func (r *Reader) UpTo(limit uint64) uint64 {
	v := r.Uvarint()
	if v > limit {
		r.Failf("number %d over %d", v, limit)
		return 0
	}
	return v
}

// Varint reads a signed varint.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.buf)
	if n <= 0 {
		r.short("a number")
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.buf) == 0 {
		r.short("a byte")
		return 0
	}
	b := r.buf[0]
	r.buf = r.buf[1:]
	return b
}

// Bool reads what AppendBool wrote; any other byte is an error.
func (r *Reader) Bool() bool {
	b := r.Byte()
	if b > 1 {
		r.Failf("%d is no boolean", b)
	}
	return b == 1
}

// Flags reads what Flags returned for n values; a further bit is an error.
func (r *Reader) Flags(n int) byte {
	f := r.Byte()
	if f>>n != 0 {
		r.Failf("flags %#x", f)
		return 0
	}
	return f
}

// Fixed reads n bytes. The result is part of the buffer.
func (r *Reader) Fixed(n int) []byte {
	if n < 0 || len(r.buf) < n {
		r.short("a fixed field")
		return nil
	}
	b := r.buf[:n:n]
	r.buf = r.buf[n:]
	return b
}

// Array16 reads 16 bytes.
func (r *Reader) Array16() (a [16]byte) {
	copy(a[:], r.Fixed(16))
	return a
}

// Uint64 reads 8 bytes, little-endian.
func (r *Reader) Uint64() uint64 {
	b := r.Fixed(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// Bytes reads a length and as many bytes, at most limit. The result is part of
// the buffer.
func (r *Reader) Bytes(limit int) []byte {
	n := r.Uvarint()
	if n > uint64(len(r.buf)) || n > uint64(limit) {
		r.Failf("a field of %d bytes, limit %d, %d left", n, limit, len(r.buf))
		return nil
	}
	b := r.buf[:n:n]
	r.buf = r.buf[n:]
	return b
}

// String is Bytes as a string of its own.
func (r *Reader) String(limit int) string { return string(r.Bytes(limit)) }

// Count reads the number of elements that follow, each of at least size bytes:
// a number that the rest of the buffer cannot hold is an error, so nothing is
// allocated for it.
func (r *Reader) Count(size int) int {
	n := r.Uvarint()
	if n > uint64(len(r.buf)/max(size, 1)) {
		r.Failf("%d elements in %d bytes", n, len(r.buf))
		return 0
	}
	return int(n)
}
