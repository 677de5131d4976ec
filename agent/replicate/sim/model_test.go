package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rondel-project/rondel/agent/session"
)

// kind is what a client does.
type kind uint8

const (
	get kind = iota
	put
	patch
	del
	setAttr
	delAttr
	incr
	appendTo
	rotate
	create
	touch
)

func (k kind) String() string {
	return [...]string{"get", "put", "patch", "delete", "set", "del", "incr", "append", "rotate", "create", "touch"}[k]
}

// attrs are the four attributes that sessions of the simulation have: two
// registers, a counter, a list.
type attrs struct{ a, b, n, l string }

// input is one operation as the model sees it.
type input struct {
	kind kind
	id   int // which of the family's ids
	to   int // rotate: the next one
	n    int // the operation's number
	last int // If-Match: the operation whose version was asked for; 0: none
	set  attrs
}

// output is what the client was told.
type output struct {
	unknown bool // it may have happened, at any time from then on
	found   bool
	attr    bool // delAttr: it was there
	differs bool // If-Match: another version, nothing was changed
	exists  bool // create: there is one already
	got     attrs
	value   string // incr, append
}

// state is a session and the ids that it had and has.
type state struct {
	live int // -1: none
	dead uint64
	last int // the operation that made it what it is
	attrs
}

func (st state) isDead(id int) bool { return st.dead&(1<<id) != 0 }

// apply is what a mutation makes of a state; false where it finds no session.
func (st state) apply(in input) (state, bool) {
	if st.isDead(in.id) || st.live >= 0 && st.live != in.id || in.kind == rotate && st.live < 0 ||
		in.kind == create && st.live >= 0 || in.last != 0 && st.last != in.last {
		return st, false
	}
	st.last = in.n
	if st.live < 0 {
		st.live, st.attrs = in.id, attrs{}
	}
	switch in.kind {
	case put, create:
		st.attrs = in.set
	case patch, setAttr:
		if in.set.a == "-" {
			st.a = ""
		} else if in.set.a != "" {
			st.a = in.set.a
		}
		if in.set.b != "" {
			st.b = in.set.b
		}
	case delAttr:
		st.a = ""
	case incr:
		n, _ := strconv.Atoi(st.n)
		by, _ := strconv.Atoi(in.set.n)
		st.n = strconv.Itoa(n + by)
	case appendTo:
		if st.l == "" || st.l == "[]" {
			st.l = "[" + in.set.l + "]"
		} else {
			st.l = strings.TrimSuffix(st.l, "]") + "," + in.set.l + "]"
		}
	case del:
		return state{live: -1, dead: st.dead | 1<<in.id, last: in.n}, true
	case rotate:
		st.dead |= 1 << in.id
		st.live = in.to
	}
	return st, true
}

var model = porcupine.Model{
	Init: func() any { return state{live: -1} },
	Step: func(s, i, o any) (bool, any) {
		st, in, out := s.(state), i.(input), o.(output)
		if in.kind == get {
			if !out.found {
				return st.live != in.id, st
			}
			return st.live == in.id && st.attrs == out.got, st
		}
		if in.kind == touch {
			return out.found == (st.live == in.id), st
		}
		next, ok := st.apply(in)
		switch {
		case out.differs:
			// A takeover may have stamped the state anew, so this tells nothing of it.
			return true, st
		case out.exists:
			return st.live == in.id, st
		case out.unknown:
			return true, next
		case out.found != ok:
			return false, st
		case !ok:
			return true, st
		}
		switch in.kind {
		case delAttr:
			// Of an absent attribute nothing is removed, and nothing comes into being.
			if had := st.live == in.id && st.a != ""; had != out.attr {
				return false, st
			} else if !had {
				return true, st
			}
		case incr:
			return next.n == out.value, next
		case appendTo:
			return strconv.Itoa(strings.Count(next.l, ",")+1) == out.value, next
		}
		return true, next
	},
	Equal: func(a, b any) bool { return a.(state) == b.(state) },
	DescribeOperation: func(i, o any) string {
		return fmt.Sprintf("%v -> %+v", i.(input), o.(output))
	},
}

// linearizable checks one family's history.
func linearizable(f *family) (porcupine.CheckResult, []porcupine.Operation) {
	var ops []porcupine.Operation
	for i, o := range f.ops {
		if o.state == failed {
			continue
		}
		op := porcupine.Operation{ClientId: o.client, Input: o.in, Call: o.call, Output: o.out, Return: o.ret}
		if o.state != done {
			if o.in.kind == get || o.in.kind == touch {
				continue
			}
			op.ClientId, op.Output, op.Return = 1000+i, output{unknown: true}, 1<<60
		}
		ops = append(ops, op)
	}
	return porcupine.CheckOperationsTimeout(model, ops, 20*time.Second), ops
}

// got reads the four attributes off a record.
func got(r *session.Record) (a attrs) {
	text := func(name string) string {
		if x := r.Attr(name); x != nil {
			return string(x.Value)
		}
		return ""
	}
	return attrs{text("a"), text("b"), text("n"), text("l")}
}

func (a attrs) request(only ...string) (out []session.Attr) {
	add := func(name, v string) {
		if v == "" || len(only) > 0 && !slices.Contains(only, name) {
			return
		}
		if v == "-" {
			out = append(out, session.Attr{Name: name, Dead: true})
			return
		}
		out = append(out, session.Attr{Name: name, Value: []byte(v)})
	}
	add("a", a.a)
	add("b", a.b)
	add("n", a.n)
	add("l", a.l)
	return out
}
