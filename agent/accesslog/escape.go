package accesslog

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// escaper adds p so that it can stand between quotes.
type escaper func(dst, p []byte) []byte

// appendJSON escapes for a JSON string. What is not UTF-8 is replaced, since
// JSON knows nothing else.
func appendJSON(dst, p []byte) []byte {
	from := 0
	for i := 0; i < len(p); {
		b := p[i]
		if b < utf8.RuneSelf {
			if b >= ' ' && b != '"' && b != '\\' && b != 0x7f {
				i++
				continue
			}
			dst = append(dst, p[from:i]...)
			switch b {
			case '"', '\\':
				dst = append(dst, '\\', b)
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
			}
			i++
			from = i
			continue
		}
		r, size := utf8.DecodeRune(p[i:])
		// The two separators end a line for some readers.
		if r != utf8.RuneError && r != '\u2028' && r != '\u2029' || r == utf8.RuneError && size > 1 {
			i += size
			continue
		}
		dst = append(dst, p[from:i]...)
		switch r {
		case '\u2028':
			dst = append(dst, `\u2028`...)
		case '\u2029':
			dst = append(dst, `\u2029`...)
		default:
			dst = append(dst, `\ufffd`...)
		}
		i += size
		from = i
	}
	return append(dst, p[from:]...)
}

// appendQuoted escapes as Apache and nginx do: quotes, backslashes, and every
// byte that is not printable ASCII as \xhh.
func appendQuoted(dst, p []byte) []byte {
	from := 0
	for i, b := range p {
		if b >= ' ' && b < 0x7f && b != '"' && b != '\\' {
			continue
		}
		dst = append(dst, p[from:i]...)
		if b == '"' || b == '\\' {
			dst = append(dst, '\\', b)
		} else {
			dst = append(dst, '\\', 'x', hexDigits[b>>4], hexDigits[b&15])
		}
		from = i + 1
	}
	return append(dst, p[from:]...)
}

// appendURL adds a request target or a referer with the secrets masked: values
// of path parameters, and of the query's parameters as q says, those named in
// secrets always.
func appendURL(dst, p []byte, q Query, secrets [2]string, esc escaper) []byte {
	path, query := p, []byte(nil)
	for i, b := range p {
		if b == '?' {
			path, query = p[:i], p[i+1:]
			break
		}
	}
	dst = appendPath(dst, path, esc)
	if len(path) == len(p) || q == QueryNone {
		return dst
	}
	dst = append(dst, '?')
	for {
		n := indexAny(query, '&', '=')
		name := query[:n]
		dst = esc(dst, name)
		if query = query[n:]; len(query) > 0 && query[0] == '=' {
			dst = append(dst, '=')
			n = indexAny(query, '&', '&')
			secret := len(name) > 0 && (string(name) == secrets[0] || string(name) == secrets[1])
			if q == QueryFull && !secret {
				dst = esc(dst, query[1:n])
			} else {
				dst = append(dst, '*')
			}
			query = query[n:]
		}
		if len(query) == 0 {
			return dst
		}
		dst = append(dst, '&')
		query = query[1:]
	}
}

// appendPath masks what follows a semicolon in each segment: that is where
// applications without cookies carry their sessions' ids.
func appendPath(dst, path []byte, esc escaper) []byte {
	for {
		n := indexAny(path, ';', ';')
		dst = esc(dst, path[:n])
		if path = path[n:]; len(path) == 0 {
			return dst
		}
		end := indexAny(path, '/', '/')
		name := path[:indexAny(path[:end], '=', '=')]
		dst = esc(dst, name)
		if len(name) < end {
			dst = append(dst, '=', '*')
		}
		path = path[end:]
	}
}

// indexAny returns where the first of two bytes is, or the length.
func indexAny(p []byte, a, b byte) int {
	for i, c := range p {
		if c == a || c == b {
			return i
		}
	}
	return len(p)
}
