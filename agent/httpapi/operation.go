package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"mime"
	"net/http"

	"github.com/rondel-project/rondel/agent/session"
	"github.com/rondel-project/rondel/api"
)

// maxKeyLen bounds an Idempotency-Key.
const maxKeyLen = 256

const defaultType = "application/octet-stream"

// operation starts a request to the engine with all that headers and query
// say; body is what an Idempotency-Key is tied to.
func (a *asked) operation(kind session.Kind, body ...[]byte) (*session.Request, error) {
	op := &session.Request{Kind: kind, ID: session.ID(a.params[0]), Acks: session.AcksDefault}
	if err := a.readQuery(op); err != nil {
		return nil, err
	}
	if kind == session.Get || kind == session.GetAttr {
		return op, nil
	}
	if len(a.ifMatch) > 0 {
		tags, ok := parseEntityTags(a.ifMatch)
		if !ok {
			return nil, badRequest(`If-Match: want *, or the ETag of an earlier answer with its quotes, or a list of them`)
		}
		op.IfMatch, op.IfMatchAny = tags.versions(), tags.any
	}
	if len(a.ifNoneMatch) > 0 {
		return nil, badRequest("If-None-Match is for reads; a change takes If-Match")
	}
	if len(a.keys) > 0 {
		if err := checkKey(a.keys); err != nil {
			return nil, err
		}
		op.Op = opID(a.keys[0], a.method, a.escaped)
		op.Body = bodyHash(body)
	}
	return op, nil
}

func (a *asked) readQuery(op *session.Request) error {
	if len(a.query) == 0 {
		return nil
	}
	if acks := a.query["acks"]; len(acks) > 0 {
		switch acks[0] {
		case "0", "1", "2":
			op.Acks = int8(acks[0][0] - '0')
		default:
			return badRequest("?acks=%q: want 0, 1 or 2, or leave it out to wait for all copies in sync", acks[0])
		}
	}
	switch c := a.query.Get("consistency"); c {
	case "", "default":
	case "stale":
		op.Stale = true
	default:
		return badRequest("?consistency=%q: want default or stale", c)
	}
	touch, err := a.flag("touch")
	op.Touch = touch
	return err
}

func checkKey(keys []string) error {
	key := keys[0]
	if len(keys) > 1 || key == "" || len(key) > maxKeyLen {
		return badRequest("Idempotency-Key: want one, of 1 to %d characters", maxKeyLen)
	}
	for i := range len(key) {
		if key[i] < 0x20 || key[i] > 0x7e {
			return badRequest("Idempotency-Key: want printable ASCII only")
		}
	}
	return nil
}

// opID names one change: the same key with another method or path is another
// one.
func opID(key, method, escapedPath string) session.OpID {
	h := sha256.New()
	for _, s := range [...]string{key, method, escapedPath} {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	return session.OpID(h.Sum(nil)[:16])
}

// bodyHash covers the body and whatever else says what it means.
func bodyHash(parts [][]byte) uint64 {
	h := sha256.New()
	for _, p := range parts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write(p)
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// maxBody bounds a body of session attributes: room for the escapes and the
// base64 of a session of the greatest size. The engine counts exactly.
func (s *Server) maxBody() int { return 2*s.maxSession() + smallBody }

func (s *Server) maxSession() int { return s.rules.Load().maxSession }

// attributesText reads the body of one of the endpoints that take attributes.
func (s *Server) attributesText(w http.ResponseWriter, r *request) ([]byte, error) {
	b, err := r.body(w, s.maxBody())
	if errors.Is(err, errBodyTooLarge) {
		return nil, failure(http.StatusRequestEntityTooLarge, api.CodeTooLarge,
			"the body is larger than %d bytes, a session may hold %d (session.max_size)%s", s.maxBody(), s.maxSession(), largestIn(b))
	}
	if err != nil || skipSpace(b, 0) == len(b) {
		return nil, err
	}
	return checkBody(b)
}

// readAttributes reads {"name": value, …}. With patch set, null removes.
func readAttributes(text []byte, patch bool) ([]session.Attr, error) {
	ms, err := pairs(text, "the value")
	if err != nil {
		return nil, err
	}
	out := make([]session.Attr, 0, len(ms))
	for _, m := range ms {
		if err := checkName("attribute name", m.name); err != nil {
			return nil, err
		}
		if patch && string(m.value) == "null" {
			out = append(out, session.Attr{Name: m.name, Dead: true})
			continue
		}
		a := session.Attr{Name: m.name}
		var isBinary bool
		if a.Value, a.Type, isBinary = readBinary(m.value); !isBinary {
			// The body is larger than any one value: keeping a part of it
			// would keep all of it in memory.
			a.Value = bytes.Clone(m.value)
		} else if err := checkContentType(a.Type); err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// readBinary recognizes {"Base64": "…", "ContentType": "…"}, as answers show
// binary attributes: what was read can be written back.
func readBinary(text []byte) (value []byte, contentType string, ok bool) {
	if text[0] != '{' || !bytes.Contains(text, []byte(`"Base64"`)) {
		return nil, "", false
	}
	ms, err := pairs(text, "value")
	if err != nil || len(ms) != 2 {
		return nil, "", false
	}
	if ms[0].name == "ContentType" {
		ms[0], ms[1] = ms[1], ms[0]
	}
	var encoded string
	if ms[0].name != "Base64" || ms[1].name != "ContentType" ||
		readString(ms[0].value, &encoded) != nil || readString(ms[1].value, &contentType) != nil {
		return nil, "", false
	}
	if value, err = base64.StdEncoding.Strict().DecodeString(encoded); err != nil || contentType == "" {
		return nil, "", false
	}
	return value, contentType, true
}

// checkContentType refuses what could not be a header again.
func checkContentType(s string) error {
	if len(s) > 256 {
		return badRequest("the content type is longer than 256 characters")
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return badRequest("the content type holds characters that a header cannot")
		}
	}
	return nil
}

// isJSON: other types that are JSON by their syntax stay bytes, so that they
// keep their type.
func isJSON(contentType string) bool {
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && t == "application/json"
}

// largestIn names the largest attribute in what was read of a body, as far as
// that can be told.
func largestIn(b []byte) string {
	name, size := "", -1
	i := bytes.Index(b, []byte(`"Attributes"`))
	if i < 0 {
		return ""
	}
	i = skipSpace(b, skipSpace(b, i+len(`"Attributes"`))+1) + 1
	for {
		start := skipSpace(b, i)
		if start >= len(b) || b[start] != '"' {
			break
		}
		end, err := skipString(b, start)
		if err != nil {
			break
		}
		key, ok := unquote(b[start:end])
		i = skipSpace(b, skipSpace(b, end)+1)
		next, err := skipValue(b, i)
		if ok && next-i > size {
			name, size = key, next-i
		}
		if err != nil || skipSpace(b, next) >= len(b) {
			break
		}
		i = skipSpace(b, next) + 1
	}
	if size < 0 {
		return ""
	}
	return fmt.Sprintf("; its largest attribute is %q", name)
}
