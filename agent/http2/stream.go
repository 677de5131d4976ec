package http2

import (
	"golang.org/x/net/http2"

	"github.com/rondel-project/rondel/agent/http1"
)

// stream is one request with its response. The connection's lock guards it.
type stream struct {
	m  *mux
	id uint32
	p  *pipe // who uses it

	method  []byte // of the request
	err     error  // why it ended before both sides had
	sent    bool   // this side has ended
	got     bool   // the other side has
	window  int64  // for the body sent
	room    int64  // for the body received
	owed    int64  // of it, received and not read
	unsaid  int64  // of it, read and not given back
	headed  bool   // the head of what is received was complete
	interim int    // responses before the final one
	body    framing
	left    int64 // of a body with a length
}

// framing is how a received body is written down.
type framing uint8

const (
	sized   framing = iota // its length was told, and is left
	chunked                // in chunks
	tunnel                 // bytes as they are, both ways
)

// failLocked ends a stream early.
func (s *stream) failLocked(err error) {
	if s.err == nil {
		s.err = err
	}
	if s.p != nil {
		s.p.rd.cond.Broadcast()
		s.p.wr.cond.Broadcast()
	}
}

// dataLocked takes a piece of the body. size is what it takes of the window.
func (s *stream) dataLocked(data []byte, size int64, end bool) error {
	m := s.m
	if s.got || !s.headed {
		m.owedLocked(size)
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeStreamClosed}
	}
	if s.room -= size; s.room < 0 {
		m.owedLocked(size)
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeFlowControl}
	}
	p := s.p
	s.owed += size
	switch s.body {
	case sized:
		if s.left -= int64(len(data)); s.left < 0 || end && s.left > 0 {
			return malformed(s.id, errLength)
		}
		p.in = append(p.in, data...)
	case chunked:
		if len(data) > 0 {
			p.in = http1.AppendChunk(p.in, data)
		}
		if end {
			p.in = append(p.in, http1.LastChunk...)
		}
	case tunnel:
		p.in = append(p.in, data...)
	}
	if size > int64(len(data)) || len(data) == 0 { // padding, or nothing at all, has no reader to give it back
		s.returnLocked(size - int64(len(data)))
	}
	if end {
		s.gotLocked()
	}
	p.rd.cond.Broadcast()
	return nil
}

// trailersLocked takes the section that ends a body.
func (s *stream) trailersLocked(b *block, pass bool) error {
	if s.got {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeStreamClosed}
	}
	switch {
	case !b.end || len(b.pseudo) > 0 || b.bad != nil || b.over || s.body == tunnel:
		return malformed(s.id, errTrailer)
	case s.body == sized && s.left > 0:
		return malformed(s.id, errLength)
	}
	if s.body == chunked {
		p := s.p
		p.in = append(p.in, "0\r\n"...)
		for i := range b.fields {
			if f := &b.fields[i]; pass {
				p.in = appendLine(p.in, f.Name, f.Value)
			}
		}
		p.in = append(p.in, "\r\n"...)
	}
	s.gotLocked()
	s.p.rd.cond.Broadcast()
	return nil
}

func (s *stream) gotLocked() {
	s.got = true
	if s.sent {
		s.m.endedLocked(s)
	}
}

func (s *stream) sentLocked() {
	s.sent = true
	if s.got {
		s.m.endedLocked(s)
	}
}

// readLocked gives back what of the window n bytes that were read have used.
// They may be more than the body's own, never fewer.
func (s *stream) readLocked(n int) { s.returnLocked(min(int64(n), s.owed)) }

func (s *stream) returnLocked(n int64) {
	s.owed -= n
	s.unsaid += n
	if !s.got && s.err == nil && s.unsaid >= s.m.limit.stream/4 {
		s.m.windowLocked(s.id, s.unsaid)
		s.room += s.unsaid
		s.unsaid = 0
	}
	s.m.owedLocked(n)
}

// owedLocked gives back what was received on any stream.
func (m *mux) owedLocked(n int64) {
	if m.owed += n; m.owed >= m.limit.all/4 && m.err == nil {
		m.windowLocked(0, m.owed)
		m.room += m.owed
		m.owed = 0
	}
}

func malformed(id uint32, why error) error {
	return http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol, Cause: why}
}

func appendLine(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}
