package session

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Env is what Apply needs to know beside the record and the request.
type Env struct {
	Gen        Gen
	Stamp      Stamp
	Now        int64 // nanoseconds on the holder's clock
	Wall       int64 // Unix milliseconds
	MaxSize    int
	TTL        time.Duration // of a session that comes into being
	MaxAge     time.Duration
	KeepDead   bool          // serve mode: removed attributes leave a mark
	KeepDeadAt time.Duration // for how long, at least
	// MayCreate: the id was issued lately enough that a first write may bring
	// its session into being.
	MayCreate bool
}

// Change is what Apply makes of a mutation.
type Change struct {
	Next *Record
	Set  []*Attr // the attributes that differ from the base, removed ones dead
	Op   *Op     // to be remembered, nil if none
	Full bool    // Set is not enough: send the whole record
	// Twin is the second record that the same write makes: of a rotation, the
	// session under its new id.
	Twin *Record
}

// Apply works out what req makes of rec, which is nil where the session has no
// record. It returns the change to be replicated and the answer to give once
// that is done; or no change, and the answer to give now: a refusal, or that of
// the same operation done before.
func Apply(rec *Record, req *Request, env Env) (*Change, *Response) {
	if rec != nil && req.Op != (OpID{}) {
		if op := rec.FindOp(req.Op); op != nil {
			return nil, replay(rec, op, req)
		}
	}
	if r := admit(rec, req, env); r != nil {
		return nil, r
	}
	var past *Record // that a named id had before its end
	if rec != nil && rec.Dead {
		past, rec = rec, nil
	}
	next, base := &Record{}, rec
	if rec == nil {
		ttl, age := req.TTL, req.MaxAge
		if ttl == 0 {
			ttl = env.TTL
		}
		if age == 0 {
			age = env.MaxAge
		}
		*next = Record{ID: req.ID, Created: env.Wall, TTL: ttl, MaxAge: age, Group: req.Group, Principal: req.Principal}
		if past != nil {
			next.Ver, next.Ops = past.Ver, past.Ops
		}
	} else {
		*next = *rec
	}
	next.Gen, next.Ver = env.Gen, next.Ver+1
	c := &Change{Next: next, Full: base == nil}
	resp := &Response{Status: OK, ID: next.ID, Version: next.Version()}
	set, r := edit(base, req, env, resp)
	if r != nil {
		return nil, r
	}
	c.Set = set
	if env.KeepDead && base != nil && next.dropOldDead(env) {
		c.Full = true
	}
	next.with(set, env.KeepDead)
	if env.KeepDead && next.dropManyDead() {
		c.Full = true
	}
	// What merged or was written under a higher limit may be above it. It can
	// always be made smaller.
	before := 0
	if base != nil {
		before = base.size
	}
	if next.size > env.MaxSize && next.size > before && req.Kind != Delete && req.Kind != Rotate {
		return nil, tooLarge(next, env.MaxSize)
	}
	if req.Kind == Delete || req.Kind == Rotate {
		if req.Kind == Rotate {
			c.Twin = rotated(base, req.NewID, env)
			next.Rotated, resp.NewID = req.NewID, req.NewID
		}
		next.Dead, next.Attrs, next.Group, next.Principal = true, nil, "", ""
		next.seal()
		c.Full = true
	}
	if req.Op != (OpID{}) {
		op := Op{ID: req.Op, Body: req.Body, Ver: next.Ver, At: env.Now, Auto: req.AutoOp, Value: resp.Value}
		if req.Kind == Rotate {
			op.Value = []byte(req.NewID)
		}
		next.Ops = remember(next.Ops, op, env.Now)
		c.Op = &next.Ops[len(next.Ops)-1]
		if c.Twin != nil {
			c.Twin.Ops = nil
		}
	}
	return c, resp
}

// admit refuses what the record's state does not allow.
func admit(rec *Record, req *Request, env Env) *Response {
	switch {
	case rec != nil && rec.Dead && (!rec.ID.Named() || req.Kind == Delete || req.Kind == Rotate || req.IfMatchAny):
		return fail(NotFound, "unknown_session", "the session has ended or was deleted; a new one needs a new id")
	case rec != nil && rec.Dead: // made again
		return nil
	case rec == nil && req.Kind == Rotate, rec == nil && !env.MayCreate && req.Kind != Create:
		return fail(NotFound, "unknown_session", "no such session; POST /v1/sessions makes one")
	case rec != nil && req.Kind == Create:
		return fail(Conflict, "session_exists", "a session with this id exists")
	}
	if req.IfMatchAny && rec == nil {
		return fail(VersionDiffs, "version_mismatch", "If-Match asks for a session that exists, and there is none")
	}
	if len(req.IfMatch) > 0 && (rec == nil || !slices.Contains(req.IfMatch, rec.Version())) {
		r := fail(VersionDiffs, "version_mismatch", "the session has changed since the version in If-Match; read it again")
		if rec != nil {
			r.ID, r.Version = rec.ID, rec.Version()
		}
		return r
	}
	return nil
}

func replay(rec *Record, op *Op, req *Request) *Response {
	if op.Body != req.Body {
		return fail(Conflict, "idempotency_key_reused",
			"this Idempotency-Key was used for another body; use a new key for a new request")
	}
	r := &Response{Status: OK, ID: rec.ID, Version: Version{rec.Gen, op.Ver}, Replay: true}
	switch req.Kind {
	case Create:
		if !rec.Dead {
			r.Record = rec
		}
	case Rotate:
		r.NewID = ID(op.Value)
	case Append:
		r.Value = op.Value
		fmt.Sscan(string(op.Value), &r.Length)
	default:
		r.Value = op.Value
	}
	return r
}

// edit returns the attributes that the request sets or, dead, removes.
func edit(rec *Record, req *Request, env Env, resp *Response) ([]*Attr, *Response) {
	put := func(name string, v []byte, typ string, dead bool) *Attr {
		return NewAttr(name, v, typ, dead, env.Stamp)
	}
	var set []*Attr
	switch req.Kind {
	case Create, Patch, SetAttr, Put:
		for i, a := range req.Attrs {
			again := slices.ContainsFunc(req.Attrs[i+1:], func(b Attr) bool { return b.Name == a.Name })
			if again { // of one name given twice, the last counts
				continue
			}
			if a.Dead && (rec == nil || rec.Attr(a.Name) == nil) {
				continue
			}
			set = append(set, put(a.Name, a.Value, a.Type, a.Dead))
		}
		if req.Kind == Put && rec != nil {
			for _, old := range rec.Attrs {
				if !old.Dead && !slices.ContainsFunc(req.Attrs, func(a Attr) bool { return a.Name == old.Name }) {
					set = append(set, put(old.Name, nil, "", true))
				}
			}
		}
	case DelAttr:
		if rec == nil || rec.Attr(req.Name) == nil {
			return nil, fail(NoAttr, "unknown_attribute", "the session has no such attribute")
		}
		set = append(set, put(req.Name, nil, "", true))
	case Incr:
		v, r := increment(rec, req)
		if r != nil {
			return nil, r
		}
		resp.Value = v
		set = append(set, put(req.Name, v, "", false))
	case Append:
		v, n, r := appendTo(rec, req)
		if r != nil {
			return nil, r
		}
		resp.Length, resp.Value = n, []byte(fmt.Sprint(n))
		set = append(set, put(req.Name, v, "", false))
	}
	slices.SortFunc(set, func(a, b *Attr) int { return strings.Compare(a.Name, b.Name) })
	return set, nil
}

func rotated(rec *Record, id ID, env Env) *Record {
	n := *rec
	n.ID, n.Gen, n.Ver, n.Ops = id, env.Gen, rec.Ver+1, nil
	return &n
}

func tooLarge(next *Record, limit int) *Response {
	r := fail(TooLarge, "session_too_large", "")
	big := -1
	for _, a := range next.Attrs {
		if !a.Dead && a.size() > big {
			big, r.LargestAttr = a.size(), a.Name
		}
	}
	r.Limit, r.CurrentLength = limit, next.size
	r.Error = fmt.Sprintf("the session would hold %d bytes, the limit is %d (session.max_size); its largest attribute is %q with %d",
		next.size, limit, r.LargestAttr, big)
	return r
}

// dropOldDead forgets removals that no copy can be unaware of any more.
func (r *Record) dropOldDead(env Env) bool {
	if r.dead == 0 {
		return false
	}
	limit := uint64(max(0, env.Wall-env.KeepDeadAt.Milliseconds())) << 16
	old := func(a *Attr) bool { return a.Dead && a.Stamp.HLC < limit }
	if slices.ContainsFunc(r.Attrs, old) {
		r.Attrs = slices.DeleteFunc(slices.Clone(r.Attrs), old)
		r.seal()
		return true
	}
	return false
}

// maxDead bounds the removals that a record remembers for a merge. An
// application that sets and removes ever new names would else grow it without
// end.
const maxDead = 128

// dropManyDead forgets the oldest half of the removals when there are too many.
func (r *Record) dropManyDead() bool {
	if r.dead <= maxDead {
		return false
	}
	var stamps []Stamp
	for _, a := range r.Attrs {
		if a.Dead {
			stamps = append(stamps, a.Stamp)
		}
	}
	slices.SortFunc(stamps, Stamp.Compare)
	limit := stamps[len(stamps)-maxDead/2]
	r.Attrs = slices.DeleteFunc(r.Attrs, func(a *Attr) bool { return a.Dead && a.Stamp.Compare(limit) < 0 })
	r.seal()
	return true
}
