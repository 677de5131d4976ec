package http1

import (
	"errors"
	"net/http"
)

// Error says why a message was refused, and with which status a client that
// sent it is to be answered. A response that fails to parse is a 502 whatever
// Status says.
type Error struct {
	Status int
	Reason string
}

func (e *Error) Error() string { return e.Reason }

// Why a message head or a body is refused.
var (
	ErrLineFeed      = &Error{http.StatusBadRequest, "line does not end in CRLF"}
	ErrRequestLine   = &Error{http.StatusBadRequest, "malformed request line"}
	ErrStatusLine    = &Error{http.StatusBadGateway, "malformed status line"}
	ErrTarget        = &Error{http.StatusBadRequest, "malformed request target"}
	ErrVersion       = &Error{http.StatusHTTPVersionNotSupported, "only HTTP/1.0 and HTTP/1.1 are spoken here"}
	ErrPreface       = &Error{http.StatusHTTPVersionNotSupported, "HTTP/2 without TLS is not spoken here"}
	ErrMethod        = &Error{http.StatusNotImplemented, "method not supported"}
	ErrFieldName     = &Error{http.StatusBadRequest, "malformed field name"}
	ErrFieldValue    = &Error{http.StatusBadRequest, "control byte in a field value"}
	ErrHost          = &Error{http.StatusBadRequest, "exactly one valid Host field is needed"}
	ErrLength        = &Error{http.StatusBadRequest, "malformed or conflicting Content-Length"}
	ErrBothFramings  = &Error{http.StatusBadRequest, "Content-Length beside Transfer-Encoding"}
	ErrCoding        = &Error{http.StatusBadRequest, "transfer coding does not end in chunked"}
	ErrCodingUnknown = &Error{http.StatusNotImplemented, "transfer coding other than chunked"}
	ErrChunk         = &Error{http.StatusBadRequest, "malformed chunk"}
	ErrTrailer       = &Error{http.StatusBadRequest, "malformed or oversized trailer section"}
	ErrHeadSize      = &Error{http.StatusRequestHeaderFieldsTooLarge, "header section over the limit"}
	ErrLineSize      = &Error{http.StatusRequestURITooLong, "request line over the limit"}
)

// ErrClosed means that the other side closed between two messages, which is
// how connections end as a rule.
var ErrClosed = errors.New("connection closed between messages")
