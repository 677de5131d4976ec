package http2

import (
	"crypto/rand"
	"encoding/base64"
	"strconv"
	"strings"
)

// open checks the header section of a request, and notes how its body is
// framed. What it accepts can be written as HTTP/1.1 that has one reading.
func (s *stream) open(b *block) error {
	method, path, scheme, authority, protocol := b.value(":method"), b.value(":path"), b.value(":scheme"), b.find(":authority"), b.find(":protocol")
	switch {
	case method == "" || strings.ContainsAny(method, " \t") || b.find(":status") != nil || len(b.pseudo) > b.known():
		return errPseudo
	case method == "CONNECT" && protocol == nil:
		if path != "" || scheme != "" || authority == nil {
			return errPseudo
		}
	case path == "" || scheme == "" || protocol != nil && (method != "CONNECT" || protocol.Value == ""):
		return errPseudo
	case path[0] != '/' && !(path == "*" && method == "OPTIONS"), strings.ContainsAny(path, " \t"):
		return errTarget
	}
	host := authority
	for i := range b.fields {
		f := &b.fields[i]
		switch {
		case hop(f.Name), f.Name == "te" && f.Value != "trailers":
			return errHop
		case f.Name != "host":
		case host != nil && !strings.EqualFold(host.Value, f.Value):
			return errHost
		default:
			host = f
		}
	}
	if authority != nil && authority.Value == "" || host != nil && strings.ContainsAny(host.Value, " \t") {
		return errHost
	}
	length, err := b.length()
	if err != nil {
		return err
	}
	s.method = []byte(method)
	switch {
	case protocol != nil:
		s.body = tunnel
		s.method = []byte("GET")
	case b.end && length > 0:
		return errLength
	case !b.end && length < 0:
		s.body = chunked
	default:
		s.left = max(length, 0)
	}
	return nil
}

func (b *block) value(name string) string {
	if f := b.find(name); f != nil {
		return f.Value
	}
	return ""
}

// known counts the pseudo-header fields that a request may have.
func (b *block) known() (n int) {
	for _, name := range []string{":method", ":path", ":scheme", ":authority", ":protocol"} {
		if b.find(name) != nil {
			n++
		}
	}
	return n
}

// appendRequest writes a request's head down as HTTP/1.1.
func (s *stream) appendRequest(dst []byte, b *block) []byte {
	target, host := b.value(":path"), b.value(":authority")
	if target == "" {
		target = host
	}
	dst = append(dst, s.requestMethod(b)...)
	dst = append(dst, ' ')
	dst = append(dst, target...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	known := b.find(":authority") != nil
	if known {
		dst = appendLine(dst, "host", host)
	}
	keyed, crumbs := false, 0
	for i := range b.fields {
		f := &b.fields[i]
		switch f.Name {
		case "content-length":
			continue
		case "host":
			if known {
				continue
			}
			known = true
		case "cookie":
			crumbs++
			continue
		case "sec-websocket-key":
			keyed = true
		}
		dst = appendLine(dst, f.Name, f.Value)
	}
	if crumbs > 0 {
		dst = b.appendCookie(dst)
	}
	switch {
	case s.body == tunnel:
		if !keyed { // a handshake of HTTP/2 has none
			var key [16]byte
			rand.Read(key[:])
			dst = appendLine(dst, "sec-websocket-key", base64.StdEncoding.EncodeToString(key[:]))
		}
		dst = appendLine(dst, "connection", "upgrade")
		dst = appendLine(dst, "upgrade", b.value(":protocol"))
	case s.body == chunked:
		dst = append(dst, "transfer-encoding: chunked\r\n"...)
	default:
		if n, _ := b.length(); n >= 0 {
			dst = append(dst, "content-length: "...)
			dst = append(strconv.AppendInt(dst, n, 10), "\r\n"...)
		}
	}
	return append(dst, "\r\n"...)
}

func (s *stream) requestMethod(b *block) string {
	if s.body == tunnel {
		return "GET"
	}
	return b.value(":method")
}

// appendCookie joins the crumbs that HTTP/2 lets a cookie be broken into.
func (b *block) appendCookie(dst []byte) []byte {
	sep := "cookie: "
	for i := range b.fields {
		if f := &b.fields[i]; f.Name == "cookie" {
			dst = append(append(dst, sep...), f.Value...)
			sep = "; "
		}
	}
	return append(dst, "\r\n"...)
}
