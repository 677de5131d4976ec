package httpapi

import (
	"errors"
	"net/http"

	"github.com/rondel-project/rondel/agent/session"
	"github.com/rondel-project/rondel/api"
)

// named starts an operation on the attribute that the path names.
func (a *asked) named(kind session.Kind, body ...[]byte) (*session.Request, error) {
	if err := checkName("attribute name", a.params[1]); err != nil {
		return nil, err
	}
	op, err := a.operation(kind, body...)
	if err != nil {
		return nil, err
	}
	op.Name = a.params[1]
	return op, nil
}

func (s *Server) attributeGet(w http.ResponseWriter, r *request) error {
	op, err := r.named(session.GetAttr)
	if err != nil {
		return err
	}
	resp, known, err := s.read(r, op)
	if err != nil {
		return err
	}
	if resp.Attr == nil {
		return failure(http.StatusInternalServerError, api.CodeInternal, "the session engine answered without the attribute")
	}
	h := w.Header()
	h.Set("ETag", etag(resp.Version))
	h.Set("Cache-Control", "no-store")
	if known.has(resp.Version) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	contentType := resp.Attr.Type
	if contentType == "" {
		contentType = "application/json"
	}
	h.Set("Content-Type", contentType)
	// The bytes are an application's; as a page they would have this API's
	// origin.
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	writeBody(w, r.Request, http.StatusOK, resp.Attr.Value)
	return nil
}

func (s *Server) attributePut(w http.ResponseWriter, r *request) error {
	value, err := r.body(w, s.maxBody())
	if errors.Is(err, errBodyTooLarge) {
		return failure(http.StatusRequestEntityTooLarge, api.CodeTooLarge,
			"the body is larger than %d bytes, a session may hold %d (session.max_size); its largest attribute is %q", s.maxBody(), s.maxSession(), r.params[1])
	}
	if err != nil {
		return err
	}
	contentType := r.Header.Get("Content-Type")
	if contentType == "" {
		contentType = defaultType
	}
	if err := checkContentType(contentType); err != nil {
		return err
	}
	op, err := r.named(session.SetAttr, value, []byte(contentType))
	if err != nil {
		return err
	}
	attr := session.Attr{Name: op.Name, Value: value, Type: contentType}
	if isJSON(contentType) {
		if attr.Value, err = checkText(value); err != nil {
			return err
		}
		attr.Type = ""
	}
	op.Attrs = []session.Attr{attr}
	return s.mutate(w, r, op)
}

func (s *Server) attributeDelete(w http.ResponseWriter, r *request) error {
	op, err := r.named(session.DelAttr)
	if err != nil {
		return err
	}
	return s.mutate(w, r, op)
}

func (s *Server) attributeIncr(w http.ResponseWriter, r *request) error {
	text, err := r.jsonBody(w, smallBody)
	if err != nil {
		return err
	}
	op, err := r.named(session.Incr, text)
	if err != nil {
		return err
	}
	op.Value = []byte("1")
	if text != nil {
		err = readObject(text, "incr", field{"By", func(b []byte) error {
			if end, ok := skipNumber(b, 0); !ok || end != len(b) {
				return badRequest("want a number")
			}
			op.Value = b
			return nil
		}})
	}
	if err != nil {
		return err
	}
	return s.mutate(w, r, op)
}

func (s *Server) attributeAppend(w http.ResponseWriter, r *request) error {
	text, err := s.attributesText(w, r)
	if err != nil {
		return err
	}
	op, err := r.named(session.Append, text)
	if err != nil {
		return err
	}
	if text != nil {
		err = readObject(text, "append", field{"Value", func(b []byte) error {
			op.Value = b
			_, err := skipTo(b, 0, maxDepth-1) // it comes into an array
			return err
		}})
	}
	if err != nil {
		return err
	}
	if op.Value == nil {
		return badRequest(`want {"Value": VALUE}`)
	}
	return s.mutate(w, r, op)
}
