package http1

import (
	"bytes"
	"net/netip"
)

// Framing says where a message's body ends.
type Framing uint8

// The ways a body can end.
const (
	NoBody     Framing = iota // at once
	Sized                     // after Length bytes
	Chunked                   // with the last chunk and the trailer section
	UntilClose                // with the connection; responses only
)

// Request is the head of a request. All slices lie in the receive buffer. A
// Request is used again for the next head on its connection.
type Request struct {
	Fields
	Method []byte
	Target []byte // origin-form or "*"; what absolute-form said about the host is in Host
	Path   []byte // Target up to the query
	Query  []byte // what follows the first "?", nil without one
	Host   []byte // as received, with its port; nil in an HTTP/1.0 request without

	Expect   bool   // asks for 100-continue, in HTTP/1.1
	Trailers bool   // TE says that trailers are welcome
	Protocol []byte // the first protocol of Upgrade when Connection names it too
}

// Parse reads a complete head, from the request line to the empty line. An
// error is an *Error and tells the status to answer with.
func (q *Request) Parse(head []byte) error {
	q.Fields.reset()
	*q = Request{Fields: q.Fields}
	eol := bytes.IndexByte(head, '\n')
	if eol < 1 || head[eol-1] != '\r' {
		return ErrLineFeed
	}
	absolute, err := q.line(head[:eol-1])
	if err != nil {
		return err
	}
	if err := q.parse(head[eol+1:]); err != nil {
		return err
	}
	return q.meaning(absolute)
}

func (q *Request) line(line []byte) (absolute bool, err error) {
	sp := bytes.IndexByte(line, ' ')
	last := bytes.LastIndexByte(line, ' ')
	if sp <= 0 || last == sp {
		return false, ErrRequestLine
	}
	q.Method, q.Target = line[:sp], line[sp+1:last]
	if !all(q.Method, token) {
		return false, ErrRequestLine
	}
	if q.Minor, err = version(line[last+1:]); err != nil {
		if string(line) == "PRI * HTTP/2.0" {
			err = ErrPreface
		}
		return false, err
	}
	if len(q.Target) == 0 || !all(q.Target, target) {
		return false, ErrTarget
	}
	switch {
	case string(q.Method) == "CONNECT":
		return false, ErrMethod
	case q.Target[0] == '/':
	case len(q.Target) == 1 && q.Target[0] == '*':
		if string(q.Method) != "OPTIONS" {
			return false, ErrTarget
		}
	default:
		if err := q.absolute(); err != nil {
			return false, err
		}
		absolute = true
	}
	q.Path = q.Target
	if i := bytes.IndexByte(q.Target, '?'); i >= 0 {
		q.Path, q.Query = q.Target[:i], q.Target[i+1:]
	}
	return absolute, nil
}

func version(v []byte) (minor int, err error) {
	if len(v) != 8 || string(v[:5]) != "HTTP/" || v[6] != '.' || v[5] < '0' || v[5] > '9' || v[7] < '0' || v[7] > '9' {
		return 0, ErrRequestLine
	}
	if v[5] != '1' {
		return 0, ErrVersion
	}
	if v[7] == '0' {
		return 0, nil
	}
	return 1, nil // a later minor version may be treated as the highest known
}

// absolute splits an absolute-form target into Host and an origin-form one.
func (q *Request) absolute() error {
	colon := bytes.IndexByte(q.Target, ':')
	if colon < 0 || !EqualFold(q.Target[:colon], "http") && !EqualFold(q.Target[:colon], "https") {
		return ErrTarget
	}
	rest, ok := bytes.CutPrefix(q.Target[colon+1:], []byte("//"))
	if !ok {
		return ErrTarget
	}
	end := bytes.IndexAny(rest, "/?")
	switch {
	case end < 0:
		q.Host = rest
		q.Target = []byte("/")
		if string(q.Method) == "OPTIONS" {
			q.Target = []byte("*")
		}
	case rest[end] == '?':
		q.Host = rest[:end]
		q.Target = append([]byte("/"), rest[end:]...)
	default:
		q.Host, q.Target = rest[:end], rest[end:]
	}
	if len(q.Host) == 0 || !validHost(q.Host) {
		return ErrTarget
	}
	return nil
}

func (q *Request) meaning(absolute bool) error {
	hosts := 0
	for i := range q.Fields.Fields {
		f := &q.Fields.Fields[i]
		switch f.Known {
		case Host:
			hosts++
			if !validHost(f.Value) {
				return ErrHost
			}
			if !absolute {
				q.Host = f.Value
			}
		case Expect:
			q.Expect = q.Minor > 0 && EqualFold(f.Value, "100-continue")
		case TE:
			EachToken(f.Value, func(tok []byte) bool {
				q.Trailers = q.Trailers || EqualFold(tok, "trailers")
				return true
			})
		case Upgrade:
			if q.UpgradeAsk && q.Minor > 0 && q.Protocol == nil {
				EachToken(f.Value, func(tok []byte) bool { q.Protocol = tok; return false })
			}
		}
	}
	if hosts > 1 || hosts == 0 && q.Minor > 0 {
		return ErrHost
	}
	switch {
	case q.codings > 0:
		switch {
		case q.hasLength:
			return ErrBothFramings
		case !q.chunkedLast || q.Minor == 0:
			return ErrCoding
		case !q.chunkedOnly:
			return ErrCodingUnknown
		}
		q.Framing = Chunked
	case q.hasLength && q.Length > 0:
		q.Framing = Sized
	}
	if q.Framing == NoBody {
		q.Expect = false // nothing to wait with
	}
	return nil
}

// HasLength reports whether the request says Content-Length, be it 0.
func (q *Request) HasLength() bool { return q.hasLength }

// Idempotent reports whether the method may be sent twice without being asked
// for twice (RFC 9110, section 9.2.2).
func (q *Request) Idempotent() bool {
	switch string(q.Method) {
	case "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE":
		return true
	}
	return false
}

// validHost accepts uri-host [":" port]; an empty host is what clients send
// for a URI without one.
func validHost(h []byte) bool {
	name, port := h, []byte(nil)
	if len(h) > 0 && h[0] == '[' {
		end := bytes.IndexByte(h, ']')
		if end < 0 {
			return false
		}
		a, err := netip.ParseAddr(string(h[1:end]))
		if err != nil || !a.Is6() || a.Zone() != "" {
			return false
		}
		if end+1 == len(h) {
			return true
		}
		if h[end+1] != ':' {
			return false
		}
		name, port = nil, h[end+2:]
	} else if i := bytes.IndexByte(h, ':'); i >= 0 {
		if i == 0 {
			return false
		}
		name, port = h[:i], h[i+1:]
	}
	if !all(name, reg) {
		return false
	}
	n := 0
	for _, b := range port {
		if b < '0' || b > '9' {
			return false
		}
		if n = n*10 + int(b-'0'); n > 65535 {
			return false
		}
	}
	return true
}
