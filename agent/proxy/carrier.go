package proxy

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
)

// learns reports whether the route knows its application's own session ids.
func (s *Sticky) learns() bool {
	return s.Learn != "" || s.LearnPath != "" || s.LearnQuery != "" || s.LearnHeader != ""
}

// carried returns the application's own session id that a request brings, or
// nil: of cookie, header, path and query the first that has one. It is taken as
// sent, nothing is decoded, and nothing of the request changes.
func carried(q *http1.Request, s *Sticky) []byte {
	if s.Learn != "" {
		if v := cookieValue(q, s.Learn); len(v) > 0 {
			return v
		}
	}
	if s.LearnHeader != "" {
		if v := fieldValue(q, s.LearnHeader); len(v) > 0 {
			return v
		}
	}
	return addressed(q.Path, q.Query, s)
}

// addressed returns the session id in a path or a query, or nil.
func addressed(path, query []byte, s *Sticky) []byte {
	if s.LearnPath != "" {
		if v := pathParameter(path, s.LearnPath); len(v) > 0 {
			return v
		}
	}
	if s.LearnQuery != "" {
		return queryParameter(query, s.LearnQuery)
	}
	return nil
}

// pathParameter returns the value of the first ";name=value" in any segment of a
// path, up to the next ";" or "/", or nil.
func pathParameter(path []byte, name string) []byte {
	for {
		i := bytes.IndexByte(path, ';')
		if i < 0 {
			return nil
		}
		path = path[i+1:]
		if len(path) > len(name) && path[len(name)] == '=' && string(path[:len(name)]) == name {
			value := path[len(name)+1:]
			if end := bytes.IndexAny(value, ";/"); end >= 0 {
				value = value[:end]
			}
			return value
		}
	}
}

// queryParameter returns the raw value of the first such parameter, or nil.
// Parameters are parted by "&" alone.
func queryParameter(query []byte, name string) []byte {
	for rest := query; len(rest) > 0; {
		var one []byte
		one, rest, _ = bytes.Cut(rest, []byte{'&'})
		if len(one) > len(name) && one[len(name)] == '=' && string(one[:len(name)]) == name {
			return one[len(name)+1:]
		}
	}
	return nil
}

// given returns the session id that an answer gives its client, nil for none:
// in a cookie, in a header, or in the address that it sends the client to. ended
// says that the answer takes the cookie away instead.
func given(r *http1.Response, s *Sticky) (value []byte, ended bool) {
	var location []byte
	for i := range r.Fields.Fields {
		f := &r.Fields.Fields[i]
		switch {
		case s.Learn != "" && f.Known == http1.SetCookie:
			if v, gone, ok := setCookie(f.Value, s.Learn); ok { // of several the last counts
				value, ended = v, gone
			}
		case s.LearnHeader != "" && value == nil && http1.EqualFold(f.Name, s.LearnHeader):
			value = f.Value
		case s.LearnPath+s.LearnQuery != "" && http1.EqualFold(f.Name, "location"):
			location = f.Value
		}
	}
	if value == nil && location != nil {
		location, _, _ = bytes.Cut(location, []byte{'#'})
		path, query, _ := bytes.Cut(location, []byte{'?'})
		value = addressed(path, query, s)
	}
	if len(value) == 0 && !ended {
		return nil, false
	}
	return value, ended
}

// setCookie reads a Set-Cookie line if it is one of that name. gone says that it
// takes the cookie away: it is empty, or over.
func setCookie(line []byte, name string) (value []byte, gone, ok bool) {
	line = bytes.TrimLeft(line, " \t")
	if len(line) <= len(name) || line[len(name)] != '=' || string(line[:len(name)]) != name {
		return nil, false, false
	}
	value, rest, _ := bytes.Cut(line[len(name)+1:], []byte{';'})
	value = bytes.TrimRight(value, " \t")
	var expired, aged, lives bool
	for len(rest) > 0 {
		var one []byte
		one, rest, _ = bytes.Cut(rest, []byte{';'})
		key, v, _ := bytes.Cut(one, []byte{'='})
		switch key, v = bytes.TrimSpace(key), bytes.TrimSpace(v); {
		case http1.EqualFold(key, "max-age"):
			n, err := strconv.Atoi(string(v))
			aged, lives = err == nil, err == nil && n > 0
		case http1.EqualFold(key, "expires"):
			expired = past(v)
		}
	}
	return value, len(value) == 0 || aged && !lives || !aged && expired, true
}

// past reports whether a date of a cookie is over. Applications write them in
// more than one way.
func past(date []byte) bool {
	for _, layout := range []string{http.TimeFormat, "Mon, 02-Jan-2006 15:04:05 MST", time.RFC850, time.ANSIC, time.RFC1123Z} {
		if at, err := time.Parse(layout, string(date)); err == nil {
			return at.Before(time.Now())
		}
	}
	return false
}
