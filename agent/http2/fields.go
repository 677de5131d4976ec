package http2

import (
	"bytes"

	"golang.org/x/net/http2/hpack"

	"github.com/rondel-project/rondel/agent/http1"
)

// names are those that are met all the time, as they are written on either
// side. It is filled once and only read afterwards.
var names = func() map[string]string {
	m := map[string]string{}
	for _, n := range []string{
		"Accept", "Accept-Encoding", "Accept-Language", "Accept-Ranges", "Age", "Authorization", "Cache-Control",
		"Content-Encoding", "Content-Length", "Content-Type", "Cookie", "Date", "ETag", "Etag", "Expires", "Forwarded",
		"If-Modified-Since", "If-None-Match", "Last-Modified", "Location", "Max-Forwards", "Origin", "Range", "Referer",
		"Rondel-Request-Id", "Rondel-Session", "Server", "Set-Cookie", "Strict-Transport-Security", "Trailer", "User-Agent",
		"Vary", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Retry-After",
	} {
		l := string(bytes.ToLower([]byte(n)))
		m[n], m[l] = l, l
	}
	return m
}()

func lower(name []byte) string {
	if l, ok := names[string(name)]; ok {
		return l
	}
	return string(bytes.ToLower(name))
}

// once reports whether a field should not be kept for later ones to refer to:
// it differs each time, or it is a secret and this connection carries those of
// many (RFC 7541, section 7.1).
func once(name string) bool {
	switch name {
	case "rondel-request-id", "rondel-session", "set-cookie", "cookie", "authorization", "content-length", "x-forwarded-for", "forwarded", "etag", ":path":
		return true
	}
	return false
}

// field adds a field to the section that is being encoded.
func (m *mux) field(name, value string, sensitive bool) {
	m.enc.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: sensitive || once(name)}) // into a buffer, which does not fail
}

// responseFields adds a response's fields. With tunnel set those of an
// HTTP/1.1 handshake are left out.
func (m *mux) responseFields(r *http1.Response, tunnel bool) {
	for i := range r.Fields.Fields {
		f := &r.Fields.Fields[i]
		switch {
		case f.Known == http1.ContentLength && !tunnel && r.Status >= 200:
		case r.HopByHop(f), tunnel && http1.EqualFold(f.Name, "sec-websocket-accept"):
			continue
		}
		m.field(lower(f.Name), string(f.Value), false)
	}
}

// requestFields adds a request's fields.
func (m *mux) requestFields(q *http1.Request) {
	for i := range q.Fields.Fields {
		f := &q.Fields.Fields[i]
		switch {
		case f.Known == http1.ContentLength:
		case f.Known == http1.Host, q.HopByHop(f):
			continue
		}
		m.field(lower(f.Name), string(f.Value), false)
	}
	if q.Trailers {
		m.field("te", "trailers", false)
	}
}

// hop reports whether a field concerns one connection alone. HTTP/2 has none of them.
func hop(name string) bool {
	switch name {
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "http2-settings":
		return true
	}
	return false
}

func parseLength(v string) (n int64, ok bool) {
	if v == "" || len(v) > 18 {
		return 0, false
	}
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(v[i]-'0')
	}
	return n, true
}

// length returns what a section says of its body's length, or -1.
func (b *block) length() (int64, error) {
	length := int64(-1)
	for i := range b.fields {
		if f := &b.fields[i]; f.Name == "content-length" {
			n, ok := parseLength(f.Value)
			if !ok || length >= 0 && n != length {
				return 0, errLength
			}
			length = n
		}
	}
	return length, nil
}
