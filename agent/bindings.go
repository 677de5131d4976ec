package agent

import (
	"context"

	"github.com/rondel-project/rondel/agent/session"
)

// boundTo is the attribute of a binding's record.
const boundTo = "bound"

// Name implements proxy.Bindings.
func (s proxySessions) Name(scope string, value []byte) (string, bool) {
	keys := s.engine.View().Keys
	if keys.Empty() {
		return "", false
	}
	return string(keys.Name(scope, value)), true
}

// Find implements proxy.Bindings.
func (s proxySessions) Find(ctx context.Context, name string) (string, bool) {
	r := s.engine.Do(ctx, &session.Request{Kind: session.GetAttr, ID: session.ID(name), Name: boundTo})
	switch r.Status {
	case session.OK:
		return string(r.Attr.Value), true
	case session.NotFound, session.NoAttr:
		return "", true
	}
	return "", false
}

// Bind implements proxy.Bindings. The record lasts as long as it is used: that
// is counted from when the application gave out the id, or a request brought it.
func (s proxySessions) Bind(name, binding string, only bool, done func(bool)) {
	s.engine.Start(&session.Request{
		Kind: session.Patch, ID: session.ID(name), IfMatchAny: only, MaxAge: session.NamedMaxAge, Acks: session.AcksDefault,
		Attrs: []session.Attr{{Name: boundTo, Value: []byte(binding), Type: "text/plain"}},
	}, bound(done))
	s.engine.Flush()
}

// bound is told of a binding's end.
type bound func(kept bool)

// Answered implements replicate.Waiter.
func (done bound) Answered(r *session.Response) { done(r.Status == session.OK) }
