package proxyproto

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
)

// MaxHeader is the longest header that Read accepts. Addresses need 232 bytes
// at most; the rest is for fields that some balancers add, as certificates.
const MaxHeader = 16 << 10

// ErrMalformed means that a connection does not begin with a header, or with
// one that the specification does not allow.
var ErrMalformed = errors.New("malformed PROXY protocol header")

// Header is what a header says.
type Header struct {
	// Local means that the sender speaks for itself, as health checks do. Version
	// 1 has no word for it and says that the client is unknown.
	Local bool
	// Source and Destination are the client's and what it connected to. Neither is
	// valid where none is said, or where they are no IP addresses: then the
	// connection's own count.
	Source, Destination netip.AddrPort
}

// Version is one of the two forms of a header.
type Version uint8

// The versions: a line of text, and bytes.
const (
	V1 Version = 1
	V2 Version = 2
)

// start is how much tells the versions apart. No header is shorter.
const start = len(signature)

// Read reads one header, of whatever version. Errors other than those of r wrap
// ErrMalformed.
func Read(r io.Reader) (Header, error) {
	buf := make([]byte, start, maxLine)
	if err := fill(r, buf); err != nil {
		return Header{}, err
	}
	if string(buf) == signature {
		return readBytes(r, buf)
	}
	return readLine(r, buf)
}

// Append adds the header to dst. Addresses of different families are written
// as IPv6 ones.
func (v Version) Append(dst []byte, h Header) []byte {
	src, to := plain(h.Source), plain(h.Destination)
	if h.Local || !src.IsValid() || !to.IsValid() {
		src, to = netip.AddrPort{}, netip.AddrPort{}
	} else if src.Addr().Is4() != to.Addr().Is4() {
		src, to = wide(src), wide(to)
	}
	if v == V1 {
		return appendLine(dst, src, to)
	}
	return appendBytes(dst, h.Local, src, to)
}

// plain writes a v4 address as one, and drops what means something only on the
// machine that says it.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

func wide(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16(a.Addr().As16()), a.Port())
}

// fill reads all of buf. A connection that ends before its first byte gives
// io.EOF: nobody said anything.
func fill(r io.Reader, buf []byte) error {
	_, err := io.ReadFull(r, buf)
	return err
}

// more reads n more bytes behind buf.
func more(r io.Reader, buf []byte, n int) ([]byte, error) {
	old := len(buf)
	buf = append(buf, make([]byte, n)...)
	err := fill(r, buf[old:])
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return buf, err
}

func malformed(what string) error { return fmt.Errorf("%w: %s", ErrMalformed, what) }
