package http1

import "bytes"

// What one body may spend on chunk extensions and on its trailer section.
const (
	maxExtensions = 16 << 10
	maxTrailer    = 64 << 10
)

type chunkState uint8

const (
	sizeStart chunkState = iota
	sizeDigits
	extension
	sizeLF
	dataBytes
	dataCR
	dataLF
	trailer
	chunkDone
)

// chunkReader checks a chunked body as it passes and turns each received block,
// in place, into what goes on: the same chunks without extensions, or the bare
// data where the reader of it does not know chunks.
type chunkReader struct {
	state   chunkState
	last    bool // the size read last was 0
	bare    bool
	digits  int
	left    uint64
	data    int64 // bytes in chunks so far
	extra   int
	section []byte            // trailer section so far
	keep    func([]byte) bool // which trailer fields go on; nil: none
}

// step consumes as much of p as belongs to the body and returns what goes on.
// That lies in p unless trailer fields are passed on.
func (c *chunkReader) step(p []byte) (out []byte, used int, err error) {
	o, i := 0, 0
	for i < len(p) && c.state != chunkDone {
		b := p[i]
		switch c.state {
		case sizeStart, sizeDigits:
			if v, ok := hex(b); ok {
				if c.digits++; c.digits > 15 {
					return p[:o], i, ErrChunk
				}
				c.left, c.state = c.left<<4|uint64(v), sizeDigits
				break
			}
			if c.state == sizeStart {
				return p[:o], i, ErrChunk
			}
			fallthrough
		case extension:
			if err := c.sizeEnd(b); err != nil {
				return p[:o], i, err
			}
			if c.state != sizeLF {
				i++
				continue
			}
		case sizeLF:
			if b != '\n' {
				return p[:o], i, ErrChunk
			}
			c.digits, c.last, c.state = 0, c.left == 0, dataBytes
			if c.last {
				c.state = trailer
			}
		case dataBytes:
			n := len(p) - i
			if uint64(n) > c.left {
				n = int(c.left)
			}
			if o != i {
				copy(p[o:], p[i:i+n])
			}
			o, i, c.left = o+n, i+n, c.left-uint64(n)
			c.data += int64(n)
			if c.left == 0 {
				c.state = dataCR
			}
			continue
		case dataCR:
			if b != '\r' {
				return p[:o], i, ErrChunk
			}
			c.state = dataLF
		case dataLF:
			if b != '\n' {
				return p[:o], i, ErrChunk
			}
			c.state = sizeStart
		case trailer:
			return c.trailers(p, o, i)
		}
		if !c.bare {
			p[o] = b
			o++
		}
		i++
	}
	return p[:o], i, nil
}

// sizeEnd reads what may stand between the size and its line's end.
func (c *chunkReader) sizeEnd(b byte) error {
	switch {
	case b == '\r':
		c.state = sizeLF
		return nil
	case c.state == extension:
		if classes[b]&value == 0 {
			return ErrChunk
		}
	case b == ';':
		c.state = extension
	default:
		return ErrChunk
	}
	if c.extra++; c.extra > maxExtensions {
		return ErrChunk
	}
	return nil
}

// trailers gathers the trailer section and, at its end, adds what is kept.
func (c *chunkReader) trailers(p []byte, o, i int) (out []byte, used int, err error) {
	for i < len(p) {
		nl := bytes.IndexByte(p[i:], '\n')
		line := p[i:]
		if nl >= 0 {
			line = p[i : i+nl+1]
		}
		i += len(line)
		c.section = append(c.section, line...)
		if len(c.section) > maxTrailer {
			return p[:o], i, ErrTrailer
		}
		if nl < 0 {
			break
		}
		if !bytes.HasSuffix(c.section, []byte("\r\n")) {
			return p[:o], i, ErrTrailer
		}
		if len(c.section) == 2 || bytes.HasSuffix(c.section, []byte("\n\r\n")) {
			c.state = chunkDone
			break
		}
	}
	if c.state != chunkDone {
		return p[:o], i, nil
	}
	var kept []byte
	for rest := c.section[:len(c.section)-2]; len(rest) > 0; {
		eol := bytes.IndexByte(rest, '\n')
		f, err := parseField(rest[:eol+1])
		if err != nil {
			return p[:o], i, ErrTrailer
		}
		if rest = rest[eol+1:]; f.mayTrail() && c.keep != nil && c.keep(f.Name) {
			kept = append(kept, f.Line...)
		}
	}
	if c.bare {
		return p[:o], i, nil
	}
	if len(kept) > 0 || i-o < 2 { // what goes on may not fit before what came
		out = append(make([]byte, 0, o+len(kept)+2), p[:o]...)
		return append(append(out, kept...), "\r\n"...), i, nil
	}
	return append(p[:o], "\r\n"...), i, nil
}

// mayTrail refuses fields that say how a message is framed, routed or passed
// on: those count only in the head.
func (f *Field) mayTrail() bool { return f.Known == Other }

func hex(b byte) (v byte, ok bool) {
	switch {
	case b >= '0' && b <= '9':
		return b - '0', true
	case b >= 'a' && b <= 'f':
		return b - 'a' + 10, true
	case b >= 'A' && b <= 'F':
		return b - 'A' + 10, true
	}
	return 0, false
}

// AppendChunk adds one chunk that holds data, which must not be empty.
func AppendChunk(dst, data []byte) []byte {
	const digits = "0123456789abcdef"
	started := false
	for shift := 60; shift >= 0; shift -= 4 {
		if d := len(data) >> shift & 15; d != 0 || started {
			dst, started = append(dst, digits[d]), true
		}
	}
	dst = append(dst, "\r\n"...)
	dst = append(dst, data...)
	return append(dst, "\r\n"...)
}

// LastChunk ends a chunked body without trailers.
const LastChunk = "0\r\n\r\n"
