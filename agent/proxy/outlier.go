package proxy

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Outlier says when real traffic alone shows that an instance is of no use. It
// is ejected then: nobody is sent there for a while, and clients that are bound
// to it go elsewhere as if a check had failed.
type Outlier struct {
	Failures int   // in a row, with no good answer between them; 0: never ejected
	Statuses []int // of answers that count as failures, beside broken connections and silence
	For      time.Duration
	AtMost   time.Duration // each time is twice as long as the one before, up to this
	Percent  int           // of the instances that may be ejected at a time; one always may, but never the last
}

// fault notes that the instance failed the request. What the client did is no
// fault of the instance and never gets here.
func (x *exchange) fault(reason string) { x.p.fault(x.rt, x.inst, reason, time.Now()) }

// well notes that the instance answered the request to the end.
func (x *exchange) well() {
	switch {
	case x.unwanted(): // elsewhere has called unwell
	case x.outlying():
		x.unwell()
	case x.inst.row.Load() != 0: // as a rule nothing is written that others read
		x.inst.row.Store(0)
	}
}

// unwell notes that the instance gave an answer that counts as a failure.
func (x *exchange) unwell() {
	if x.outlying() {
		x.fault("status " + strconv.Itoa(x.resp.Status))
		return
	}
	x.inst.failures.Add(1) // the route looks elsewhere, and that is all
}

func (x *exchange) outlying() bool {
	return x.resp.Status >= 400 && slices.Contains(x.rt.Outlier.Statuses, x.resp.Status)
}

// unreachable notes a connection that could not be made.
func (p *Proxy) unreachable(rt *route, i *instance, err error) {
	now := time.Now()
	i.avoid(now.Add(suspicion))
	p.log.Debug("instance cannot be reached", "instance", i.ID, "addr", i.Addr, "error", err)
	p.fault(rt, i, "connect: "+err.Error(), now)
}

func (p *Proxy) fault(rt *route, i *instance, reason string, now time.Time) {
	i.failures.Add(1)
	o := &rt.Outlier
	row := i.row.Add(1)
	if o.Failures == 0 || row < int32(o.Failures) || i.ejected(now) {
		return
	}
	if d, ok := rt.group.eject(i, o, now); ok {
		p.log.Warn("instance ejected", "instance", i.ID, "addr", i.Addr, "service", i.Service,
			"failures", row, "for", d, "reason", reason)
	}
}

// eject takes the instance out for a while, if enough others are left.
func (g *group) eject(i *instance, o *Outlier, now time.Time) (time.Duration, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	healthy, out, left := 0, 0, 0
	for _, m := range g.members {
		if m.usable() {
			healthy++
		}
		switch {
		case m.backend == i.backend:
		case m.ejected(now):
			out++
		case m.open():
			left++
		}
	}
	if i.ejected(now) || left == 0 || out+1 > max(1, healthy*o.Percent/100) {
		return 0, false
	}
	if now.UnixNano()-i.back.Load() > int64(o.AtMost) {
		i.ejections = 0 // long ago
	}
	d := min(o.For<<min(i.ejections, 16), o.AtMost)
	i.ejections++
	i.row.Store(0)
	i.out.Store(true)
	i.back.Store(now.Add(d).UnixNano())
	i.avoid(now.Add(d))
	g.slowly(now.Add(d + i.SlowStart))
	return d, true
}

// slowly notes until when one of the instances starts slowly.
func (g *group) slowly(until time.Time) {
	for {
		old := g.slowUntil.Load()
		if old >= until.UnixNano() || g.slowUntil.CompareAndSwap(old, until.UnixNano()) {
			return
		}
	}
}

func (b *backend) ejected(now time.Time) bool { return b.back.Load() > now.UnixNano() }

// pardon ends an ejection: a check has found the instance well again.
func (b *backend) pardon() {
	b.row.Store(0)
	b.suspect.Store(0)
	b.back.Store(0)
}

// returned tells, once, of an instance whose ejection is over.
func (p *Proxy) returned(b *backend, now time.Time) {
	if b.out.Load() && !b.ejected(now) && b.out.CompareAndSwap(true, false) {
		p.log.Info("ejected instance gets traffic again", "instance", b.key.id, "addr", b.key.addr, "service", b.key.service)
	}
}

// turnedAway answers a request for which no instance was found.
func (x *exchange) turnedAway() (keep bool) {
	switch {
	case x.parked == leftLine:
		x.note.end = endClient
		x.p.log.Debug("client closed the request", "addr", x.c.peer.addr, "status", 499)
		return false
	case x.parked == tooMany:
		x.note.end = endQueueFull
		return x.answer(http.StatusServiceUnavailable, "every instance has as many requests as it takes, and no more can wait")
	case x.parked == tooLong:
		x.note.end = endQueueTimeout
		return x.answer(http.StatusServiceUnavailable, "every instance had as many requests as it takes, and none became free in time")
	case x.note.end == endDone:
		x.note.end = endNoInstance
	}
	if x.tries > 0 {
		return x.answer(http.StatusBadGateway, "no instance answered")
	}
	return x.answer(http.StatusServiceUnavailable, x.unplaced())
}
