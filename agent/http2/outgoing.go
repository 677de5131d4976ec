package http2

import (
	"bytes"

	"golang.org/x/net/http2"

	"github.com/rondel-project/rondel/agent/http1"
)

type outState uint8

const (
	atHead outState = iota
	inSized
	inChunks
	inTunnel
)

// outgoing turns the HTTP/1.1 that is written to a pipe into frames. That
// comes from this program's own hand, so it is well formed, but in pieces.
type outgoing struct {
	state  outState
	left   int64
	chunks dechunker
	head   []byte // of a head that has not come as a whole
	resp   http1.Response
	req    http1.Request
}

var headEnd = []byte("\r\n\r\n")

// step sends a part of b and returns how much that was.
func (o *outgoing) step(p *pipe, b []byte) (used int, err error) {
	switch o.state {
	case inSized:
		n := min(int64(len(b)), o.left)
		if err := p.data(b[:n], n == o.left); err != nil {
			return 0, err
		}
		if o.left -= n; o.left == 0 {
			o.state = atHead
		}
		return int(n), nil
	case inChunks:
		data, n, done, err := o.chunks.next(b)
		if err != nil {
			return 0, err
		}
		if len(data) > 0 && string(b[n:]) == "\r\n"+http1.LastChunk {
			n, done = len(b), true // one frame for both
		}
		trailers := done && !o.chunks.bare()
		if len(data) > 0 || done && !trailers {
			if err := p.data(data, done); err != nil {
				return 0, err
			}
		}
		if trailers {
			err = p.trailers(o.chunks.section)
		}
		if done {
			o.state = atHead
		}
		return n, err
	case inTunnel:
		if err := p.data(b, false); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	head, rest := b, []byte(nil)
	if len(o.head) > 0 {
		head = append(o.head, b...)
	}
	end := bytes.Index(head, headEnd)
	if end < 0 {
		o.head = append(o.head[:0], head...)
		return len(b), nil
	}
	end += len(headEnd)
	head, rest = head[:end], head[end:]
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.host.head(p, head, rest)
	if err != nil {
		return 0, err
	}
	o.head = nil
	return len(b) - len(rest) + n, nil
}

// body notes what follows a head. It reports whether nothing does, and how
// much of rest says so.
func (o *outgoing) body(f http1.Framing, length int64, rest []byte) (end bool, used int) {
	switch f {
	case http1.Sized:
		o.state, o.left = inSized, length
	case http1.Chunked:
		if string(rest) == http1.LastChunk {
			return true, len(rest)
		}
		o.state, o.chunks = inChunks, dechunker{section: o.chunks.section[:0]}
	default:
		return true, 0
	}
	return false, 0
}

// trailers sends a trailer section, which ends the message.
func (p *pipe) trailers(section []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.s
	if err := p.clearLocked(s); err != nil {
		return err
	}
	for len(section) > 2 {
		eol := bytes.IndexByte(section, '\n')
		name, value, _ := bytes.Cut(section[:eol], []byte(":"))
		s.m.field(lower(name), string(bytes.TrimSpace(value)), false)
		section = section[eol+1:]
	}
	s.m.headersLocked(s.id, true)
	s.sentLocked()
	return nil
}

func flagEnd(end bool) http2.Flags {
	if end {
		return http2.FlagDataEndStream
	}
	return 0
}

// dechunker takes the chunks off a body.
type dechunker struct {
	state   dechunk
	left    uint64
	line    int
	section []byte // the trailer section, with the empty line that ends it
}

type dechunk uint8

const (
	chunkSize dechunk = iota
	chunkExt
	chunkData
	chunkEnd
	chunkTrailer
)

// next returns a piece of the data, which lies in p, and how much of p is
// done with.
func (d *dechunker) next(p []byte) (data []byte, used int, done bool, err error) {
	for used < len(p) {
		b := p[used]
		switch d.state {
		case chunkSize, chunkExt:
			used++
			switch v := unhex(b); {
			case b == '\n':
				if d.line == 0 {
					return nil, used, false, errChunk
				}
				d.state, d.line = chunkData, 0
				if d.left == 0 {
					d.state = chunkTrailer
				}
			case d.state == chunkExt || b == '\r' || b == ';':
				d.state = chunkExt
			case v < 0 || d.line == 15:
				return nil, used, false, errChunk
			default:
				d.line++
				d.left = d.left<<4 | uint64(v)
			}
		case chunkData:
			n := int(min(d.left, uint64(len(p)-used)))
			if d.left -= uint64(n); d.left == 0 {
				d.state = chunkEnd
			}
			return p[used : used+n], used + n, false, nil
		case chunkEnd:
			used++
			if b == '\n' {
				d.state = chunkSize
			} else if b != '\r' {
				return nil, used, false, errChunk
			}
		case chunkTrailer:
			used++
			d.section = append(d.section, b)
			if b == '\n' && (len(d.section) == 2 || bytes.HasSuffix(d.section, headEnd)) {
				return nil, used, true, nil
			}
		}
	}
	return nil, used, false, nil
}

// bare reports whether there are no trailers.
func (d *dechunker) bare() bool { return len(d.section) <= 2 }

func unhex(b byte) int {
	switch {
	case b >= '0' && b <= '9':
		return int(b - '0')
	case b|0x20 >= 'a' && b|0x20 <= 'f':
		return int(b|0x20-'a') + 10
	}
	return -1
}
