package httpapi

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/rondel-project/rondel/api"
)

// A request that the standard library cannot read, such as one with "%zz" in its
// path, never reaches a handler: the library answers by itself, in plain text.
// What it writes to a connection while no handler's answer is on its way there
// is that, and is put in this API's words here.

// conn is one connection. It is net/http's from the first request that it carries.
type conn struct {
	net.Conn
	answering atomic.Bool // a handler's answer is on its way
}

// CloseWrite is what net/http calls before it closes a connection whose client
// may still be sending.
func (c *conn) CloseWrite() error {
	if c, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// answering is a handler that has the word on its connection from when it is
// called.
func answering(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.answering.Store(true)
		}
		h.ServeHTTP(w, r)
	})
}

// onState is called before a connection's next request is read.
func onState(c net.Conn, state http.ConnState) {
	if c, ok := c.(*conn); ok && state == http.StateIdle {
		c.answering.Store(false)
	}
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if !c.answering.Load() {
		if out := inJSON(b); out != nil {
			if _, err := c.Conn.Write(out); err != nil {
				return 0, err
			}
			return len(b), nil
		}
	}
	return c.Conn.Write(b)
}

// inJSON turns the library's answer into one of this API's, nil if it is none.
func inJSON(b []byte) []byte {
	head, text, ok := bytes.Cut(b, []byte("\r\n\r\n"))
	line, fields, ok2 := strings.Cut(string(head), "\r\n")
	proto, rest, _ := strings.Cut(line, " ")
	number, _, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(number)
	if !ok || !ok2 || err != nil || status < 400 || proto != "HTTP/1.1" || !strings.Contains(fields, "text/plain") {
		return nil
	}
	code, msg := api.CodeBadRequest, "the request is malformed: its first line, a header, or the percent-encoding of its path"
	if status == http.StatusRequestHeaderFieldsTooLarge {
		code, msg = api.CodeTooLarge, "the request's headers are too large"
	} else if _, why, ok := strings.Cut(string(text), ": "); ok {
		msg = "the request is malformed: " + why
	}
	body := append([]byte(`{"Error":`), appendString(nil, msg)...)
	body = append(append(appendString(append(body, `,"Code":`...), string(code)), '}'), '\n')
	out := []byte(line + "\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nConnection: close\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n")
	return append(out, body...)
}
