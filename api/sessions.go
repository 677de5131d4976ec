package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
)

// ErrNotModified is the answer to a read with [WithIfNoneMatch] when the
// session is still the same.
var ErrNotModified = errors.New("not modified")

// Sessions holds the calls about sessions.
type Sessions struct{ c *Client }

// Option changes one call about a session.
type Option func(*options)

type options struct {
	header http.Header
	query  url.Values
}

// WithIfMatch makes a change conditional: etag is of an earlier answer. A
// session that has changed since answers 412.
func WithIfMatch(etag string) Option {
	return func(o *options) { o.header.Set("If-Match", etag) }
}

// WithIfNoneMatch makes Get answer [ErrNotModified] while the session is still
// the one that etag names.
func WithIfNoneMatch(etag string) Option {
	return func(o *options) { o.header.Set("If-None-Match", etag) }
}

// WithIdempotencyKey makes a change safe to repeat: the same key with the same
// method and path happens once.
func WithIdempotencyKey(key string) Option {
	return func(o *options) { o.header.Set("Idempotency-Key", key) }
}

// WithAcks says for how many copies beside the owner's a change waits: 0, 1
// or 2. Without it: for all that are in sync.
func WithAcks(n int) Option {
	return func(o *options) { o.query.Set("acks", strconv.Itoa(n)) }
}

// WithStale lets any holder answer a read, which may then be behind.
func WithStale() Option {
	return func(o *options) { o.query.Set("consistency", "stale") }
}

// WithTouch makes a read start the session's idle time anew.
func WithTouch() Option {
	return func(o *options) { o.query.Set("touch", "true") }
}

func collect(opts []Option) options {
	o := options{header: http.Header{}, query: url.Values{}}
	for _, f := range opts {
		f(&o)
	}
	return o
}

// Create makes a session.
func (s Sessions) Create(ctx context.Context, in SessionCreate, opts ...Option) (*Session, error) {
	return s.session(ctx, http.MethodPost, "/v1/sessions", in, opts)
}

// Get reads a session.
func (s Sessions) Get(ctx context.Context, id string, opts ...Option) (*Session, error) {
	return s.session(ctx, http.MethodGet, path("/v1/sessions", id), nil, opts)
}

// Patch sets the attributes given and leaves the others; a nil value removes
// one.
func (s Sessions) Patch(ctx context.Context, id string, attributes map[string]any, opts ...Option) (*Mutation, error) {
	return s.mutate(ctx, http.MethodPatch, path("/v1/sessions", id), attributesBody{orEmpty(attributes)}, opts)
}

// Put replaces all attributes.
func (s Sessions) Put(ctx context.Context, id string, attributes map[string]any, opts ...Option) (*Mutation, error) {
	return s.mutate(ctx, http.MethodPut, path("/v1/sessions", id), attributesBody{orEmpty(attributes)}, opts)
}

// Delete ends a session everywhere.
func (s Sessions) Delete(ctx context.Context, id string, opts ...Option) (*Mutation, error) {
	return s.mutate(ctx, http.MethodDelete, path("/v1/sessions", id), nil, opts)
}

// Attribute reads one attribute as raw bytes, with their content type.
func (s Sessions) Attribute(ctx context.Context, id, name string, opts ...Option) (value []byte, contentType string, err error) {
	o := collect(opts)
	resp, err := s.c.do(ctx, call{
		method: http.MethodGet,
		path:   attributePath(id, name),
		header: o.header,
		query:  o.query,
	})
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotModified {
		return nil, "", ErrNotModified
	}
	value, err = readAll(resp.Body)
	return value, resp.Header.Get("Content-Type"), err
}

// PutAttribute writes one attribute as raw bytes. With a JSON content type the
// bytes are a JSON text; with any other, or none, they are kept as they are.
func (s Sessions) PutAttribute(ctx context.Context, id, name string, value []byte, contentType string, opts ...Option) (*Mutation, error) {
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	if value == nil {
		value = []byte{}
	}
	opts = append(opts[:len(opts):len(opts)], func(o *options) { o.header.Set("Content-Type", contentType) })
	return s.mutate(ctx, http.MethodPut, attributePath(id, name), value, opts)
}

// DeleteAttribute removes one attribute.
func (s Sessions) DeleteAttribute(ctx context.Context, id, name string, opts ...Option) (*Mutation, error) {
	return s.mutate(ctx, http.MethodDelete, attributePath(id, name), nil, opts)
}

// Incr adds to a number, made as 0 if absent, in one atomic step. The answer
// holds the new value.
func (s Sessions) Incr(ctx context.Context, id, name string, by int64, opts ...Option) (*Mutation, error) {
	return s.mutate(ctx, http.MethodPost, attributePath(id, name)+"/incr", struct{ By int64 }{by}, opts)
}

// Append adds a value to a JSON array, made if absent, in one atomic step. The
// answer holds the new length.
func (s Sessions) Append(ctx context.Context, id, name string, value any, opts ...Option) (*Mutation, error) {
	return s.mutate(ctx, http.MethodPost, attributePath(id, name)+"/append", struct{ Value any }{value}, opts)
}

// Touch starts the session's idle time anew.
func (s Sessions) Touch(ctx context.Context, id string, opts ...Option) (*Mutation, error) {
	return s.mutate(ctx, http.MethodPost, path("/v1/sessions", id)+"/touch", nil, opts)
}

// Rotate gives the session a new id, which the answer holds; the old one is
// gone. Do it at log-in, against session fixation.
func (s Sessions) Rotate(ctx context.Context, id string, opts ...Option) (*Mutation, error) {
	return s.mutate(ctx, http.MethodPost, path("/v1/sessions", id)+"/rotate", nil, opts)
}

// SessionList says which sessions to list.
type SessionList struct {
	Prefix    string // of the id
	Group     string
	Principal string
	Limit     int    // of one page; 0: as the agent likes
	After     string // the last id of the page before
}

// List returns one page of sessions, sorted by id. An empty page is the end.
func (s Sessions) List(ctx context.Context, in SessionList) ([]SessionListEntry, error) {
	q := url.Values{}
	for name, value := range map[string]string{"prefix": in.Prefix, "group": in.Group, "principal": in.Principal, "after": in.After} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if in.Limit > 0 {
		q.Set("limit", strconv.Itoa(in.Limit))
	}
	var out []SessionListEntry
	_, err := s.c.read(ctx, call{method: http.MethodGet, path: "/v1/sessions", query: q, slow: true}, &out)
	return out, err
}

type attributesBody struct {
	Attributes map[string]any `json:"Attributes"`
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

func attributePath(id, name string) string {
	return path("/v1/sessions", id) + path("/attributes", name)
}

func (s Sessions) session(ctx context.Context, method, path string, body any, opts []Option) (*Session, error) {
	o := collect(opts)
	resp, err := s.c.do(ctx, call{method: method, path: path, header: o.header, query: o.query, body: body})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotModified {
		return nil, ErrNotModified
	}
	text, err := readAll(resp.Body)
	if err != nil {
		return nil, err
	}
	out := &Session{ETag: resp.Header.Get("ETag")}
	if err := json.Unmarshal(text, out); err != nil {
		return nil, err
	}
	return out, nil
}

func (s Sessions) mutate(ctx context.Context, method, path string, body any, opts []Option) (*Mutation, error) {
	o := collect(opts)
	out := &Mutation{}
	h, err := s.c.read(ctx, call{method: method, path: path, header: o.header, query: o.query, body: body}, out)
	if err != nil {
		return nil, err
	}
	out.ETag = h.Get("ETag")
	return out, nil
}
