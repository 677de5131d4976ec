package sim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/rondel-project/rondel/agent/replicate"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

const clients = 4

// load is the clients and the sessions that they use.
type load struct {
	w      *world
	key    ring.Key
	slots  []ring.Slot
	fams   []*family // in use
	all    []*family
	users  []*user
	crowds []*crowd
	next   int
	end    int64
}

// family is one session under all the ids that it gets by rotation.
type family struct {
	n       int
	slot    ring.Slot
	ids     []session.ID
	known   []int // ids that clients were told of, oldest first
	ops     []*op
	unknown int
	seen    []*op // changes whose versions clients know, for If-Match
	once    bool  // nothing may be done twice
	early   bool  // writes ask for fewer acknowledgements than all
	tainted bool  // serve: an answer came before all copies had the write
	deleted int64
}

func (l *load) init(w *world) {
	l.w = w
	l.key = ring.Key{ID: 1, Secret: [32]byte(w.bytes(32))}
	l.end = int64(w.length)
	for range 3 {
		l.slots = append(l.slots, ring.Slot(w.rng.IntN(ring.Slots)))
	}
	for range 3 {
		l.fresh()
	}
	for c := range clients {
		w.at(w.between(500*ms, 1500*ms), -1, func() { l.client(c) })
	}
	if w.tight || w.chance(0.1) {
		w.at(w.between(1*sc, 6*sc), -1, l.crowd)
	}
	for range 2 {
		u := &user{w: w}
		l.users = append(l.users, u)
		w.at(w.between(500*ms, 1500*ms), -1, u.begin)
	}
	w.at(w.between(500*ms, 1500*ms), -1, (&binding{w: w}).begin)
}

func (l *load) fresh() *family {
	f := &family{n: len(l.all), slot: l.slots[l.w.rng.IntN(len(l.slots))], early: l.w.chance(0.05), once: l.w.refuse}
	f.ids = append(f.ids, l.mint(f.slot))
	f.known = []int{0}
	l.fams, l.all = append(l.fams, f), append(l.all, f)
	return f
}

// mint makes an id as session.Keyring does, but of the run's own random bits.
func (l *load) mint(slot ring.Slot) session.ID {
	b := append(make([]byte, 0, 36), 1, l.key.ID)
	b = binary.BigEndian.AppendUint16(b, uint16(slot))
	b = binary.BigEndian.AppendUint32(b, uint32((wallBase+l.w.now/ms-l.w.old())/1000))
	b = append(b, l.w.bytes(16)...)
	m := hmac.New(sha256.New, l.key.Secret[:])
	m.Write(b)
	return session.ID(base64.RawURLEncoding.EncodeToString(m.Sum(b)[:36]))
}

// old is how long ago ids were issued, in milliseconds. Whoever gets one may
// make a session of it for so long that a deletion of that is remembered
// longer; with a hermit, for 30 s.
func (w *world) old() int64 {
	if w.hermit {
		return (sessionTTL + 5*time.Minute - 30*time.Second).Milliseconds()
	}
	return 0
}

type opState uint8

const (
	running opState = iota
	done
	failed  // it certainly did not happen
	unknown // it may have happened, or may still
)

// op is one operation of a client, with all its tries.
type op struct {
	l        *load
	fam      *family
	client   int
	in       input
	out      output
	req      session.Request
	call     int64
	ret      int64
	state    opState
	tries    int
	most     int
	maybe    bool
	copies   int // the largest number of replicas in sync at any time of it
	version  session.Version
	replay   bool
	replicas int
	keepers  keepers
}

func (l *load) client(c int) {
	w := l.w
	if w.now > l.end {
		return
	}
	f := l.fams[w.rng.IntN(len(l.fams))]
	if f.unknown > 5 || f.deleted > 0 && w.now-f.deleted > 2*sc || len(f.ids) > 40 {
		l.fams = slices.DeleteFunc(l.fams, func(x *family) bool { return x == f })
		f = l.fresh()
	}
	id := f.known[len(f.known)-1]
	if w.chance(0.1) {
		id = f.known[w.rng.IntN(len(f.known))]
	}
	l.next++
	o := &op{l: l, fam: f, client: c, call: w.now, in: input{id: id, n: l.next}, most: w.rng.IntN(5) + 1}
	v := strconv.Itoa(l.next)
	o.req = session.Request{ID: f.ids[id], Acks: session.AcksDefault}
	p := w.rng.IntN(100)
	if len(f.ops) == 0 && w.chance(0.5) {
		p = 0
	}
	if p < 3 && w.hermit {
		p = 50 // what makes a session whenever it comes must not come so late
	}
	switch {
	case p < 3:
		o.in.kind, o.req.Kind = create, session.Create
		o.in.set = attrs{a: v, n: "100", l: "[]"}
		o.req.Attrs = o.in.set.request()
	case p < 8:
		o.in.kind, o.req.Kind = touch, session.Touch
	case p < 45:
		o.in.kind, o.req.Kind = get, session.Get
		o.req.Touch = w.chance(0.3)
	case p < 55:
		o.in.kind, o.req.Kind = put, session.Put
		o.in.set = attrs{a: v, n: "100", l: "[]"}
		o.req.Attrs = o.in.set.request()
	case p < 65:
		o.in.kind, o.req.Kind = patch, session.Patch
		o.in.set = attrs{a: v, b: v}
		if w.chance(0.3) {
			o.in.set.a = "-"
		}
		o.req.Attrs = o.in.set.request()
	case p < 70:
		o.in.kind, o.req.Kind = setAttr, session.SetAttr
		o.in.set = attrs{b: v}
		o.req.Attrs = o.in.set.request()
	case p < 73:
		o.in.kind, o.req.Kind, o.req.Name = delAttr, session.DelAttr, "a"
	case p < 84:
		o.in.kind, o.req.Kind, o.req.Name, o.req.Value = incr, session.Incr, "n", []byte("3")
		o.in.set.n = "3"
	case p < 94:
		o.in.kind, o.req.Kind, o.req.Name, o.req.Value = appendTo, session.Append, "l", []byte(v)
		o.in.set.l = v
	case p < 97:
		o.in.kind, o.req.Kind = rotate, session.Rotate
		o.in.to = len(f.ids)
		o.req.NewID = l.mint(f.slot)
		f.ids = append(f.ids, o.req.NewID)
	default:
		o.in.kind, o.req.Kind = del, session.Delete
	}
	if n := len(f.seen); n > 0 && (o.in.kind == put || o.in.kind == patch || o.in.kind == incr || o.in.kind == del) && w.chance(0.25) {
		if w.chance(0.8) {
			n = 1 // mostly the newest
		}
		x := f.seen[len(f.seen)-1-w.rng.IntN(n)]
		o.in.last, o.req.IfMatch = x.in.n, []session.Version{x.version}
	}
	if o.changes() {
		copy(o.req.Op[:], w.bytes(16))
		if f.early {
			o.req.Acks = int8(w.rng.IntN(3)) - 1
		}
	}
	f.ops = append(f.ops, o)
	o.try()
}

// changes reports whether the operation makes a version.
func (o *op) changes() bool { return o.in.kind != get && o.in.kind != touch }

// try sends the operation to some agent, now and then to two at the same time.
func (o *op) try() {
	w := o.l.w
	var up []*host
	for _, h := range w.hosts {
		if h.up && !h.ending {
			up = append(up, h)
		}
	}
	if len(up) == 0 {
		w.at(200*ms, -1, o.try)
		return
	}
	h := up[w.rng.IntN(len(up))]
	o.tries++
	try, boot := o.tries, h.boot
	o.see()
	sent := w.now
	if g := up[w.rng.IntN(len(up))]; g != h && o.changes() && w.chance(0.05) {
		o.maybe = true // whatever the one answers, the other may still do it
		twice := g.boot
		w.at(w.between(50*us, 5*ms), g.idx, func() {
			if g.up && g.boot == twice && w.now-sent < connectionLife {
				req := o.req
				g.ask(&req, func(a *replicate.Answer) {
					w.at(w.between(50*us, 500*us), -1, func() { o.answer(try, a) })
				})
			}
		})
		w.stats["twins"]++
	}
	w.at(w.between(50*us, 500*us), h.idx, func() {
		if !h.up || h.boot != boot || w.now-sent > connectionLife {
			w.at(ms, -1, func() { o.answer(try, nil) })
			return
		}
		req := o.req
		h.ask(&req, func(a *replicate.Answer) {
			w.at(w.between(50*us, 500*us), -1, func() { o.answer(try, a) })
		})
	})
	w.at(2600*ms, -1, func() { o.answer(try, nil) })
}

// see notes how many replicas the slot has: an answer by fewer is no promise.
func (o *op) see() {
	o.copies = max(o.copies, len(o.l.w.raft.table.Slots[o.fam.slot].InSync)-1)
}

func (h *host) ask(req *session.Request, f func(*replicate.Answer)) {
	h.last++
	handle := h.last
	h.calls[handle] = f
	h.step(func(t replicate.Time, out *replicate.Out) { h.core.Request(t, handle, req, out) })
}

func sortedHandles(m map[uint64]func(*replicate.Answer)) []uint64 {
	return slices.Sorted(maps.Keys(m))
}

// answer takes what the agent said to one try; nil is a broken connection or
// no answer.
func (o *op) answer(try int, a *replicate.Answer) {
	if o.state != running || try != o.tries {
		return
	}
	w := o.l.w
	o.see()
	var r *session.Response
	if a != nil {
		r = a.Resp
	}
	w.note(o.in.kind, r != nil)
	if r != nil {
		w.logf("family %d client %d %v id %d try %d: %d %s by %d version %v", o.fam.n, o.client, o.in.kind, o.in.id, try, r.Status, r.Code, r.Owner, r.Version)
	} else {
		w.logf("family %d client %d %v id %d try %d: no answer", o.fam.n, o.client, o.in.kind, o.in.id, try)
	}
	switch {
	case r == nil, r.Status == session.UnknownEnd:
		o.maybe = o.changes()
	case r.Status == session.Unavailable, r.Status == session.Retry:
	case r.Status == session.OK, r.Status == session.NotFound, r.Status == session.NoAttr,
		r.Status == session.VersionDiffs && o.in.last != 0, r.Code == "session_exists" && o.in.kind == create:
		o.finish(r)
		return
	default:
		w.check.fail("%v of family %d: status %d %s %s", o.in.kind, o.fam.n, r.Status, r.Code, r.Error)
		return
	}
	if o.tries < o.most && w.now-o.call < 12*sc {
		w.at(w.between(ms, 200*ms), -1, o.try)
		return
	}
	o.state = failed
	if o.maybe {
		o.state = unknown
		o.fam.unknown++
	}
	w.stats[map[opState]string{failed: "failed", unknown: "unknown"}[o.state]]++
	o.over()
}

func (o *op) finish(r *session.Response) {
	w, f := o.l.w, o.fam
	o.state, o.ret, o.version, o.replay, o.replicas = done, w.now, r.Version, r.Replay, len(r.Replicas)
	o.out = output{
		found: r.Status != session.NotFound, attr: r.Status == session.OK,
		differs: r.Status == session.VersionDiffs, exists: r.Status == session.Conflict,
	}
	for _, num := range append(slices.Clone(r.Replicas), r.Owner) {
		if m := w.raft.table.Member(num); m != nil {
			o.keepers = append(o.keepers, m.Boot)
		}
	}
	if o.in.last != 0 && !o.out.found && !w.refuse {
		o.out.differs = true
	}
	if o.in.kind != delAttr && r.Status == session.NoAttr {
		w.check.fail("%v answered that an attribute is absent", o.in.kind)
	}
	if o.out.differs && o.maybe || o.in.kind == delAttr && !o.out.attr || o.in.kind == rotate && !o.out.found {
		// A refusal is not remembered: another copy of the request that is still
		// on its way may find what this one did not.
		o.state = unknown
	}
	if r.Record != nil {
		o.out.got = got(r.Record)
	}
	o.out.value = string(r.Value)
	if r.Status == session.OK {
		w.stats["ok"]++
		switch o.in.kind {
		case rotate:
			if r.NewID != o.req.NewID {
				w.check.fail("rotate answered an id that was not given")
			}
			f.known = append(f.known, o.in.to)
			f.seen = nil
		case del:
			f.deleted, f.seen = w.now, nil
		case put, patch, incr, appendTo, create:
			f.seen = append(f.seen, o)
		}
		if r.Stale || !w.refuse && o.changes() && o.replicas < o.copies {
			f.tainted = true
		}
		if f.early && o.changes() && o.req.Acks != session.AcksDefault {
			o.state = unknown // as good as: the next owner may not have it
		}
		if o.changes() && w.chance(0.08) { // sent again though it was answered
			w.at(w.between(0, 12*sc), -1, o.again)
		}
	}
	o.over()
}

// again sends an operation that was done once more: it must change nothing.
func (o *op) again() {
	w := o.l.w
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	if !h.awake() || h.ending {
		return
	}
	w.stats["again"]++
	req := o.req
	h.ask(&req, func(a *replicate.Answer) {
		if a == nil || a.Resp.Status != session.OK {
			return
		}
		if o.version.Ver != a.Resp.Version.Ver && w.refuse && !o.fam.early {
			w.check.fail("V11: %v of family %d sent again made version %v, first %v", o.in.kind, o.fam.n, a.Resp.Version, o.version)
		}
		if v := string(a.Resp.Value); v != o.out.value && w.refuse && !o.fam.early {
			w.check.fail("V11: %v of family %d sent again was answered %q, first %q", o.in.kind, o.fam.n, v, o.out.value)
		}
	})
}

func (o *op) over() {
	w := o.l.w
	c := o.client
	think := w.between(2*ms, 80*ms)
	if w.chance(0.02) {
		think = w.between(200*ms, 1500*ms)
	}
	w.at(think, -1, func() { o.l.client(c) })
}
