package httpapi

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
	"github.com/rondel-project/rondel/agent/session"
	"github.com/rondel-project/rondel/api"
)

// maxLoopHead bounds a request's head in a loop.
const maxLoopHead = 8 << 10

const sessionsPath = "/v1/sessions/"

// loopAsk is the request that a connection is at.
type loopAsk struct {
	asked
	op    *session.Request
	known entityTags
	began time.Time

	host  []byte    // the last one that was found to be ours
	rules *rules    // by these
	lines [3]string // what the lines of asked are cut from
}

// next takes the first request of those received. Without an operation, did
// says why there is none, and nothing is consumed.
func (c *loopConn) next() (op *session.Request, did step) {
	received := c.buf[c.r:c.w]
	end, ok := headEnd(received)
	switch {
	case !ok, end == 0 && len(received) > maxLoopHead, end > maxLoopHead:
		return nil, stepLeave
	case end == 0:
		return nil, stepMore
	}
	head, body := received[:end], received[end:]
	if c.head.Parse(head) != nil || !c.plain(head) {
		return nil, stepLeave
	}
	kind, ok := c.target()
	if !ok {
		return nil, stepLeave
	}
	length := 0
	if c.head.Framing == http1.Sized {
		if c.head.Length > int64(maxLoopBuffer-end) {
			return nil, stepLeave
		}
		if length = int(c.head.Length); length > len(body) {
			return nil, stepMore
		}
	}
	if op = c.operation(kind, body[:length]); op == nil {
		return nil, stepLeave
	}
	if c.ask.op = op; c.ls.s.tells() {
		c.ask.began = time.Now()
	}
	if c.r += end + length; c.r < c.w {
		c.since.Store(c.ls.second.Load())
	}
	return op, stepNext
}

// headEnd returns where the first head ends, or 0 while that has not arrived.
// It reports false for a head with lines that net/http or a refusal is for.
func headEnd(b []byte) (end int, ok bool) {
	for line := 0; ; {
		nl := bytes.IndexByte(b[line:], '\n')
		switch {
		case nl < 0:
			return 0, true
		case nl == 0, b[line+nl-1] != '\r', nl == 1 && line == 0:
			return 0, false
		case nl == 1:
			return line + 2, true
		}
		line += nl + 1
	}
}

// plain reports whether the head says nothing but what a loop knows, and notes
// what operations go by. Names that it does not know may mean something to the
// guard or to net/http.
func (c *loopConn) plain(head []byte) bool {
	h, a := &c.head, &c.ask
	line := head[:bytes.IndexByte(head, '\r')]
	if !bytes.HasSuffix(line, []byte(" HTTP/1.1")) || line[len(h.Method)+1] != '/' || h.Query != nil ||
		h.Close || h.UpgradeAsk || h.Framing == http1.Chunked {
		return false
	}
	a.ifMatch, a.ifNoneMatch, a.keys = nil, nil, nil
	lengths := 0
	for i := range h.Fields.Fields {
		f := &h.Fields.Fields[i]
		switch f.Known {
		case http1.Host:
			if r := c.ls.s.rules.Load(); r != a.rules || !bytes.Equal(f.Value, a.host) {
				if len(f.Value) == 0 || !r.guard.own(string(f.Value)) {
					return false
				}
				a.host, a.rules = bytes.Clone(f.Value), r
			}
		case http1.ContentLength:
			lengths++
		case http1.Connection, http1.KeepAlive:
		case http1.Other:
			if !c.field(f) {
				return false
			}
		default:
			return false
		}
	}
	return lengths <= 1
}

// field notes a field that means something to operations, and reports whether
// it is known at all.
func (c *loopConn) field(f *http1.Field) bool {
	a := &c.ask
	note := func(lines *[]string, at *string) bool {
		if *lines != nil {
			return false // a second line
		}
		*at = string(f.Value)
		return true
	}
	switch {
	case http1.EqualFold(f.Name, "user-agent"), http1.EqualFold(f.Name, "accept"), http1.EqualFold(f.Name, "accept-encoding"),
		http1.EqualFold(f.Name, "content-type"), http1.EqualFold(f.Name, "accept-language"):
		return true
	case http1.EqualFold(f.Name, "if-none-match") && note(&a.ifNoneMatch, &a.lines[0]):
		a.ifNoneMatch = a.lines[0:1]
		return true
	case http1.EqualFold(f.Name, "if-match") && note(&a.ifMatch, &a.lines[1]):
		a.ifMatch = a.lines[1:2]
		return true
	case http1.EqualFold(f.Name, "idempotency-key") && note(&a.keys, &a.lines[2]):
		a.keys = a.lines[2:3]
		return true
	}
	return false
}

// target reads method and path: a session's, and for a touch one segment more.
func (c *loopConn) target() (session.Kind, bool) {
	id, ok := bytes.CutPrefix(c.head.Path, []byte(sessionsPath))
	if !ok {
		return 0, false
	}
	touch := false
	if string(c.head.Method) == "POST" {
		id, touch = bytes.CutSuffix(id, []byte("/touch"))
		if !touch {
			return 0, false
		}
	}
	if len(id) != session.IDLen {
		return 0, false
	}
	for _, b := range id {
		if !('a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '_') {
			return 0, false
		}
	}
	a := &c.ask
	a.method = methodName(c.head.Method)
	a.params[0] = string(id)
	if !session.ID(a.params[0]).Issued() {
		return 0, false
	}
	a.escaped = ""
	if a.keys != nil {
		a.escaped = string(c.head.Path)
	}
	switch a.method {
	case http.MethodGet:
		return session.Get, true
	case http.MethodPut:
		return session.Put, true
	case http.MethodPatch:
		return session.Patch, true
	case http.MethodDelete:
		return session.Delete, true
	case http.MethodPost:
		return session.Touch, true
	}
	return 0, false
}

// operation returns nil for requests that are to be refused, and for those with
// a body that they should not have: the handlers know how.
func (c *loopConn) operation(kind session.Kind, body []byte) (op *session.Request) {
	a := &c.ask
	var err error
	switch kind {
	case session.Put, session.Patch:
		if body, err = checkBody(body); err == nil {
			op, err = a.writing(kind, body)
		}
	default:
		if len(body) > 0 {
			return nil
		}
		op, err = a.operation(kind)
	}
	a.known = entityTags{}
	if err == nil && kind == session.Get {
		a.known, err = a.asked.known()
	}
	if err != nil {
		return nil
	}
	return op
}

// answer writes the answer that the handlers would give.
func (c *loopConn) answer(resp *session.Response) {
	s, a, now := c.ls.s, &c.ask, time.Now()
	c.last = c.ls.door.stopping.Load()
	status := http.StatusOK
	if err := refusal(a.op, resp); err != nil {
		e := toAPI(err)
		status = e.StatusCode
		if status == http.StatusInternalServerError {
			s.log.Error("request failed", "method", a.method, "route", a.route(), "error", err)
		}
		c.compose(now, status, nil, e, errorJSON(e))
	} else if a.op.Kind != session.Get {
		c.compose(now, status, &resp.Version, nil, mutationJSON(a.op.Kind, resp))
	} else if v := viewOf(resp, now); a.known.has(v.version) {
		status = http.StatusNotModified
		c.compose(now, status, &v.version, nil, nil)
	} else {
		buf := s.buffers.Get().(*[]byte)
		text := v.appendJSON((*buf)[:0])
		c.compose(now, status, &v.version, nil, text)
		if cap(text) <= largeAnswer {
			*buf = text
			s.buffers.Put(buf)
		}
	}
	if s.tells() && !a.began.IsZero() {
		s.log.Debug("request", "method", a.method, "route", a.route(), "status", status, "duration", time.Since(a.began))
	}
	a.op, a.began = nil, time.Time{}
}

func (a *loopAsk) route() string {
	if a.method == http.MethodPost {
		return sessionsPath + ":id/touch"
	}
	return sessionsPath + ":id"
}

// compose puts the answer together and sends it, with the fields that the
// handlers set, in the order of their names.
func (c *loopConn) compose(now time.Time, status int, v *session.Version, e *api.Error, body []byte) {
	buf := c.ls.s.buffers.Get().(*[]byte)
	b := append((*buf)[:0], "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(append(b, ' '), http.StatusText(status)...)
	if status != http.StatusNotModified {
		b = append(b, "\r\nCache-Control: no-store\r\nContent-Length: "...)
		b = strconv.AppendInt(b, int64(len(body)), 10)
		b = append(b, "\r\nContent-Type: application/json"...)
	}
	if v != nil {
		b = append(v.Append(append(b, "\r\nEtag: \""...)), '"')
	}
	if status == http.StatusServiceUnavailable {
		b = append(append(b, "\r\nRetry-After: "...), retryAfter(e.RetryAfter)...)
	}
	b = c.ls.dates.append(append(b, "\r\nDate: "...), now)
	if c.last {
		b = append(b, "\r\nConnection: close"...)
	}
	b = append(append(b, "\r\n\r\n"...), body...)
	c.send(b)
	if cap(b) <= largeAnswer {
		*buf = b
		c.ls.s.buffers.Put(buf)
	}
}
