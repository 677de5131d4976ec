package proxy

import (
	"bytes"
	"errors"

	"github.com/rondel-project/rondel/agent/http2"
)

// grpc reports whether the request is a call, whose outcome its client reads
// from trailers, or from the code that its stream was reset with.
func (x *exchange) grpc() bool {
	return bytes.HasPrefix(fieldValue(x.q, "content-type"), []byte("application/grpc"))
}

// calledOff reports whether the instance has ended a call that nobody waits for
// any more: both sides know a call's deadline, and the instance's clock may run
// out first. That is no fault of the instance, and another one would be too late.
func (x *exchange) calledOff(err error) bool {
	var reset *http2.ResetError
	return errors.As(err, &reset) && reset.Cancel() && x.grpc()
}

// resetToo ends a call that the instance has reset as the instance has, and
// reports whether it was one whose client can be told so: an error page would
// hide from it what became of the call.
func (x *exchange) resetToo() bool {
	return x.reset != nil && x.grpc() && x.c.closeFor(x.reset)
}

// closeFor closes the connection, on which an answer is not going to be whole,
// and reports whether that can tell the reason.
func (c *conn) closeFor(err error) bool {
	s, ok := c.in.Conn.(interface{ CloseFor(error) error })
	if ok {
		s.CloseFor(err)
	}
	return ok
}
