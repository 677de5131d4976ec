package http1

import "bytes"

// Response is the head of a response. All slices lie in the receive buffer.
type Response struct {
	Fields
	Status int
	Reason []byte
}

// Parse reads a complete head of an answer to a request with this method.
func (p *Response) Parse(head []byte, method []byte) error {
	p.Fields.reset()
	*p = Response{Fields: p.Fields}
	eol := bytes.IndexByte(head, '\n')
	if eol < 1 || head[eol-1] != '\r' {
		return ErrLineFeed
	}
	line := head[:eol-1]
	// The space after the status may be missing along with the reason, as
	// some servers have it.
	if len(line) < 12 || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return ErrStatusLine
	}
	var err error
	if p.Minor, err = version(line[:8]); err != nil {
		return ErrStatusLine
	}
	for _, b := range line[9:12] {
		if b < '0' || b > '9' {
			return ErrStatusLine
		}
		p.Status = p.Status*10 + int(b-'0')
	}
	if len(line) > 13 {
		p.Reason = line[13:]
	}
	if p.Status < 100 || !all(p.Reason, value) {
		return ErrStatusLine
	}
	if err := p.parse(head[eol+1:]); err != nil {
		return err
	}
	return p.frame(method)
}

func (p *Response) frame(method []byte) error {
	switch {
	case p.Status < 200 || p.Status == 204 || p.Status == 304 || string(method) == "HEAD":
		p.Framing = NoBody
	case p.codings > 0:
		// A length beside chunked is ignored, as the RFC has it, but such a
		// server is not to be trusted with a second message.
		if !p.chunkedOnly || p.Minor == 0 {
			return ErrCodingUnknown
		}
		p.Framing, p.Close = Chunked, p.Close || p.hasLength
	case p.hasLength:
		p.Framing = Sized
		if p.Length == 0 {
			p.Framing = NoBody
		}
	default:
		p.Framing, p.Close = UntilClose, true
	}
	return nil
}

// HasLength reports whether the response says Content-Length.
func (p *Response) HasLength() bool { return p.hasLength }

// SaysChunked reports whether the response names the chunked coding, be it one
// that has no body.
func (p *Response) SaysChunked() bool { return p.chunkedOnly }
