package gossip

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// errMalformed means that bytes from another agent cannot be understood.
var errMalformed = errors.New("malformed gossip message")

// The reader and the append functions below are the whole wire format:
// big-endian numbers, and byte strings behind their length as a varint.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if v := r.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	if r.bad {
		return 0
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	return r.take(int(n))
}

func (r *reader) string() string { return string(r.bytes()) }

func (r *reader) id16() (v [16]byte) {
	copy(v[:], r.take(16))
	return v
}

func (r *reader) addrPort() netip.AddrPort {
	var a netip.AddrPort
	if err := a.UnmarshalBinary(r.bytes()); err != nil {
		r.bad = true
	}
	return a
}

// count reads a number of items of at least size bytes each, so that a broken
// number cannot make the reader allocate.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > uint64(len(r.b)/size) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *reader) err() error {
	if r.bad {
		return errMalformed
	}
	return nil
}

func appendBytes[T string | []byte](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

func appendAddrPort(b []byte, a netip.AddrPort) []byte {
	v, _ := a.MarshalBinary() // never fails
	return appendBytes(b, v)
}
