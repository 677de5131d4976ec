package httpapi

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/rondel-project/rondel/agent/session"
	"github.com/rondel-project/rondel/api"
)

// Pages of a listing.
const (
	defaultPage = 1000
	maxPage     = 10_000
)

// do runs an operation. An id of the wrong shape is not worth asking for: it
// never was one of ours.
func (s *Server) do(r *request, op *session.Request) (*session.Response, error) {
	if !op.ID.Issued() {
		return nil, failure(http.StatusNotFound, api.CodeUnknownSession, "no such session; POST /v1/sessions makes one")
	}
	resp := s.o.Sessions.Do(r.Context(), op)
	if err := refusal(op, resp); err != nil {
		return nil, err
	}
	return resp, nil
}

// refusal returns the error of an operation that was not done, or nil.
func refusal(op *session.Request, resp *session.Response) error {
	switch {
	case resp == nil:
		return engineError(&session.Response{})
	case resp.Status != session.OK:
		return engineError(resp)
	case op.Kind == session.Get && resp.Record == nil:
		return failure(http.StatusInternalServerError, api.CodeInternal, "the session engine answered without the session")
	}
	return nil
}

// mutate runs an operation and answers what all changes answer.
func (s *Server) mutate(w http.ResponseWriter, r *request, op *session.Request) error {
	resp, err := s.do(r, op)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(resp.Version))
	r.writeJSON(w, http.StatusOK, mutationJSON(op.Kind, resp))
	return nil
}

func (s *Server) sessionGet(w http.ResponseWriter, r *request) error {
	op, err := r.operation(session.Get)
	if err != nil {
		return err
	}
	resp, known, err := s.read(r, op)
	if err != nil {
		return err
	}
	v := viewOf(resp, time.Now())
	w.Header().Set("ETag", etag(v.version))
	if known.has(v.version) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	buf := s.buffers.Get().(*[]byte)
	text := v.appendJSON((*buf)[:0])
	r.writeJSON(w, http.StatusOK, text)
	if cap(text) <= largeAnswer {
		*buf = text
		s.buffers.Put(buf)
	}
	return nil
}

// read runs an operation that changes nothing, and returns the versions that the
// client has already.
func (s *Server) read(r *request, op *session.Request) (*session.Response, entityTags, error) {
	known, err := r.known()
	if err != nil {
		return nil, known, err
	}
	resp, err := s.do(r, op)
	return resp, known, err
}

// known returns the versions that the client has already.
func (a *asked) known() (entityTags, error) {
	if len(a.ifNoneMatch) == 0 {
		return entityTags{}, nil
	}
	tags, ok := parseEntityTags(a.ifNoneMatch)
	if !ok {
		return tags, badRequest(`If-None-Match: want *, or the ETag of an earlier answer with its quotes, or a list of them`)
	}
	return tags, nil
}

func (s *Server) sessionPatch(w http.ResponseWriter, r *request) error {
	return s.sessionWrite(w, r, session.Patch)
}

func (s *Server) sessionPut(w http.ResponseWriter, r *request) error {
	return s.sessionWrite(w, r, session.Put)
}

func (s *Server) sessionWrite(w http.ResponseWriter, r *request, kind session.Kind) error {
	text, err := s.attributesText(w, r)
	if err != nil {
		return err
	}
	op, err := r.writing(kind, text)
	if err != nil {
		return err
	}
	return s.mutate(w, r, op)
}

// writing starts a Put or Patch of what a body says. Nothing of the body is
// kept.
func (a *asked) writing(kind session.Kind, text []byte) (*session.Request, error) {
	op, err := a.operation(kind, text)
	if err != nil {
		return nil, err
	}
	const missing = `want {"Attributes": {"NAME": VALUE, …}}`
	if text == nil {
		return nil, badRequest(missing)
	}
	var attributes []byte
	err = readObject(text, "session", field{"Attributes", func(b []byte) error {
		attributes = b
		op.Attrs, err = readAttributes(b, kind == session.Patch)
		return err
	}})
	if err != nil {
		return nil, err
	}
	if attributes == nil {
		return nil, badRequest(missing)
	}
	return op, nil
}

func (s *Server) sessionDelete(w http.ResponseWriter, r *request) error {
	op, err := r.operation(session.Delete)
	if err != nil {
		return err
	}
	return s.mutate(w, r, op)
}

func (s *Server) sessionTouch(w http.ResponseWriter, r *request) error {
	op, err := s.bare(w, r, session.Touch)
	if err != nil {
		return err
	}
	return s.mutate(w, r, op)
}

func (s *Server) sessionRotate(w http.ResponseWriter, r *request) error {
	op, err := s.bare(w, r, session.Rotate)
	if err != nil {
		return err
	}
	if op.ID.Issued() {
		if op.NewID, err = s.o.Sessions.MintBeside(op.ID); err != nil {
			return mintError(err)
		}
	}
	return s.mutate(w, r, op)
}

// bare reads a request that has nothing to say but its path.
func (s *Server) bare(w http.ResponseWriter, r *request, kind session.Kind) (*session.Request, error) {
	text, err := r.jsonBody(w, smallBody)
	if err != nil {
		return nil, err
	}
	if text != nil {
		if err := readObject(text, "body"); err != nil {
			return nil, err
		}
	}
	return r.operation(kind)
}

func (s *Server) sessionList(w http.ResponseWriter, r *request) error {
	o := ListOptions{
		Prefix:    r.query.Get("prefix"),
		Group:     r.query.Get("group"),
		Principal: r.query.Get("principal"),
		After:     r.query.Get("after"),
		Limit:     defaultPage,
	}
	if text := r.query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return badRequest("?limit=%q: want a number from 1 on", text)
		}
		o.Limit = min(n, maxPage)
	}
	entries, err := s.o.Sessions.List(r.Context(), o)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteByte('[')
	for i, e := range entries {
		if i > 0 {
			b.WriteByte(',')
		}
		line := append(appendString([]byte(`{"ID":`), string(e.ID)), `,"Size":`...)
		line = append(strconv.AppendInt(line, int64(e.Size), 10), `,"Version":`...)
		line = append(strconv.AppendUint(line, e.Version, 10), `,"Group":`...)
		line = append(appendString(line, e.Group), `,"Principal":`...)
		b.Write(append(appendString(line, e.Principal), '}'))
	}
	b.WriteByte(']')
	r.writeJSON(w, http.StatusOK, b.Bytes())
	return nil
}
