package gossip

import (
	"fmt"
	"net/netip"

	"github.com/rondel-project/rondel/agent/internal/codec"
)

// errMalformed means that bytes from another agent cannot be understood.
var errMalformed = fmt.Errorf("%w gossip message", codec.ErrMalformed)

// reader takes a message apart; codec has the wire format.
type reader struct{ *codec.Reader }

func newReader(b []byte) reader { return reader{codec.NewReader(b)} }

// bytes reads as many as there are: a message is short.
func (r reader) bytes() []byte { return r.Bytes(r.Len()) }

func (r reader) text() string { return string(r.bytes()) }

func (r reader) addrPort() netip.AddrPort {
	var a netip.AddrPort
	if err := a.UnmarshalBinary(r.bytes()); err != nil {
		r.Fail(err)
	}
	return a
}

// err returns errMalformed after any error.
func (r reader) err() error {
	if r.Err() != nil {
		return errMalformed
	}
	return nil
}

func appendAddrPort(b []byte, a netip.AddrPort) []byte {
	v, _ := a.MarshalBinary() // never fails
	return codec.AppendBytes(b, v)
}
