package proxy

import (
	"bytes"
	"strconv"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
)

// ours reports whether a field name is one that only the proxy may write. An
// underscore counts as a dash, since many applications cannot tell them apart:
// in such a spelling the fields that frame a message are of that kind too.
func ours(name []byte) bool {
	switch len(name) {
	case 14:
		return foldDash(name, "rondel-session") || foldDash(name, "content-length")
	case 17:
		return foldDash(name, "rondel-request-id") || foldDash(name, "x-forwarded-proto") || foldDash(name, "transfer-encoding")
	case 15:
		return foldDash(name, "x-forwarded-for")
	case 16:
		return foldDash(name, "x-forwarded-host")
	}
	return false
}

// forwardedBy reports whether a field is one of the many in which proxies tell
// of the client: from anybody else they are lies.
func forwardedBy(name []byte) bool {
	const prefix = "x-forwarded-"
	return len(name) > len(prefix) && foldDash(name[:len(prefix)], prefix)
}

func foldDash(name []byte, lower string) bool {
	for i, b := range name {
		if b >= 'A' && b <= 'Z' {
			b |= 0x20
		}
		if b == '_' {
			b = '-'
		}
		if b != lower[i] {
			return false
		}
	}
	return true
}

// fieldValue returns the value of the first field of a name, or nil.
func fieldValue(q *http1.Request, lower string) []byte {
	for i := range q.Fields.Fields {
		if f := &q.Fields.Fields[i]; http1.EqualFold(f.Name, lower) {
			return f.Value
		}
	}
	return nil
}

// appendRequest adds the head of the request as an instance gets it.
func (x *exchange) appendRequest(dst []byte) []byte {
	q := x.q
	dst = append(dst, q.Method...)
	dst = append(dst, ' ')
	dst = append(dst, q.Target...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	if q.Host != nil {
		dst = appendField(dst, "Host", q.Host)
	} else { // HTTP/1.0 without one: the address that was connected to
		dst = appendField(dst, "Host", x.c.in.LocalAddr().String())
	}
	left, bounded := forwards(q)
	for i := range q.Fields.Fields {
		f := &q.Fields.Fields[i]
		switch f.Known {
		case http1.Host, http1.XForwardedFor, http1.XForwardedHost, http1.XForwardedProto, http1.Forwarded:
			continue
		case http1.Expect:
			if q.Minor == 0 || http1.EqualFold(f.Value, "100-continue") && !x.expects {
				continue
			}
		case http1.Other:
			// Request trailers do not go on, so neither does their announcement.
			if ours(f.Name) || !x.origin.trusted && forwardedBy(f.Name) || http1.EqualFold(f.Name, "trailer") ||
				bounded && http1.EqualFold(f.Name, "max-forwards") {
				continue
			}
		}
		if !q.HopByHop(f) {
			dst = append(dst, f.Line...)
		}
	}
	dst = x.c.peer.appendForwarded(dst, q, &x.origin)
	if x.id != "" {
		dst = appendField(dst, "Rondel-Session", x.id)
	}
	dst = appendField(dst, "Rondel-Request-Id", x.reqID[:])
	if bounded {
		dst = append(dst, "Max-Forwards: "...)
		dst = append(strconv.AppendInt(dst, int64(left-1), 10), "\r\n"...)
	}
	if x.c.stream != nil {
		dst = append(dst, "Via: 2 rondel\r\n"...)
	} else {
		dst = append(dst, "Via: 1."...)
		dst = append(dst, '0'+byte(q.Minor))
		dst = append(dst, " rondel\r\n"...)
	}
	switch {
	case x.passUpgrade():
		dst = append(dst, "Connection: Upgrade\r\n"...)
		dst = appendField(dst, "Upgrade", q.Protocol)
	case q.Trailers:
		dst = append(dst, "Connection: TE\r\nTE: trailers\r\n"...)
	}
	switch {
	case q.Framing == http1.Chunked:
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	case q.HasLength():
		dst = appendLength(dst, q.Length)
	}
	return append(dst, "\r\n"...)
}

// passUpgrade reports whether the request's wish for another protocol is
// passed on: the first one that is allowed of those it names, which becomes
// q.Protocol, and no body in the way.
func (x *exchange) passUpgrade() bool {
	if x.q.Protocol == nil || x.q.Framing != http1.NoBody {
		return false
	}
	found := false
	for i := range x.q.Fields.Fields {
		if f := &x.q.Fields.Fields[i]; f.Known == http1.Upgrade && !found {
			http1.EachToken(f.Value, func(tok []byte) bool {
				for _, p := range x.snap.cfg.Upgrades {
					if http1.EqualFold(tok, p) {
						x.q.Protocol, found = tok, true
						break
					}
				}
				return !found
			})
		}
	}
	return found
}

func appendLength(dst []byte, n int64) []byte {
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, "\r\n"...)
}

func (x *exchange) appendStatus(dst []byte) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(x.resp.Status), 10)
	dst = append(dst, ' ')
	dst = append(dst, x.resp.Reason...)
	return append(dst, "\r\n"...)
}

// appendFields adds the response's own fields that go on, and returns the
// value of Rondel-Session, which does not.
func (x *exchange) appendFields(dst []byte) (_, session []byte) {
	r := &x.resp
	dated := false
	for i := range r.Fields.Fields {
		f := &r.Fields.Fields[i]
		if f.Known == http1.Other && ours(f.Name) && f.Name[0]|0x20 == 'r' {
			if session == nil && http1.EqualFold(f.Name, "rondel-session") {
				session = f.Value
			}
			continue
		}
		if !r.HopByHop(f) {
			dst = append(dst, f.Line...)
			dated = dated || f.Known == http1.Date
		}
	}
	if !dated && r.Status >= 200 {
		dst = appendField(dst, "Date", x.p.date.at(time.Now()))
	}
	return dst, session
}

// appendResponse adds the head of the final response as the client gets it.
func (x *exchange) appendResponse(dst []byte, keep, chunk bool) []byte {
	r := &x.resp
	dst, session := x.appendFields(x.appendStatus(dst))
	dst = x.appendBinding(dst, session)
	dst = appendField(dst, "Rondel-Request-Id", x.reqID[:])
	bodiless := r.Status == 304 || string(x.q.Method) == "HEAD"
	switch {
	case r.Status == 204 || r.Status < 200:
	case x.q.Minor > 0 && (chunk || r.Framing == http1.Chunked || bodiless && r.Status != 304 && r.SaysChunked()):
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	case r.HasLength() && !r.SaysChunked():
		dst = appendLength(dst, r.Length)
	}
	switch {
	case !keep:
		dst = append(dst, "Connection: close\r\n"...)
	case x.q.Minor == 0:
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// appendInterim adds a 1xx as the client gets it.
func (x *exchange) appendInterim(dst []byte) []byte {
	dst, _ = x.appendFields(x.appendStatus(dst))
	return append(dst, "\r\n"...)
}

// appendBinding adds the Set-Cookie line if the client's cookie is to change:
// a new id, another instance than its tag says, or what the application wants
// by Rondel-Session. Otherwise nothing is said.
func (x *exchange) appendBinding(dst, session []byte) []byte {
	s, cl := &x.rt.Sticky, &x.choose.claim
	if s.Cookie == "" || x.p.sessions == nil {
		return dst
	}
	if string(session) == "drop" {
		x.learn("", "")
		if len(cookieValue(x.q, s.Cookie)) == 0 {
			return dst
		}
		return appendExpired(dst, s, x.origin.https)
	}
	id := x.id
	if len(session) > 0 {
		if _, _, err := x.p.sessions.Parse(string(session)); err == nil {
			id = string(session)
		} else {
			x.p.log.Warn("application answered an id that the cluster did not issue", "instance", x.inst.ID, "error", err)
		}
	}
	if id == "" || x.inst.tag == "" {
		return dst
	}
	if cl.standing == wanted && id == x.id {
		x.inst.fresh.Add(1)
	}
	x.learn(id, x.inst.tag)
	if id == cl.id && !cl.bare && (cl.tag == x.inst.tag || x.choose.foreignTag()) {
		return dst
	}
	return appendCookie(dst, s, id, x.inst.tag, x.origin.https)
}

// hashKey returns what the route hashes on, or nothing.
func (x *exchange) hashKey() []byte {
	rt := x.rt
	switch rt.HashOn {
	case HashHeader:
		for i := range x.q.Fields.Fields {
			if f := &x.q.Fields.Fields[i]; bytes.EqualFold(f.Name, []byte(rt.HashName)) {
				return f.Value
			}
		}
	case HashQuery:
		for rest := x.q.Query; len(rest) > 0; {
			var one []byte
			one, rest, _ = bytes.Cut(rest, []byte{'&'})
			name, value, _ := bytes.Cut(one, []byte{'='})
			if string(name) == rt.HashName {
				return value
			}
		}
	case HashCookie:
		return cookieValue(x.q, rt.HashName)
	case HashPath:
		return x.q.Path
	case HashClientIP:
		return x.origin.client
	}
	return nil
}
