package httpapi

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rondel-project/rondel/api"
)

// bodyTime bounds how long a client may take to send a body.
const bodyTime = 30 * time.Second

// answerTime bounds how long a client may take to read an answer of more than
// largeAnswer bytes.
const (
	answerTime  = time.Minute
	largeAnswer = 64 << 10
)

// drainLimit bounds what is read and thrown away of a body that is too large.
const drainLimit = 16 << 20

// smallBody bounds the bodies of all endpoints but those of sessions.
const smallBody = 64 << 10

// request is an HTTP request with what the router found in it.
type request struct {
	*http.Request
	asked
	queryErr error
}

// asked is what a request says beside its body: as much of it as operations on
// sessions go by.
type asked struct {
	method  string
	escaped string // path
	params  [maxParams]string
	query   url.Values

	ifMatch, ifNoneMatch, keys []string // the lines of these headers; keys: Idempotency-Key
}

func newRequest(r *http.Request) *request {
	q := &request{Request: r, asked: asked{
		method: r.Method, escaped: r.URL.EscapedPath(),
		ifMatch: r.Header["If-Match"], ifNoneMatch: r.Header["If-None-Match"], keys: r.Header["Idempotency-Key"],
	}}
	if r.URL.RawQuery != "" {
		q.query, q.queryErr = url.ParseQuery(r.URL.RawQuery)
	}
	return q
}

// understood refuses a parameter that is not among names: whoever mistypes one means
// something that would be ignored.
func (a *asked) understood(names string) error {
	if len(a.query) == 0 {
		return nil
	}
	list := append(strings.Fields(names), "pretty")
	for _, name := range slices.Sorted(maps.Keys(a.query)) {
		if !slices.Contains(list, name) {
			return badRequest("?%s: this endpoint has no such parameter; it has %s", url.QueryEscape(name), strings.Join(list, ", "))
		}
	}
	return nil
}

// flag reports whether a query parameter is given and not said to be false.
func (a *asked) flag(name string) (bool, error) {
	values, ok := a.query[name]
	if !ok {
		return false, nil
	}
	if values[0] == "" {
		return true, nil
	}
	b, err := strconv.ParseBool(values[0])
	if err != nil {
		return false, badRequest("?%s=%q: want true or false", name, values[0])
	}
	return b, nil
}

// body reads at most limit bytes. Of a larger body it returns errBodyTooLarge
// with its beginning; what that means is the caller's to say.
func (r *request) body(w http.ResponseWriter, limit int) ([]byte, error) {
	deadline := http.NewResponseController(w)
	// A recorder or another wrapper may not know deadlines; then there is none.
	if deadline.SetReadDeadline(time.Now().Add(bodyTime)) == nil {
		defer deadline.SetReadDeadline(time.Time{})
	}
	var buf []byte
	if r.ContentLength > 0 {
		buf = make([]byte, 0, min(int(r.ContentLength), limit)+1)
	}
	buf, err := readLimited(buf, r.Body, limit+1)
	switch {
	case err != nil:
		return nil, badRequest("the body could not be read to its end: %s", err)
	case len(buf) > limit:
		// A client that is still sending would not see the answer.
		io.CopyN(io.Discard, r.Body, drainLimit)
		return buf, errBodyTooLarge
	}
	return buf, nil
}

var errBodyTooLarge = errors.New("the body is too large")

func readLimited(buf []byte, src io.Reader, limit int) ([]byte, error) {
	for len(buf) < limit {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := src.Read(buf[len(buf):min(cap(buf), limit)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
	}
	return buf, nil
}

// jsonBody reads and checks a body of one JSON value; an empty body is nil.
func (r *request) jsonBody(w http.ResponseWriter, limit int) ([]byte, error) {
	b, err := r.body(w, limit)
	if errors.Is(err, errBodyTooLarge) {
		return nil, failure(http.StatusRequestEntityTooLarge, api.CodeTooLarge, "the body is larger than %d bytes, the limit of this endpoint", limit)
	}
	if err != nil || skipSpace(b, 0) == len(b) {
		return nil, err
	}
	return checkBody(b)
}

// writeJSON answers with a JSON text.
func (r *request) writeJSON(w http.ResponseWriter, status int, text []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if pretty, _ := r.flag("pretty"); pretty {
		text = indent(text)
	}
	writeBody(w, r.Request, status, text)
}

func writeBody(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if len(body) > largeAnswer {
		// What is larger than the kernel takes at once waits for the reader.
		deadline := http.NewResponseController(w)
		if deadline.SetWriteDeadline(time.Now().Add(answerTime)) == nil {
			defer deadline.SetWriteDeadline(time.Time{})
		}
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		w.Write(body) // a client that has gone needs no answer
	}
}
