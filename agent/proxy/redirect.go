package proxy

import (
	"bytes"
	"context"
	"net/http"
	"time"
)

// staysFor is how long a client stays at an address that it was sent to: two
// members that disagree about where its session is do not send it to and fro.
const staysFor = time.Minute

// moves reports whether the client is to be sent to another address rather than
// its request be passed on. It never blocks, and changes nothing that counts.
func (x *exchange) moves() bool {
	if !x.rt.Redirect || len(x.rt.bases) == 0 {
		return false
	}
	if _, token := cutToken(x.q.Target); token != nil || !x.rt.here(x.q.Host) {
		return true
	}
	return x.sentOn() != nil
}

// redirect answers a request of a route that redirects, or reports that it is to
// be passed on from here. A request to any name but the own is answered with the
// address of the member whose instance is chosen, and a token for it; one that
// brings a token is given the cookie and the clean address. So a client is sent
// at most twice before it is served, and not again for a while.
func (x *exchange) redirect() (answered, keep bool) {
	here := x.rt.here(x.q.Host)
	target := x.q.Target
	var token []byte
	for clean, t := cutToken(target); t != nil; clean, t = cutToken(clean) {
		if token == nil {
			token = t
		}
		x.retarget(clean)
	}
	if token != nil && here {
		return true, x.arrive(token)
	}
	// Brought to another address it is worth nothing, and no application's.
	var inst *instance
	switch {
	case here:
		inst = x.sentOn()
	case x.stays(): // nobody would follow
	default:
		inst = x.pick()
		switch {
		case inst == nil && x.choose.full: // it waits in line here
		case inst == nil:
			return true, x.turnedAway()
		case x.rt.bases[inst.Member] == "":
			x.chosen, inst = inst, nil
		default:
			inst.leave()
		}
	}
	if inst == nil {
		return false, false
	}
	x.inst, x.note.inst = inst, inst
	x.identify()
	base := x.rt.bases[inst.Member]
	location := []byte(base)
	text, ok := "", false
	if keys := x.p.tokens.Load(); keys != nil && x.id != "" {
		text, ok = keys.seal(x.rt.Name, base, x.id, inst.tag, x.began)
	}
	if ok {
		location = appendToken(location, x.q.Target, text)
	} else {
		location = append(location, x.q.Target...)
	}
	return true, x.send(location, x.appendBinding(nil, nil))
}

// send answers with another address. The method stays what it was, and so does
// the body, which the client sends again.
func (x *exchange) send(location, cookie []byte) (keep bool) {
	keep = !x.q.Close && x.body.Done() && !x.p.draining.Load()
	return x.say(answer{
		status: http.StatusTemporaryRedirect, text: "the answer is at another address", requestID: x.reqID[:],
		location: location, cookie: cookie, close: !keep,
	}) && keep
}

// retarget makes the request one for another target, which lies in the present one.
func (x *exchange) retarget(target []byte) {
	q := x.q
	q.Target, q.Path, q.Query = target, target, nil
	if i := bytes.IndexByte(target, '?'); i >= 0 {
		q.Path, q.Query = target[:i], target[i+1:]
	}
}

// sentOn returns the instance that a client at this member's own address is to
// be sent to, or nil if it is served from here. Who has no session yet, or keeps
// no cookies, stays: it came for this member.
func (x *exchange) sentOn() *instance {
	cl := &x.choose.claim
	if cl.standing != known {
		x.choose.home = x.rt.byMember[x.rt.self]
		return nil
	}
	if x.stays() {
		return nil
	}
	i := x.choose.propose()
	x.rechoose()
	if i == nil || i.Member == x.rt.self || x.rt.bases[i.Member] == "" || x.p.arrivals.lately(cl.id, x.began) {
		return nil
	}
	return i
}

// stays reports whether a request is passed on in any case: clients do not follow
// with an upgrade, OPTIONS * has no address, and a session whose id cannot be
// read now cannot be sent along.
func (x *exchange) stays() bool {
	return x.passUpgrade() || x.q.Target[0] == '*' || x.choose.claim.standing == untouched
}

// rechoose lets the chooser begin anew.
func (x *exchange) rechoose() {
	x.choose.tried, x.choose.first, x.choose.why = x.choose.tried[:0], true, whyNone
}

// arrive answers a request that brings a token: with the session's cookie if it
// is good, and in any case with the address without it. Nothing tells whoever
// sends a bad one what is wrong with it. The address is this member's own as it
// is configured, whatever the request says.
func (x *exchange) arrive(token []byte) (keep bool) {
	base := x.rt.bases[x.rt.self]
	return x.send(append([]byte(base), x.q.Target...), x.admit(base, token))
}

// admit returns the Set-Cookie line that a token is good for.
func (x *exchange) admit(base string, token []byte) []byte {
	keys := x.p.tokens.Load()
	if keys == nil || x.p.sessions == nil || x.rt.Sticky.Cookie == "" {
		return nil
	}
	var issued time.Time
	p, err := keys.open(x.rt.Name, base, token, x.began)
	if err == nil {
		err = x.p.spent.spend(&p, x.began)
	}
	if err == nil {
		_, issued, err = x.p.sessions.Parse(p.id)
	}
	if err != nil {
		x.p.log.Debug("a client brought a token that is not taken", "route", x.rt.Name, "error", err)
		return nil
	}
	x.p.arrivals.put(p.id, x.began)
	cl := &x.choose.claim
	if cl.id == p.id && cl.tag == p.tag && !cl.bare {
		return nil
	}
	if cl.id != p.id && x.outdated(p.id, issued) {
		if cl.standing == known {
			x.p.arrivals.put(cl.id, x.began)
		}
		return nil
	}
	x.p.sessions.Touch(p.id)
	return appendCookie(nil, &x.rt.Sticky, p.id, p.tag, x.origin.https)
}

// outdated reports whether a session that was sent along is not the client's any
// more: it has ended, or the client has a later one here. A log-in or log-out at
// this address does not reach the cookie at the other. It BLOCKS for up to
// existsTimeout.
func (x *exchange) outdated(id string, issued time.Time) bool {
	if cl := &x.choose.claim; cl.standing == known && cl.issued.After(issued) {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), existsTimeout)
	defer cancel()
	return x.p.sessions.Ended(ctx, id)
}

// arrivals are the sessions that came to this member's own address by a token.
type arrivals struct{ *recent[time.Time] }

func (a arrivals) lately(id string, now time.Time) bool {
	at, ok := a.get(id)
	return ok && now.Sub(at) < staysFor
}
