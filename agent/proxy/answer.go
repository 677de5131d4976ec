package proxy

import (
	"net/http"
	"strconv"
	"time"
)

// answer is a response of the proxy's own.
type answer struct {
	status    int
	text      string
	date      string
	requestID []byte
	location  []byte
	cookie    []byte // a whole Set-Cookie line
	close     bool
	keepAlive bool // say so, to an HTTP/1.0 client
	body      bool // false for HEAD
}

// appendAnswer adds the answer in one piece.
func appendAnswer(dst []byte, a answer) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(a.status), 10)
	dst = append(dst, ' ')
	dst = append(dst, http.StatusText(a.status)...)
	dst = append(dst, "\r\nCache-Control: no-store\r\n"...)
	if a.status != http.StatusNoContent {
		dst = append(dst, "Content-Type: text/plain; charset=utf-8\r\nContent-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(a.text)+1), 10)
		dst = append(dst, "\r\n"...)
	}
	if a.date != "" {
		dst = appendField(dst, "Date", a.date)
	}
	if len(a.requestID) > 0 {
		dst = appendField(dst, "Rondel-Request-Id", a.requestID)
	}
	if len(a.location) > 0 {
		dst = appendField(dst, "Location", a.location)
		dst = append(dst, "Referrer-Policy: no-referrer\r\n"...)
	}
	dst = append(dst, a.cookie...)
	switch a.status {
	case http.StatusServiceUnavailable:
		dst = append(dst, "Retry-After: 1\r\n"...)
	case http.StatusMethodNotAllowed:
		dst = append(dst, "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n"...)
	}
	switch {
	case a.close:
		dst = append(dst, "Connection: close\r\n"...)
	case a.keepAlive:
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	dst = append(dst, "\r\n"...)
	if a.length() == 0 {
		return dst
	}
	dst = append(dst, a.text...)
	return append(dst, '\n')
}

// length returns how long the answer's body is.
func (a *answer) length() int {
	if !a.body || a.status == http.StatusNoContent {
		return 0
	}
	return len(a.text) + 1
}

func appendField[T string | []byte](dst []byte, name string, value T) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// answer sends a response of the proxy's own.
func (x *exchange) answer(status int, text string) (keep bool) {
	keep = !x.q.Close && x.body.Done() && !x.p.draining.Load()
	return x.say(answer{status: status, text: text, requestID: x.reqID[:], close: !keep}) && keep
}

// say writes an answer and reports whether that worked.
func (x *exchange) say(a answer) bool {
	a.keepAlive = !a.close && x.q.Minor == 0
	a.body = string(x.q.Method) != "HEAD"
	a.date = x.p.date.at(time.Now())
	x.c.out = appendAnswer(x.c.out[:0], a)
	x.c.in.WriteWithin(time.Now(), x.snap.cfg.Timeouts.Body)
	x.note.heads += int64(len(x.c.out) - a.length())
	if _, err := x.c.in.Write(x.c.out); err != nil {
		x.lostClient(err)
		return false
	}
	x.status = a.status
	return true
}
