package proxy

import (
	"errors"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/rondel-project/rondel/agent/member"
)

// settled is how long a slot's owner has to stay the same before clients follow it.
const settled = 10 * time.Second

// standing says what may be done about a request's session.
type standing uint8

const (
	noSession standing = iota // none, and none can be made: pass on without
	untouched                 // an id that may be genuine but cannot be read now: leave its cookie alone
	wanted                    // the client needs an id
	known                     // the client brought a genuine one
)

// claim is what a client's cookie amounts to.
type claim struct {
	standing
	id     string
	tag    string
	slot   uint16
	issued time.Time
	hash   uint64 // of the id, or of what else there is, for choices that parallel requests must agree on
	bare   bool   // not from our cookie: the client needs one
	lost   string // the id that the cookie had, where its session has ended
}

// memo keeps a connection's last cookie, so that its signature is checked once
// for many requests. It is trusted for a few seconds only: keys may go.
type memo struct {
	value []byte
	claim claim
	until time.Time
	names nameMemo
}

const memoFor = 5 * time.Second

// read returns what a cookie amounts to.
func (m *memo) read(s Sessions, value []byte, now time.Time) claim {
	if len(value) > 0 && string(m.value) == string(value) && now.Before(m.until) {
		return m.claim
	}
	c := readCookie(s, value)
	if len(value) > 0 {
		m.value, m.claim, m.until = append(m.value[:0], value...), c, now.Add(memoFor)
	}
	return c
}

func readCookie(s Sessions, value []byte) claim {
	rawID, rawTag := splitCookie(value)
	return readClaim(s, string(rawID), string(rawTag))
}

func readClaim(s Sessions, id, tag string) claim {
	c := claim{standing: wanted, tag: tag}
	if id == "" {
		return c
	}
	slot, issued, err := s.Parse(id)
	switch {
	case err == nil:
		c.standing, c.id, c.slot, c.issued = known, id, slot, issued
		c.hash = xxhash.Sum64String(id)
	case !errors.Is(err, ErrForeign):
		c.standing = untouched
		c.hash = xxhash.Sum64String(id)
	}
	return c
}

// chooser walks through the instances that a request may try, best first.
type chooser struct {
	picker
	snap    *snapshot
	rt      *route
	claim   claim
	sess    Sessions
	hashKey []byte
	home    []*instance // of the member whose own address was asked for
	first   bool        // nobody was chosen yet
	wait    *instance   // the client's own, which has as much as it takes
	spare   bool        // waiting would be for a spare one
	why     reason      // the last one was
}

// propose returns the next instance to try, or nil when all were. It returns nil
// and sets full where waiting would help, with wait if it is for one alone. It
// never blocks, and counts nothing: exchange.pick does.
func (c *chooser) propose() *instance {
	c.full, c.wait, c.spare = false, nil, false
	i := c.preferred()
	c.first = false
	if c.strict() {
		return c.held(i)
	}
	if i == nil && c.full {
		return nil
	}
	if i == nil {
		c.why = whyBackup
		if i = c.other(false); i == nil && c.full {
			c.spare = true
			return nil
		}
	}
	if i == nil { // now suspects too
		c.why = whyLastResort
		if i = c.among(c.rt.active, true); i == nil {
			i = c.other(true)
		}
	}
	if i == nil { // bound ones need not be open to new clients
		if b := c.rt.bound[c.claim.tag]; b != nil && c.may(c.rt, b, true) {
			i = b
		}
	}
	c.full = false
	if i != nil {
		c.tried = append(c.tried, i)
	}
	return i
}

// other chooses of the first of the spare lists that has somebody to be tried.
func (c *chooser) other(suspects bool) *instance {
	for _, list := range c.rt.spare {
		if i := c.among(list, suspects); i != nil {
			return i
		}
	}
	return nil
}

// among chooses of a list: for a session as settle does, so that parallel
// requests agree, and by the route's balance else.
func (c *chooser) among(list []*instance, suspects bool) *instance {
	if c.claim.hash != 0 {
		return c.rendezvous(c.rt, list, c.claim.hash, suspects)
	}
	return c.once(c.rt, list, c.hashKey, suspects)
}

// preferred chooses while suspects can be left out.
func (c *chooser) preferred() *instance {
	if c.claim.standing == known {
		return c.stay()
	}
	// A good tag counts also beside an id that does not.
	if b := c.bound(); b != nil || c.wait != nil {
		return b
	}
	if c.strict() {
		return nil
	}
	if len(c.home) > 0 {
		c.why = whyHere
		if i := c.once(c.rt, c.home, c.hashKey, false); i != nil {
			return i
		}
	}
	if c.claim.hash != 0 {
		return c.settle(c.rt.active, whySession)
	}
	c.why = whyBalance(c.rt, c.hashKey)
	return c.once(c.rt, c.rt.active, c.hashKey, false)
}

// bound returns the instance that the cookie names, if it may be tried. It sets
// wait if that has as much as it takes.
func (c *chooser) bound() *instance {
	i := c.rt.bound[c.claim.tag]
	if i == nil {
		return nil
	}
	if c.may(c.rt, i, false) {
		c.why = whyBound
		if c.claim.bare {
			c.why = whyLearned
		}
		return i
	}
	if c.full {
		c.wait = i
	}
	return nil
}

// stay chooses for a client that has a session: the instance it is bound to,
// unless it has to follow the owner; else one on the owner, on a successor, anywhere.
func (c *chooser) stay() *instance {
	owner, successors, stable := c.sess.Locate(c.claim.slot)
	b := c.bound()
	if c.wait != nil {
		return nil
	}
	if b != nil && !(c.first && c.follows(b, owner, stable)) {
		return b
	}
	if i := c.settle(c.rt.byMember[owner], whyOwner); i != nil {
		return i
	}
	if b != nil {
		c.why = whyBound
		return b
	}
	for _, m := range successors {
		if i := c.settle(c.rt.byMember[m], whySuccessor); i != nil {
			return i
		}
	}
	if c.strict() {
		return nil
	}
	return c.settle(c.rt.active, whySession)
}

// follows reports whether a client has to leave b for its session's owner: the
// owner changed after the id was made, and has been the same for a while. A
// client that was elsewhere from the start stays there.
func (c *chooser) follows(b *instance, owner member.ID, stable time.Duration) bool {
	return c.rt.Sticky.Follow == FollowOwner && owner != "" && b.Member != owner &&
		stable >= settled && c.claim.issued.Before(c.now.Add(-stable))
}

// settle chooses by the session id, so that whoever asks for the same client
// gets the same answer. It leaves suspects for the very last.
func (c *chooser) settle(list []*instance, why reason) *instance {
	c.why = why
	return c.rendezvous(c.rt, list, c.claim.hash, false)
}

// foreignTag reports whether the cookie names a living instance of another
// service: two routes share the cookie, and it is not for this one to change.
func (c *chooser) foreignTag() bool {
	return c.rt.bound[c.claim.tag] == nil && c.snap.tags[c.claim.tag] != "" &&
		c.snap.tags[c.claim.tag] != c.rt.Service
}

// claim reads the cookie, and replaces an id that names nothing any more. For
// an old one somebody has to be asked; without wait it reports false then.
func (x *exchange) claim(wait bool) bool {
	cl := &x.choose.claim // in place: a variable would be made anew for each request
	*cl = claim{}
	if x.rt.Sticky.Cookie == "" || x.p.sessions == nil {
		return true
	}
	*cl = x.c.memo.read(x.p.sessions, cookieValue(x.q, x.rt.Sticky.Cookie), x.began)
	if cl.standing == wanted {
		x.claimFurther()
	}
	if !x.recall(wait) {
		return false
	}
	if cl.standing == known && x.p.exists.unsure(cl, x.snap.cfg.SessionTTL, x.began) {
		if !wait {
			return false
		}
		if x.p.exists.gone(x.p.sessions, cl, x.snap.cfg.SessionTTL, x.began) {
			cl.standing, cl.id, cl.lost = wanted, "", cl.id
		}
	}
	if cl.standing == known {
		x.id = cl.id
		x.p.sessions.Touch(cl.id)
	}
	return true
}

// maxCookies bounds how many cookies of the one name are looked at.
const maxCookies = 8

// claimFurther finds the genuine one of several cookies: anybody who may set
// cookies for a part of the site, as a neighbour under the same domain, can put
// one of that name before it.
func (x *exchange) claimFurther() {
	for n := 1; n < maxCookies; n++ {
		v := nthCookie(x.q, x.rt.Sticky.Cookie, n)
		if v == nil {
			return
		}
		if cl := x.c.memo.read(x.p.sessions, v, x.began); cl.standing != wanted {
			x.choose.claim = cl
			return
		}
	}
}

// identify makes an id for a client that needs one, in a slot of the chosen
// instance's member. As long as no instance has seen it, it is made anew when
// the choice changes.
func (x *exchange) identify() {
	if x.choose.claim.standing != wanted || x.inst.tag == "" || x.sent || x.id != "" && x.minted == string(x.inst.Member) {
		return
	}
	id, ok := x.p.sessions.Mint(x.inst.Member)
	if !ok {
		id = ""
	}
	x.id, x.minted = id, string(x.inst.Member)
}
