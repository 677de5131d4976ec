package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/rondel-project/rondel/agent/replicate"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// binding is what the proxies keep of an application's own cookie: a record under a
// named id, which each of them may write, and make again after its end. The changes
// of one come one after the other, so it must never show what was certainly
// overwritten, in an earlier life either, nor end before its time.
type binding struct {
	w     *world
	id    session.ID
	slot  ring.Slot
	last  int         // the last value that was written
	value int         // what it certainly held when the last change was answered; 0: nothing
	maybe map[int]int // further values that it may hold, whose writes may still be under way
	used  int64       // when the last use began that was confirmed
	late  bool        // serve: that was after its time, and a tombstone may have been on its way
}

func (b *binding) begin() {
	w := b.w
	keys := session.NewKeyring([]ring.Key{w.load.key})
	for {
		b.id = keys.Name("route", w.bytes(8))
		if h, ok := b.id.Slot(); ok && slices.Contains(w.load.slots, h) {
			b.slot = h
			break
		}
	}
	b.value, b.maybe = 0, map[int]int{}
	b.next()
}

func (b *binding) next() {
	w := b.w
	if w.now > w.load.end {
		return
	}
	if len(b.maybe) > 5 {
		b.begin()
		return
	}
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	if !h.up {
		w.at(100*ms, -1, b.next)
		return
	}
	boot, began, copies := h.boot, w.now, len(w.raft.table.Slots[b.slot].InSync)-1
	req := &session.Request{ID: b.id, Acks: session.AcksDefault}
	wrote := -1 // the value after the change; -1: it is none
	switch p := w.rng.IntN(100); {
	case p < 35:
		b.last++
		wrote = b.last
		req.Kind, req.TTL, req.MaxAge = session.Patch, userTTL, session.NamedMaxAge
		req.Attrs = []session.Attr{*session.NewAttr("b", []byte(strconv.Itoa(wrote)), "", false, session.Stamp{})}
	case p < 40:
		wrote, req.Kind = 0, session.Delete
	case p < 70:
		req.Kind = session.Touch
	default:
		req.Kind, req.Touch = session.Get, w.chance(0.5)
	}
	if wrote >= 0 {
		copy(req.Op[:], w.bytes(16))
	}
	answered := false
	done := func(a *replicate.Answer) {
		if answered {
			return
		}
		answered = true
		b.answer(req, wrote, began, max(copies, len(w.raft.table.Slots[b.slot].InSync)-1), a)
		wait := w.between(50*ms, 800*ms)
		switch {
		case w.chance(0.04): // nobody uses it until after its end
			wait = int64(userTTL) + w.between(2*sc, 4*sc)
		case w.chance(0.05):
			wait = int64(userTTL) - w.between(500*ms, 4500*ms)
		}
		w.at(wait, -1, b.next)
	}
	w.at(w.between(50*us, 500*us), h.idx, func() {
		if w.now-began < connectionLife && h.up && h.boot == boot {
			h.ask(req, done)
		}
	})
	w.at(2600*ms, -1, func() { done(nil) })
}

func (b *binding) answer(req *session.Request, wrote int, began int64, copies int, a *replicate.Answer) {
	w := b.w
	if a == nil || a.Resp.Status == session.UnknownEnd {
		w.logf("binding %s: kind %d of %d: not known", b.id[12:16], req.Kind, wrote)
		if wrote >= 0 {
			b.maybe[wrote]++
		}
		return
	}
	r := a.Resp
	w.logf("binding %s: kind %d of %d: %d %s by %d version %v left %v", b.id[12:16], req.Kind, wrote, r.Status, r.Code, r.Owner, r.Version, r.Left)
	switch r.Status {
	case session.OK:
		switch {
		case wrote >= 0 && !w.refuse && len(r.Replicas) < copies:
			b.maybe[wrote]++ // by fewer copies than there are it is no promise
		case wrote >= 0:
			b.value = wrote
		case req.Kind == session.Get:
			b.shows(r)
		}
		if wrote > 0 || req.Kind == session.Touch || req.Touch {
			b.late = !w.refuse && b.value != 0 && began > b.used+int64(userTTL)
			b.used = began
		}
		w.stats["bound"]++
	case session.NotFound:
		_, ended := b.maybe[0]
		early := b.used + int64(float64(userTTL)*0.985) - w.now
		if b.value != 0 && !ended && early > 0 && !b.late && b.certain() {
			w.check.fail("V7: a binding ended %v early", time.Duration(early))
		}
		if b.value = 0; wrote == 0 {
			b.maybe[0]++ // another copy of the request may find what this one did not
		}
		w.stats["unbound"]++
	}
}

// certain reports whether answers are promises in this run.
func (b *binding) certain() bool { return b.w.refuse || !b.w.partitions }

// shows takes what a read shows.
func (b *binding) shows(r *session.Response) {
	got := 0
	if a := r.Record.Attr("b"); a != nil {
		got, _ = strconv.Atoi(string(a.Value))
	}
	if _, ok := b.maybe[got]; got != b.value && !ok && b.certain() {
		b.w.check.fail("V10: a binding shows %d, it holds %d or one of %v", got, b.value, b.maybe)
	}
	b.value = got
}
