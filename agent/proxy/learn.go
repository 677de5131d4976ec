package proxy

import (
	"context"
	"time"

	"github.com/cespare/xxhash/v2"
)

const (
	learnedHalf = 1024
	maxLearned  = 512 // bytes of a value; longer ones are nobody's session

	findTimeout = 100 * time.Millisecond
	findFresh   = 2 * time.Second        // for so long an agent goes by what it last heard
	findNothing = 250 * time.Millisecond // and by that there is nothing: it may come at any time
	findRetry   = time.Second            // after nobody could say
	keepWait    = 100 * time.Millisecond
)

// Bindings keeps what applications' own session ids are bound to, for all
// agents. All methods may be called from many goroutines at once.
type Bindings interface {
	// Name returns the name that a value has in a scope: a keyed hash, the same
	// on all agents, which tells nothing of the value. It answers from memory; ok
	// is false while there is no key. Sessions.Touch takes such names, too.
	Name(scope string, value []byte) (name string, ok bool)
	// Find returns what is bound to a name, "" for nothing; known is false when
	// nobody could say in the time that ctx gives. It blocks for as long.
	Find(ctx context.Context, name string) (binding string, known bool)
	// Bind begins to keep a binding and does not wait for it; done is called once,
	// when every copy has it or it could not be kept, and must not block. With
	// only, a name that was never bound stays so.
	Bind(name, binding string, only bool, done func(kept bool))
}

// learned knows which session and instance belong to the ids that an application
// gives its users, for clients that bring that one alone. The cluster keeps the
// bindings; this is what an agent remembers of them.
//
// Only what an application has given out is kept by the cluster. What a client
// brings and nobody knows is remembered here, and where it goes is computed from
// it: made-up ids must not fill the memory of all.
type learned struct {
	*recent[learnt]
	shared Bindings // nil: this agent is alone
}

// learnt is what an agent knows of a name.
type learnt struct {
	text  string    // as in the cookie; "" for nothing
	kept  bool      // by the cluster
	until time.Time // asked again after that
}

func newLearned(shared Bindings) learned { return learned{newRecent[learnt](learnedHalf), shared} }

// nameMemo keeps a connection's last value, so that its hash is worked out once
// for many requests.
type nameMemo struct {
	scope string
	value []byte
	name  string
}

// name returns the name of a value, "" where it can have none.
func (l learned) name(m *nameMemo, scope string, value []byte) string {
	if len(value) == 0 || len(value) > maxLearned {
		return ""
	}
	if m.name != "" && m.scope == scope && string(m.value) == string(value) {
		return m.name
	}
	name, ok := scope+"\x00"+string(value), true
	if l.shared != nil {
		name, ok = l.shared.Name(scope, value)
	}
	if !ok {
		return ""
	}
	m.scope, m.value, m.name = scope, append(m.value[:0], value...), name
	return name
}

// remember returns what is known of a name, and whether that is sure enough not
// to ask.
func (l learned) remember(name string, now time.Time) (b learnt, sure bool) {
	b, ok := l.get(name)
	return b, l.shared == nil || ok && now.Before(b.until)
}

// ask asks who keeps the name. It BLOCKS for up to findTimeout.
func (l learned) ask(name string, now time.Time) learnt {
	ctx, cancel := context.WithTimeout(context.Background(), findTimeout)
	defer cancel()
	text, known := l.shared.Find(ctx, name)
	b, _ := l.get(name)
	switch {
	case !known:
		b.until = now.Add(findRetry)
	case text != "":
		b = learnt{text, true, now.Add(findFresh)}
	case b.kept: // it has ended
		b = learnt{until: now.Add(findNothing)}
	default:
		b.until = now.Add(findNothing)
	}
	l.put(name, b)
	return b
}

// recall completes the claim of a client that has no usable cookie of ours, by
// the id that it has of the application. For one not seen lately somebody has to
// be asked; without wait it reports false then, having changed nothing.
func (x *exchange) recall(wait bool) bool {
	cl := &x.choose.claim
	if !x.rt.Sticky.learns() || cl.standing != wanted {
		return true
	}
	value := carried(x.q, &x.rt.Sticky)
	name := x.p.learned.name(&x.c.memo.names, x.rt.Service, value)
	if name == "" {
		return true
	}
	b, sure := x.p.learned.remember(name, x.began)
	if !sure {
		if !wait {
			return false
		}
		b = x.p.learned.ask(name, x.began)
	}
	if b.text != "" {
		if c := readCookie(x.p.sessions, []byte(b.text)); c.standing != wanted {
			*cl = c
		}
	}
	if cl.standing == wanted {
		cl.hash = xxhash.Sum64(value)
	}
	cl.bare = true
	return true
}

// learn notes what the client is bound to from this answer on, an empty id that
// it is bound to nothing. It does not wait: where the application has just given
// out an id, x.kept is closed once every agent can know.
//
// An id in an address is easily brought by somebody else, who has a session of
// his own: his request, and an answer that repeats the id he brought, change
// nothing of what it is bound to. That is left to the client whose session it is
// bound to, to one that brings it alone, and to the application, where it gives
// the id out anew.
func (x *exchange) learn(id, tag string) {
	s := &x.rt.Sticky
	if !s.learns() {
		return
	}
	value, ended := given(&x.resp, s)
	issued := value != nil && !ended
	if !issued {
		value = carried(x.q, s)
	}
	l := x.p.learned
	name := l.name(&x.c.memo.names, x.rt.Service, value)
	if name == "" {
		return
	}
	b, _ := l.get(name)
	text := ""
	if id != "" && !ended {
		text = id + "." + tag
	}
	if text != "" && b.text == text && (b.kept || !issued) {
		x.used(name)
		return
	}
	cl := &x.choose.claim
	if anew := issued && !brings(x.q, s, value); !anew && !cl.bare {
		sure := b.text != "" && (l.shared == nil || b.kept && x.began.Before(b.until))
		switch {
		case sure && !cl.boundBy(b.text), l.shared == nil && !sure && !issued:
			x.used(name)
			return
		case l.shared != nil && !sure:
			if issued || text == "" || id != cl.id || tag != cl.tag {
				x.rebind(name, text, issued)
			} else {
				x.used(name)
			}
			return
		}
	}
	now := learnt{text, text != "" && (b.kept || issued), x.began.Add(findNothing)}
	if now.kept {
		now.until = x.began.Add(findFresh)
	}
	l.put(name, now)
	switch {
	case l.shared == nil:
	case issued:
		done := make(chan struct{})
		x.kept = done
		l.shared.Bind(name, text, false, func(kept bool) {
			if !kept {
				l.put(name, learnt{text, false, now.until})
			}
			close(done)
		})
	case b.kept || text == "":
		l.shared.Bind(name, text, true, func(bool) {})
	default: // who brings an id that nobody could tell of changes nothing
		x.p.sessions.Touch(name)
	}
}

// awaitKept waits until every agent can know of an id that the application gives
// out with this answer, or for a while: the client may come to another one at
// once. It BLOCKS for up to keepWait.
func (x *exchange) awaitKept() {
	if x.kept == nil {
		return
	}
	limit := time.NewTimer(keepWait)
	defer limit.Stop()
	select {
	case <-x.kept:
	case <-limit.C:
	}
	x.kept = nil
}

// givesOut reports whether the answer gives out an id that awaitKept may have to
// wait for. It does not block, and looks at routes that learn alone.
func (x *exchange) givesOut() bool {
	if !x.rt.Sticky.learns() {
		return false
	}
	value, ended := given(&x.resp, &x.rt.Sticky)
	return value != nil && !ended
}
