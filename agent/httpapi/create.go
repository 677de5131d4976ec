package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rondel-project/rondel/agent/session"
	"github.com/rondel-project/rondel/api"
)

func (s *Server) sessionCreate(w http.ResponseWriter, r *request) error {
	text, err := s.attributesText(w, r)
	if err != nil {
		return err
	}
	op, err := r.operation(session.Create, text)
	if err != nil {
		return err
	}
	if op.IfMatchAny || len(op.IfMatch) > 0 {
		return badRequest("If-Match: a session that is yet to be made has no version")
	}
	if text != nil {
		if err := readCreate(text, op); err != nil {
			return err
		}
	}
	if op.Op == (session.OpID{}) {
		made, err := s.create(r.Context(), op)
		if err != nil {
			return err
		}
		return r.writeCreated(w, op, made)
	}
	made, err := s.creates.once(r.Context(), op, func(ctx context.Context) (created, error) {
		return s.create(ctx, op)
	})
	if err != nil {
		return err
	}
	return r.writeCreated(w, op, made)
}

func readCreate(text []byte, op *session.Request) error {
	err := readObject(text, "session",
		field{"TTL", life(&op.TTL)},
		field{"MaxAge", life(&op.MaxAge)},
		field{"Group", &op.Group},
		field{"Principal", &op.Principal},
		field{"Attributes", func(b []byte) (err error) {
			op.Attrs, err = readAttributes(b, false)
			return err
		}},
	)
	if err != nil {
		return err
	}
	for what, name := range map[string]string{"Group": op.Group, "Principal": op.Principal} {
		if name != "" {
			if err := checkName(what, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// life reads a duration that is more than nothing: zero asks the engine for
// its default.
func life(into *time.Duration) func([]byte) error {
	return func(b []byte) error {
		var d api.Duration
		if err := d.UnmarshalJSON(b); err != nil {
			return err
		}
		if d == 0 {
			return failure(http.StatusBadRequest, api.CodeBadDuration, "want more than 0s; leave it out for the default")
		}
		*into = d.Std()
		return nil
	}
}

// created is what an answer to a creation needs beside the request itself.
type created struct {
	id          session.ID
	version     session.Version
	at          time.Time
	ttl, maxAge time.Duration
	expires     time.Time
	owner       string
	replicas    []string
}

// create mints an id, if op has none, and makes the session.
func (s *Server) create(ctx context.Context, op *session.Request) (created, error) {
	if op.ID == "" {
		id, err := s.o.Sessions.Mint()
		if err != nil {
			return created{}, mintError(err)
		}
		op.ID = id
	}
	resp := s.o.Sessions.Do(ctx, op)
	switch {
	case resp == nil:
		return created{}, engineError(&session.Response{})
	case resp.Status != session.OK:
		return created{}, engineError(resp)
	}
	now := time.Now()
	c := created{
		id:       resp.ID,
		version:  resp.Version,
		at:       now,
		ttl:      op.TTL,
		maxAge:   op.MaxAge,
		expires:  now.Add(resp.Left),
		owner:    resp.OwnerName,
		replicas: resp.ReplicaNames,
	}
	if rec := resp.Record; rec != nil {
		c.at, c.ttl, c.maxAge = time.UnixMilli(rec.Created), rec.TTL, rec.MaxAge
	}
	return c, nil
}

func (r *request) writeCreated(w http.ResponseWriter, op *session.Request, c created) error {
	attrs := make([]*session.Attr, len(op.Attrs))
	for i := range op.Attrs {
		attrs[i] = &op.Attrs[i]
	}
	v := view{
		id:        c.id,
		version:   c.version,
		created:   c.at,
		accessed:  c.at,
		expires:   c.expires,
		ttl:       c.ttl,
		maxAge:    c.maxAge,
		group:     op.Group,
		principal: op.Principal,
		attrs:     attrs,
		owner:     c.owner,
		replicas:  c.replicas,
	}
	w.Header().Set("ETag", etag(c.version))
	w.Header().Set("Location", "/v1/sessions/"+string(c.id))
	r.writeJSON(w, http.StatusCreated, v.appendJSON(nil))
	return nil
}

func mintError(err error) error {
	switch {
	case errors.Is(err, session.ErrForeignID):
		return failure(http.StatusNotFound, api.CodeUnknownSession, "no such session; POST /v1/sessions makes one")
	case errors.Is(err, session.ErrUnknownKey):
		return failure(http.StatusServiceUnavailable, api.CodeUnavailable, "this agent does not know the key of the id yet; try again")
	}
	return fmt.Errorf("make an id: %w", err)
}

// How long and how many creations are remembered.
const (
	createKeep = time.Minute
	createMax  = 1 << 16
)

// creates remembers creations by Idempotency-Key: a session that does not exist
// yet has no owner who could.
type creates struct {
	mu    sync.Mutex // guards the fields and all entries
	byOp  map[session.OpID]*createEntry
	order []*createEntry // oldest first
}

// createEntry is one creation, under way while busy is not closed.
type createEntry struct {
	op      session.OpID
	body    uint64
	started time.Time
	id      session.ID // minted at the first try, and kept for the next
	made    created    // when ok
	ok      bool
	busy    chan struct{} // closed when the try has ended
}

func newCreates() *creates { return &creates{byOp: make(map[session.OpID]*createEntry)} }

// once runs do for the first request with op's key. Others with that key wait
// for it and get its answer; when it failed, the next tries again with the same
// id, so that a creation whose outcome was unknown does not happen twice.
func (c *creates) once(ctx context.Context, op *session.Request, do func(context.Context) (created, error)) (created, error) {
	for {
		e, busy, mine := c.claim(op, time.Now())
		if e.body != op.Body {
			return created{}, failure(http.StatusConflict, api.CodeKeyReused, "this Idempotency-Key was used for another body; use a new key for a new request")
		}
		if mine {
			return c.fill(ctx, e, op, do)
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return created{}, ctx.Err()
		}
		c.mu.Lock()
		made, ok := e.made, e.ok
		c.mu.Unlock()
		if ok {
			return made, nil
		}
	}
}

func (c *creates) fill(ctx context.Context, e *createEntry, op *session.Request, do func(context.Context) (created, error)) (made created, err error) {
	ok := false
	defer func() { // also when do panics: others wait for it
		c.mu.Lock()
		defer c.mu.Unlock()
		e.id, e.made, e.ok = op.ID, made, ok
		close(e.busy)
	}()
	op.ID = e.id
	made, err = do(ctx)
	ok = err == nil
	return made, err
}

// claim returns the entry of op's key, and whether the caller is the one to
// fill it; if not, busy ends the wait for the one who is.
func (c *creates) claim(op *session.Request, now time.Time) (e *createEntry, busy <-chan struct{}, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	drop := 0
	for drop < len(c.order) && (now.Sub(c.order[drop].started) > createKeep || len(c.order)-drop >= createMax) {
		if e := c.order[drop]; c.byOp[e.op] == e {
			delete(c.byOp, e.op)
		}
		c.order[drop] = nil
		drop++
	}
	c.order = c.order[drop:]
	e = c.byOp[op.Op]
	switch {
	case e == nil:
		e = &createEntry{op: op.Op, body: op.Body, started: now, busy: make(chan struct{})}
		c.byOp[op.Op] = e
		c.order = append(c.order, e)
		return e, e.busy, true
	case e.body != op.Body || e.ok:
		return e, e.busy, false
	}
	select {
	case <-e.busy: // the try before failed
		e.busy = make(chan struct{})
		return e, e.busy, true
	default:
		return e, e.busy, false
	}
}
