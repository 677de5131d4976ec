//go:build !linux

package netloop

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// Loop does not exist here.
type Loop struct{}

// New returns ErrUnsupported.
func New(Options) (*Loop, error) { return nil, ErrUnsupported }

// Close does nothing.
func (*Loop) Close() {}

// Add returns ErrUnsupported.
func (*Loop) Add(int, Handler) (int32, error) { return -1, ErrUnsupported }

// Remove does nothing.
func (*Loop) Remove(int32) {}

// Again does nothing.
func (*Loop) Again(int32) {}

// Writable does nothing.
func (*Loop) Writable(int32) {}

// Run returns ErrUnsupported.
func (*Loop) Run(context.Context) error { return ErrUnsupported }

// Leave does nothing.
func (*Loop) Leave(int32) {}

// Listener does not exist here.
type Listener struct{}

// Listen returns ErrUnsupported.
func Listen(*net.TCPListener) (*Listener, error) { return nil, ErrUnsupported }

// Accept returns ErrUnsupported.
func (*Listener) Accept() (fd int, remote, local netip.AddrPort, err error) {
	return -1, remote, local, ErrUnsupported
}

// SetDeadline returns ErrUnsupported.
func (*Listener) SetDeadline(time.Time) error { return ErrUnsupported }

// Close does nothing.
func (*Listener) Close() error { return nil }

// Take takes nothing.
func Take(net.Conn) (int, bool) { return 0, false }

// Read returns ErrUnsupported.
func Read(int, []byte) (int, error) { return 0, ErrUnsupported }

// Write returns ErrUnsupported.
func Write(int, []byte) (int, error) { return 0, ErrUnsupported }

// Quiet returns false.
func Quiet(int) bool { return false }

// CloseWrite returns ErrUnsupported.
func CloseWrite(int) error { return ErrUnsupported }

// Close does nothing.
func Close(int) {}
