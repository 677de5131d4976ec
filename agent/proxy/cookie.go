package proxy

import (
	"bytes"
	"strconv"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
)

// tagLen is the length of an instance's tag in the cookie.
const tagLen = 11

// cookieValue returns the first value of a cookie in the request, or nil.
func cookieValue(q *http1.Request, name string) []byte { return nthCookie(q, name, 0) }

// nthCookie returns a further value of a cookie that the request brings more
// than once, counted from 0, or nil.
func nthCookie(q *http1.Request, name string, n int) []byte {
	for i := range q.Fields.Fields {
		f := &q.Fields.Fields[i]
		if f.Known != http1.Cookie {
			continue
		}
		for rest := f.Value; len(rest) > 0; {
			var one []byte
			one, rest, _ = bytes.Cut(rest, []byte{';'})
			for len(one) > 0 && (one[0] == ' ' || one[0] == '\t') {
				one = one[1:]
			}
			if len(one) > len(name) && one[len(name)] == '=' && string(one[:len(name)]) == name {
				if n--; n < 0 {
					return bytes.TrimRight(one[len(name)+1:], " \t")
				}
			}
		}
	}
	return nil
}

// splitCookie takes a cookie's value apart. Either part may be missing; what
// they are worth is checked elsewhere. What follows a further dot is of a later
// version, whose cookies are honoured so far, as long as agents of both run.
func splitCookie(v []byte) (id, tag []byte) {
	if len(v) > 512 {
		return nil, nil
	}
	id, rest, _ := bytes.Cut(v, []byte{'.'})
	tag, _, _ = bytes.Cut(rest, []byte{'.'})
	if len(tag) != tagLen {
		tag = nil
	}
	return id, tag
}

// appendCookie adds the Set-Cookie line that binds a client.
func appendCookie(dst []byte, s *Sticky, id, tag string, https bool) []byte {
	dst = append(dst, "Set-Cookie: "...)
	dst = append(dst, s.Cookie...)
	dst = append(dst, '=')
	dst = append(dst, id...)
	dst = append(dst, '.')
	dst = append(dst, tag...)
	if s.MaxAge > 0 {
		dst = append(dst, "; Max-Age="...)
		dst = strconv.AppendInt(dst, int64(s.MaxAge/time.Second), 10)
	}
	return appendAttributes(dst, s, https)
}

// appendExpired adds the Set-Cookie line that takes the cookie away: with the
// same Path and Domain, or the browser would hold it for another one.
func appendExpired(dst []byte, s *Sticky, https bool) []byte {
	dst = append(dst, "Set-Cookie: "...)
	dst = append(dst, s.Cookie...)
	dst = append(dst, "=; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT"...)
	return appendAttributes(dst, s, https)
}

func appendAttributes(dst []byte, s *Sticky, https bool) []byte {
	dst = append(dst, "; Path="...)
	dst = append(dst, s.Path...)
	if s.Domain != "" {
		dst = append(dst, "; Domain="...)
		dst = append(dst, s.Domain...)
	}
	if s.HTTPOnly {
		dst = append(dst, "; HttpOnly"...)
	}
	if s.SameSite != "" {
		dst = append(dst, "; SameSite="...)
		dst = append(dst, s.SameSite...)
	}
	// Browsers refuse SameSite=None without Secure.
	if s.Secure == SecureOn || s.Secure == SecureAuto && https || s.SameSite == "None" {
		dst = append(dst, "; Secure"...)
	}
	return append(dst, "\r\n"...)
}
