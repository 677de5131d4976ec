package http2

import (
	"strconv"
	"strings"

	"golang.org/x/net/http2"

	"github.com/rondel-project/rondel/agent/http1"
)

// mostInterim bounds responses before the final one that nobody has read.
const mostInterim = 100

// errResponse is a response that makes no sense.
var errResponse = &http1.Error{Status: 502, Reason: "malformed HTTP/2 response"}

// respond takes a header section of a response: an interim one, the head, or
// the trailers.
func (s *stream) respond(b *block) error {
	if s.headed {
		return s.trailersLocked(b, true)
	}
	if b.over {
		return s.refuse(http1.ErrHeadSize)
	}
	status, ok := parseLength(b.value(":status"))
	if !ok || len(b.value(":status")) != 3 || len(b.pseudo) != 1 || status < 100 || status == 101 || b.bad != nil {
		return s.refuse(errResponse)
	}
	announced := false
	for i := range b.fields {
		f := &b.fields[i]
		if hop(f.Name) {
			return s.refuse(errResponse)
		}
		// A length would leave trailers no place in HTTP/1.1.
		announced = announced || f.Name == "trailer" || f.Name == "content-type" && strings.HasPrefix(strings.ToLower(f.Value), "application/grpc")
	}
	if status < 200 {
		if s.interim++; b.end || s.interim > mostInterim {
			return s.refuse(errResponse)
		}
		s.p.in = append(appendHead(s.p.in, int(status), b), "\r\n"...)
		s.p.rd.cond.Broadcast()
		return nil
	}
	length, err := b.length()
	if err != nil {
		return s.refuse(errResponse)
	}
	bodiless := string(s.method) == "HEAD" || status == 204 || status == 304
	if b.end && length > 0 && !bodiless {
		return s.refuse(errResponse)
	}
	in := appendHead(s.p.in, int(status), b)
	switch {
	case bodiless || b.end || length >= 0 && !announced:
		if b.end && !bodiless {
			length = 0
		}
		if length >= 0 && status != 204 {
			in = append(in, "content-length: "...)
			in = append(strconv.AppendInt(in, length, 10), "\r\n"...)
		}
		if s.body = sized; !bodiless {
			s.left = length
		}
	default:
		s.body = chunked
		in = append(in, "transfer-encoding: chunked\r\n"...)
	}
	s.p.in = append(in, "\r\n"...)
	s.headed = true
	s.p.rd.cond.Broadcast()
	if b.end {
		s.gotLocked()
	}
	return nil
}

// refuse ends the stream for a response that is of no use.
func (s *stream) refuse(why *http1.Error) error {
	s.m.resetLocked(s, http2.ErrCodeProtocol, why)
	return nil
}

func appendHead(dst []byte, status int, b *block) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = append(strconv.AppendInt(dst, int64(status), 10), " \r\n"...)
	for i := range b.fields {
		if f := &b.fields[i]; f.Name != "content-length" {
			dst = appendLine(dst, f.Name, f.Value)
		}
	}
	return dst
}
