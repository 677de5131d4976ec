package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/http1"
)

// quickBuffer holds a request about a session of usual size at once.
const quickBuffer = 4 << 10

// quick carries a connection's requests about single sessions over our own
// HTTP/1.1 core: net/http costs several times what the operation itself does.
// It carries what it understands exactly as net/http would, and gives the
// connection up for anything else, before a byte of the request is consumed.
//
// One difference remains: it does not watch for the client's going away while
// an operation runs. These operations end by themselves within the engine's
// time budget.
type quick struct {
	o        quickOptions
	stopping *atomic.Bool // the door's
	busy     atomic.Bool  // within a request
	loops    bool         // whether to go back to them
	turns    int          // requests until then
	back     bool         // what run returned is for them
	unsent   []byte       // to be sent before anything is read
	last     bool         // and then the connection ends
	conn     *http1.Conn

	head   http1.Request
	req    *http.Request // used again for each request
	url    url.URL
	fields http.Header
	values []string // what the fields' slices are cut from
	body   quickBody
	out    quickAnswer
}

// quickOptions is what all connections of a door share.
type quickOptions struct {
	ctx     context.Context // of requests
	log     hclog.Logger
	handler http.Handler
	maxBody func() int // larger ones are left to net/http
}

func newQuick(d *door, nc net.Conn) *quick {
	q := &quick{o: d.quick, stopping: &d.stopping, loops: d.loops != nil, conn: http1.NewConn(nc, quickBuffer), fields: make(http.Header)}
	q.req = (&http.Request{}).WithContext(q.o.ctx)
	q.req.RemoteAddr = nc.RemoteAddr().String()
	q.body.conn = q.conn
	q.out.conn, q.out.body = q.conn, &q.body
	q.out.header = make(http.Header)
	return q
}

// run serves the connection. It returns one for net/http to go on with, or nil
// at the end.
func (q *quick) run() (over net.Conn) {
	if len(q.unsent) > 0 && !q.sendRest() {
		return nil
	}
	for first := 1; ; first = 4 { // what net/http waits for before it takes a request for begun
		q.conn.ReadWithin(time.Now(), idleTime)
		for q.conn.Buffered() < first {
			if q.conn.Fill() != nil {
				return nil
			}
		}
		if c := q.conn.Peek()[0]; c == '\r' || c == '\n' { // http1 would skip empty lines
			return q.giveUp(nil)
		}
		head, err := q.conn.ReadHead(http1.Limits{Head: maxHead, Time: headTime})
		if err != nil {
			var malformed *http1.Error
			if errors.As(err, &malformed) || errors.Is(err, io.ErrUnexpectedEOF) {
				return q.giveUp(nil)
			}
			return nil
		}
		if !q.parse(head) {
			return q.giveUp(head)
		}
		if q.busy.Store(true); q.stopping.Load() {
			return nil
		}
		more := q.serve()
		if q.busy.Store(false); !more || q.stopping.Load() {
			return nil
		}
		q.turns--
		if _, ok := unwrapped(q.conn.Conn).(*net.TCPConn); ok && q.loops && q.turns <= 0 && q.conn.Buffered() == 0 {
			q.conn.Resume()
			q.back = true
			return unwrapped(q.conn.Conn)
		}
	}
}

// sendRest sends what a loop could not, and reports whether to go on.
func (q *quick) sendRest() bool {
	if q.conn.SetWriteDeadline(time.Now().Add(answerTime)) != nil {
		return false
	}
	if _, err := q.conn.Write(q.unsent); err != nil {
		return false // the client has gone, or does not read
	}
	q.unsent = nil
	q.busy.Store(false)
	q.conn.SetWriteDeadline(time.Time{}) // fails on a closed connection, as what follows will
	return !q.last && !q.stopping.Load()
}

// giveUp returns the connection with nothing consumed.
func (q *quick) giveUp(head []byte) net.Conn {
	first := append(bytes.Clone(head), q.conn.Peek()...)
	q.conn.Resume()
	return &replayed{q.conn.Conn, first}
}

// parse reports whether the request is one to be carried here.
func (q *quick) parse(head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte("\r\n"))
	if q.head.Parse(head) != nil || !bytes.HasSuffix(line, []byte(" HTTP/1.1")) || line[len(q.head.Method)+1] != '/' {
		return false
	}
	h := &q.head
	if h.Close || h.UpgradeAsk || h.Expect || h.Protocol != nil || h.Framing == http1.Chunked || h.Length > int64(q.o.maxBody()) {
		return false
	}
	if !bytes.HasPrefix(h.Path, []byte("/v1/sessions/")) && (string(h.Path) != "/v1/sessions" || string(h.Method) != "POST") {
		return false
	}
	lengths := 0
	for i := range h.Fields.Fields {
		switch f := &h.Fields.Fields[i]; f.Known {
		case http1.Expect, http1.Upgrade, http1.TransferEncoding:
			return false
		case http1.ContentLength:
			lengths++
		case http1.Other:
			if http1.EqualFold(f.Name, "pragma") { // net/http makes a Cache-Control of it
				return false
			}
		}
	}
	if lengths > 1 {
		return false
	}
	return q.setURL()
}

func (q *quick) setURL() bool {
	target := string(q.head.Target)
	plain := true
	for i := range len(q.head.Path) {
		if c := target[i]; !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '/' || c == '-' || c == '_' || c == '.') {
			plain = false
			break
		}
	}
	q.req.RequestURI = target
	q.req.URL = &q.url
	if plain && (q.head.Query == nil || len(q.head.Query) > 0) {
		path, query, _ := strings.Cut(target, "?")
		q.url = url.URL{Path: path, RawQuery: query}
		return true
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return false
	}
	q.url = *u
	return true
}

// serve answers the parsed request and reports whether another may follow.
func (q *quick) serve() (more bool) {
	r := q.req
	r.Method = methodName(q.head.Method)
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	r.Host = string(q.head.Host)
	q.setFields()
	r.Header = q.fields
	r.ContentLength, r.Body = 0, http.NoBody
	if q.head.Framing == http1.Sized {
		r.ContentLength, r.Body = q.head.Length, &q.body
	}
	q.body.left = r.ContentLength
	q.out.begin(r.Method == http.MethodHead)
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler { // the handlers' own panics end in Server.serve
				q.o.log.Error("panic in a request", "panic", p, "stack", string(debug.Stack()))
			}
			more = false
		}
	}()
	q.o.handler.ServeHTTP(&q.out, r)
	q.conn.Release()
	return q.out.finish()
}

func methodName(b []byte) string {
	switch string(b) {
	case "GET":
		return http.MethodGet
	case "PUT":
		return http.MethodPut
	case "POST":
		return http.MethodPost
	case "PATCH":
		return http.MethodPatch
	case "DELETE":
		return http.MethodDelete
	case "HEAD":
		return http.MethodHead
	}
	return string(b)
}

// setFields fills the header as net/http does: canonical names, and no Host.
func (q *quick) setFields() {
	clear(q.fields)
	q.values = q.values[:0]
	if n := len(q.head.Fields.Fields); cap(q.values) < n {
		q.values = make([]string, 0, n+4)
	}
	for i := range q.head.Fields.Fields {
		f := &q.head.Fields.Fields[i]
		if f.Known == http1.Host {
			continue
		}
		name := fieldName(f.Name)
		if have := q.fields[name]; have != nil {
			q.fields[name] = append(have, string(f.Value))
			continue
		}
		at := len(q.values)
		q.values = append(q.values, string(f.Value))
		q.fields[name] = q.values[at : at+1 : at+1]
	}
}

// fieldName returns the canonical form of a name, without an allocation for
// those that clients send with every request.
func fieldName(b []byte) string {
	switch string(b) {
	case "Content-Length", "content-length":
		return "Content-Length"
	case "Content-Type", "content-type":
		return "Content-Type"
	case "User-Agent", "user-agent":
		return "User-Agent"
	case "Accept", "accept":
		return "Accept"
	case "Accept-Encoding", "accept-encoding":
		return "Accept-Encoding"
	case "Connection", "connection":
		return "Connection"
	case "If-Match", "if-match":
		return "If-Match"
	case "Idempotency-Key", "idempotency-key":
		return "Idempotency-Key"
	}
	return http.CanonicalHeaderKey(string(b))
}

// quickBody reads a sized body.
type quickBody struct {
	conn  *http1.Conn
	left  int64
	until time.Time // the read deadline asked for
	timed bool      // it has been set
}

// Read implements io.Reader.
func (b *quickBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n := copy(p, b.conn.Peek())
	b.conn.Discard(n)
	if n == 0 && len(p) > 0 {
		if !b.timed {
			b.timed = true
			b.conn.SetReadDeadline(b.until)
		}
		var err error
		if n, err = b.conn.Conn.Read(p); n == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
	if b.left -= int64(n); b.left == 0 {
		return n, io.EOF
	}
	return n, nil
}

// Close implements io.Closer.
func (b *quickBody) Close() error { return nil }

// unreadLimit is how much of a body that no handler wanted is read and thrown
// away to keep the connection.
const unreadLimit = 256 << 10

// finish reads to the body's end, so that the next request starts behind it,
// and reports whether it came there.
func (b *quickBody) finish() bool {
	whole := b.left <= unreadLimit
	if b.left > 0 && whole {
		b.until, b.timed = time.Now().Add(bodyTime), false
		_, err := io.Copy(io.Discard, b)
		whole = err == nil
	}
	if b.timed {
		b.conn.Resume()
	}
	b.until, b.timed = time.Time{}, false
	return whole
}
