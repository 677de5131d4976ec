package proxy

import (
	"bytes"

	"github.com/cespare/xxhash/v2"

	"github.com/rondel-project/rondel/agent/http1"
)

const (
	learnedHalf = 1024
	maxLearned  = 512 // bytes of a value; longer ones are nobody's session
)

// learned remembers which session and instance belong to the values of an
// application's own cookie, for clients that bring that one alone. It is this
// agent's memory: whoever asks another agent, or comes after a restart, is sent
// where the value's hash says, which is the same everywhere.
type learned struct{ *recent[binding] }

// binding is what a sticky cookie says.
type binding struct{ id, tag string }

func newLearned() learned { return learned{newRecent[binding](learnedHalf)} }

// recall completes the claim of a client without a usable cookie of ours.
func (l learned) recall(s Sessions, rt *route, q *http1.Request, cl *claim) {
	if cl.standing != wanted || cl.tag != "" {
		return
	}
	value := cookieValue(q, rt.Sticky.Learn)
	if len(value) == 0 || len(value) > maxLearned {
		return
	}
	if b, ok := l.get(learnedName(rt, value)); ok {
		*cl = readClaim(s, b.id, b.tag)
	}
	if cl.standing == wanted {
		cl.hash = xxhash.Sum64(value)
	}
	cl.bare = true
}

// note remembers what the client is bound to from this answer on; an empty id
// forgets it.
func (l learned) note(rt *route, q *http1.Request, r *http1.Response, b binding) {
	value := setValue(r, rt.Sticky.Learn)
	if value == nil {
		value = cookieValue(q, rt.Sticky.Learn)
	}
	switch {
	case len(value) == 0 || len(value) > maxLearned:
	case b.id == "":
		l.forget(learnedName(rt, value))
	default:
		l.put(learnedName(rt, value), b)
	}
}

func learnedName(rt *route, value []byte) string { return rt.Service + "\x00" + string(value) }

// setValue returns the value that the response gives a cookie, or nil.
func setValue(r *http1.Response, name string) []byte {
	for i := range r.Fields.Fields {
		f := &r.Fields.Fields[i]
		if f.Known != http1.SetCookie || len(f.Value) <= len(name) || f.Value[len(name)] != '=' || string(f.Value[:len(name)]) != name {
			continue
		}
		value, _, _ := bytes.Cut(f.Value[len(name)+1:], []byte{';'})
		return bytes.TrimRight(value, " \t")
	}
	return nil
}
