package http2

import (
	"errors"

	"golang.org/x/net/http2"
)

// ErrUnprocessed means that the instance has declared that it did not look at
// a request: sent again, it will not be answered twice.
var ErrUnprocessed = errors.New("the instance did not process the request")

// ErrReset means that the peer has given up one stream, while its connection
// goes on.
var ErrReset = errors.New("stream was reset")

// ResetError is ErrReset with the peer's reason.
type ResetError struct {
	Code http2.ErrCode
}

// Error implements error.
func (e *ResetError) Error() string { return ErrReset.Error() + " by the peer: " + e.Code.String() }

// Cancel reports whether the peer has called the request off: it found nothing wrong.
func (e *ResetError) Cancel() bool { return e.Code == http2.ErrCodeCancel }

// Unwrap returns ErrReset.
func (e *ResetError) Unwrap() error { return ErrReset }

// ErrClosed means that a Client was closed.
var ErrClosed = errors.New("closed")

var (
	errLost     = errors.New("connection lost")
	errNoRoom   = errors.New("no connection has room for another stream")
	errSilent   = errors.New("the instance does not answer pings")
	errBeyond   = errors.New("bytes beyond the message's end")
	errChunk    = errors.New("malformed chunk")
	errPreface  = errors.New("not HTTP/2")
	errPseudo   = errors.New("malformed pseudo-header fields")
	errField    = errors.New("malformed field")
	errHop      = errors.New("connection-specific field")
	errHost     = errors.New("host differs from :authority")
	errTarget   = errors.New("malformed :path")
	errLength   = errors.New("content-length differs from the body's")
	errTrailer  = errors.New("malformed trailer section")
	errNoTunnel = errors.New("only tunnels have halves")
)
