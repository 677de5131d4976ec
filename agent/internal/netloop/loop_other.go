//go:build !linux

package netloop

import (
	"context"
	"net"
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
