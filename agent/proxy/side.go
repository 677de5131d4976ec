package proxy

import (
	"errors"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
)

// side is the goroutine that looks after the client's half of the connection
// while the main one waits for the instance: it passes on a body that had not
// arrived as a whole, then watches whether the client is still there. Most
// requests need none. While it runs it alone reads from the client.
type side struct {
	done chan struct{}

	stop     atomic.Bool  // set before the client's connection is interrupted
	gone     atomic.Bool  // the client closed or broke
	stuck    atomic.Bool  // the instance takes no more of the body
	consumed atomic.Bool  // the whole body was received
	finished atomic.Int64 // when the whole body was sent on, in unix nanoseconds; 0: not yet
	refused  atomic.Pointer[http1.Error]
	broken   bool // the instance's connection failed; to be read after done
}

// startSide starts it, to pump the body first or only to watch.
func startSide(x *exchange, pump bool) *side {
	s := &side{done: make(chan struct{})}
	if !pump {
		s.consumed.Store(true)
		s.finished.Store(1)
	}
	in, up := x.c.in, x.up
	go func() {
		defer close(s.done)
		if !pump || s.pump(x, in, up) {
			s.watch(in, up)
		}
	}()
	return s
}

// refusedSide is one that has ended already with a refusal.
func refusedSide(bad *http1.Error) *side {
	s := &side{done: make(chan struct{})}
	s.refused.Store(bad)
	close(s.done)
	return s
}

// verdict reports what the side has to say that ends the wait for a response;
// answered means that there is nothing.
func (s *side) verdict() outcome {
	switch {
	case s == nil:
	case s.gone.Load():
		return hungUp
	case s.refused.Load() != nil:
		return refused
	case s.stuck.Load():
		return timedOut
	}
	return answered
}

// refusal returns the status to answer with.
func (s *side) refusal() *http1.Error {
	if bad := s.refused.Load(); bad != nil {
		return bad
	}
	return &http1.Error{Status: http.StatusBadRequest, Reason: "malformed body"}
}

// pump passes the body on. It reports whether the client is worth watching.
func (s *side) pump(x *exchange, in, up *http1.Conn) bool {
	t := &x.snap.cfg.Timeouts
	var big *[]byte
	defer func() {
		if big != nil {
			x.p.buffers.Put(big)
		}
	}()
	var space []byte
	var rate pace
	for {
		began := time.Now()
		in.ReadWithin(began, t.Body)
		if s.stop.Load() {
			return false
		}
		piece, done, err := x.body.Next(in, space)
		if err == nil {
			err = x.measure()
		}
		if err == nil && !done && rate.tooSlow(len(piece), time.Since(began), x.snap.cfg.Limits.MinRate, t.Body) {
			err = os.ErrDeadlineExceeded
		}
		if err != nil {
			s.client(err, up)
			return false
		}
		x.record(piece)
		if done {
			s.consumed.Store(true)
		}
		if len(piece) > 0 {
			up.WriteWithin(time.Now(), x.rt.Timeouts.Send) // the piece may have been long in coming
			if s.stop.Load() {                             // looked at after the deadline, which undoes end's
				up.HurryWrite(lastWrite)
			}
			if _, err := up.Write(piece); err != nil {
				s.broken = true
				if errors.Is(err, os.ErrDeadlineExceeded) && !s.stop.Load() {
					s.stuck.Store(true)
					up.Interrupt()
				}
				return false
			}
		}
		if done {
			s.finished.Store(time.Now().UnixNano())
			return true
		}
		if big == nil && len(piece) >= clientBuffer/2 {
			big = x.p.buffers.Get().(*[]byte)
			space = *big
		}
	}
}

// watch waits for the client to close. What it sends meanwhile is kept for
// later, as much as there is space for.
func (s *side) watch(in, up *http1.Conn) {
	in.ReadWithin(time.Now(), 0)
	for !s.stop.Load() {
		if err := in.Fill(); err != nil {
			if departed(err) {
				s.client(err, up)
			}
			return
		}
	}
}

// client notes what is wrong with the client and wakes the main goroutine.
func (s *side) client(err error, up *http1.Conn) {
	var bad *http1.Error
	switch {
	case s.stop.Load():
		return
	case errors.As(err, &bad):
		s.refused.Store(bad)
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.refused.Store(&http1.Error{Status: http.StatusRequestTimeout, Reason: "the request body took too long"})
	default:
		s.gone.Store(true)
	}
	up.Interrupt()
}

// lastWrite is how long the instance has to take the rest of a body after it
// has answered.
const lastWrite = time.Second

// end stops the side and waits for it. It reports whether the connection to the
// instance is still good.
func (s *side) end(x *exchange) bool {
	s.stop.Store(true)
	x.c.in.Interrupt()
	hurried := s.finished.Load() == 0
	if hurried {
		x.up.HurryWrite(lastWrite)
	}
	<-s.done
	x.c.in.Resume()
	if hurried { // it may have been done but for saying so, and then the connection is used again
		x.up.ResumeWrite()
	}
	return s.finished.Load() != 0 && !s.broken
}
