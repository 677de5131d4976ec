package http2

import "errors"

// ErrUnprocessed means that the instance has declared that it did not look at
// a request: sent again, it will not be answered twice.
var ErrUnprocessed = errors.New("the instance did not process the request")

// ErrReset means that the peer has given up one stream, while its connection
// goes on.
var ErrReset = errors.New("stream was reset")

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
