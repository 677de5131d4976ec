package http1

import "bytes"

// Known is the number of a field name that this package or a proxy has to
// treat in some way of its own; Other for all the rest.
type Known uint8

// The names with a treatment of their own.
const (
	Other Known = iota
	Connection
	ContentLength
	Cookie
	Date
	Expect
	Forwarded
	Host
	HTTP2Settings
	KeepAlive
	ProxyConnection
	SetCookie
	TE
	TransferEncoding
	Upgrade
	XForwardedFor
	XForwardedHost
	XForwardedProto
)

// Field is one header field. Its slices lie in the receive buffer.
type Field struct {
	Line        []byte // as it came, with its CRLF
	Name, Value []byte // Value without the whitespace around it
	Known       Known
}

func known(name []byte) Known {
	is := func(s string, k Known) Known {
		if EqualFold(name, s) {
			return k
		}
		return Other
	}
	switch len(name) {
	case 2:
		return is("te", TE)
	case 4:
		if name[0]|0x20 == 'd' {
			return is("date", Date)
		}
		return is("host", Host)
	case 6:
		if name[0]|0x20 == 'c' {
			return is("cookie", Cookie)
		}
		return is("expect", Expect)
	case 7:
		return is("upgrade", Upgrade)
	case 9:
		return is("forwarded", Forwarded)
	case 10:
		switch name[0] | 0x20 {
		case 'c':
			return is("connection", Connection)
		case 'k':
			return is("keep-alive", KeepAlive)
		}
		return is("set-cookie", SetCookie)
	case 14:
		if name[0]|0x20 == 'h' {
			return is("http2-settings", HTTP2Settings)
		}
		return is("content-length", ContentLength)
	case 15:
		return is("x-forwarded-for", XForwardedFor)
	case 16:
		if name[0]|0x20 == 'p' {
			return is("proxy-connection", ProxyConnection)
		}
		return is("x-forwarded-host", XForwardedHost)
	case 17:
		if name[0]|0x20 == 't' {
			return is("transfer-encoding", TransferEncoding)
		}
		return is("x-forwarded-proto", XForwardedProto)
	}
	return Other
}

// parseField reads one field line. A folded line starts with whitespace and so
// has no valid name.
func parseField(line []byte) (Field, error) {
	if len(line) < 2 || line[len(line)-2] != '\r' {
		return Field{}, ErrLineFeed
	}
	text := line[:len(line)-2]
	colon := bytes.IndexByte(text, ':')
	if colon <= 0 || !all(text[:colon], token) {
		return Field{}, ErrFieldName
	}
	f := Field{Line: line, Name: text[:colon], Value: trim(text[colon+1:])}
	if !all(f.Value, value) {
		return Field{}, ErrFieldValue
	}
	f.Known = known(f.Name)
	return f, nil
}

// Fields is what requests and responses share: the field lines, and what they
// say about body and connection.
type Fields struct {
	Minor  int // of HTTP/1.x: 0, or 1 for all later ones too
	Fields []Field

	Framing Framing
	Length  int64 // of a body framed by Length; else -1, or what a bodiless response says

	Close       bool // the connection ends after this message, by its version or its Connection field
	UpgradeAsk  bool // Connection names Upgrade
	hasLength   bool
	lengthText  []byte
	codings     int
	chunkedOnly bool
	chunkedLast bool
	named       [][]byte // other fields that Connection names
}

func (h *Fields) reset() {
	*h = Fields{Fields: h.Fields[:0], named: h.named[:0], Length: -1}
}

// parse reads the field lines up to and with the empty one.
func (h *Fields) parse(rest []byte) error {
	closes, keeps := false, false
	for {
		eol := bytes.IndexByte(rest, '\n')
		if eol < 0 {
			return ErrLineFeed
		}
		line := rest[:eol+1]
		rest = rest[eol+1:]
		if len(line) == 2 && line[0] == '\r' {
			break
		}
		f, err := parseField(line)
		if err != nil {
			return err
		}
		switch f.Known {
		case Connection:
			EachToken(f.Value, func(tok []byte) bool {
				switch {
				case EqualFold(tok, "close"):
					closes = true
				case EqualFold(tok, "keep-alive"):
					keeps = true
				case EqualFold(tok, "upgrade"):
					h.UpgradeAsk = true
				case EqualFold(tok, "te"):
				default:
					h.named = append(h.named, tok)
				}
				return true
			})
		case ContentLength:
			if err := h.length(f.Value); err != nil {
				return err
			}
		case TransferEncoding:
			h.coding(f.Value)
		}
		h.Fields = append(h.Fields, f)
	}
	h.Close = closes || h.Minor == 0 && !keeps
	return nil
}

// length takes a line that repeats the same number in the same form; anything
// else than one plain number is refused, a list too.
func (h *Fields) length(v []byte) error {
	n, err := parseLength(v)
	if err != nil || h.hasLength && !bytes.Equal(v, h.lengthText) {
		return ErrLength
	}
	h.Length, h.hasLength, h.lengthText = n, true, v
	return nil
}

func parseLength(v []byte) (n int64, err error) {
	if len(v) == 0 || len(v) > 18 {
		return 0, ErrLength
	}
	for _, b := range v {
		if b < '0' || b > '9' {
			return 0, ErrLength
		}
		n = n*10 + int64(b-'0')
	}
	return n, nil
}

// coding takes note of a Transfer-Encoding line. Only the one word chunked on
// the one line is understood, without any of the commas that a list may have:
// who is before us may not see through them.
func (h *Fields) coding(v []byte) {
	h.codings++
	last := trim(v[bytes.LastIndexByte(v, ',')+1:])
	h.chunkedLast = EqualFold(last, "chunked")
	h.chunkedOnly = h.codings == 1 && h.chunkedLast && len(last) == len(v)
}

// HopByHop reports whether f concerns this connection alone and must not be
// passed on. Framing fields count: who passes a message on frames it anew.
// TE is among them; see Request.Trailers.
func (h *Fields) HopByHop(f *Field) bool {
	switch f.Known {
	case Connection, ContentLength, TransferEncoding, KeepAlive, ProxyConnection, TE, Upgrade, HTTP2Settings:
		return true
	case Host:
		return false
	}
	for _, n := range h.named {
		if bytes.EqualFold(n, f.Name) {
			return true
		}
	}
	return false
}
