package proxy

import (
	"bytes"
	"context"

	"github.com/rondel-project/rondel/agent/http1"
)

// boundBy reports whether a binding names the session that the client brought,
// one that turned out to have ended included.
func (c *claim) boundBy(binding string) bool {
	id, _ := splitCookie([]byte(binding))
	return len(id) > 0 && (string(id) == c.id || string(id) == c.lost)
}

// brings reports whether a request carries the value in any of the places where
// the route looks for the application's ids.
func brings(q *http1.Request, s *Sticky, value []byte) bool {
	return s.Learn != "" && bytes.Equal(cookieValue(q, s.Learn), value) ||
		s.LearnHeader != "" && bytes.Equal(fieldValue(q, s.LearnHeader), value) ||
		s.LearnPath != "" && bytes.Equal(pathParameter(q.Path, s.LearnPath), value) ||
		s.LearnQuery != "" && bytes.Equal(queryParameter(q.Query, s.LearnQuery), value)
}

// used says that a name was brought by a request.
func (x *exchange) used(name string) {
	if x.p.learned.shared != nil {
		x.p.sessions.Touch(name)
	}
}

// rebind changes the binding of a name that this agent knows nothing sure of,
// after it has heard that it is bound to the client's own session; or to
// nothing, where the application has given it out. It does not wait for that.
func (x *exchange) rebind(name, text string, issued bool) {
	p, l, own, began := x.p, x.p.learned, x.choose.claim, x.began
	kept := make(chan struct{})
	if issued {
		x.kept = kept
	}
	p.wg.Add(1) // the connection counts as one already
	go func() {
		defer p.wg.Done()
		ctx, cancel := context.WithTimeout(context.Background(), findTimeout)
		defer cancel()
		old, known := l.shared.Find(ctx, name)
		if known && old != "" {
			l.put(name, learnt{old, true, began.Add(findFresh)})
		}
		if !known || old == "" && !issued || old != "" && !own.boundBy(old) {
			p.sessions.Touch(name)
			close(kept)
			return
		}
		now := learnt{text, text != "", began.Add(findFresh)}
		l.put(name, now)
		l.shared.Bind(name, text, !issued, func(ok bool) {
			if !ok {
				l.put(name, learnt{text, false, now.until})
			}
			close(kept)
		})
	}()
}
