package proxy

import "github.com/rondel-project/rondel/agent/member"

// strict reports whether the client's session must not be looked for where it
// cannot be: the route is strict, and the client has one, or may have.
func (c *chooser) strict() bool {
	return c.rt.Sticky.Strict && (c.claim.standing == known || c.claim.standing == untouched)
}

// held ends propose for a strict client: it returns i, which is the best there
// is, or else one of the instance that the client is bound to and those on the
// members that hold its session: spare ones too, and those that refused a
// connection just now. Where one of them has as much as it takes, that is the
// one to wait for.
func (c *chooser) held(i *instance) *instance {
	if i == nil && c.wait == nil {
		i = c.anyHeld()
	}
	if i != nil {
		c.full, c.wait = false, nil
		c.tried = append(c.tried, i)
	}
	if c.wait == nil {
		c.full = false
	}
	return i
}

func (c *chooser) anyHeld() *instance {
	c.why = whyLastResort
	if b := c.rt.bound[c.claim.tag]; b != nil && c.mayWait(b, true) {
		return b
	}
	if c.claim.standing != known {
		return nil
	}
	owner, successors, _ := c.sess.Locate(c.claim.slot)
	c.why = whyBackup
	for _, suspects := range [...]bool{false, true} {
		if i := c.heldBy(owner, suspects); i != nil {
			return i
		}
		for _, m := range successors {
			if i := c.heldBy(m, suspects); i != nil {
				return i
			}
		}
		c.why = whyLastResort
	}
	return nil
}

func (c *chooser) heldBy(m member.ID, suspects bool) *instance {
	if m == "" {
		return nil
	}
	if i := c.rendezvous(c.rt, c.rt.byMember[m], c.claim.hash, suspects); i != nil {
		return i
	}
	for _, i := range c.rt.byMember[m] {
		if c.mayWait(i, suspects) {
			return i
		}
	}
	for _, list := range c.rt.spare {
		for _, i := range list {
			if i.Member == m && c.mayWait(i, suspects) {
				return i
			}
		}
	}
	return nil
}

// mayWait is may, and notes the first instance that is only full.
func (c *chooser) mayWait(i *instance, suspects bool) bool {
	c.full = false
	ok := c.may(c.rt, i, suspects)
	if c.full && c.wait == nil {
		c.wait = i
	}
	c.full = c.wait != nil
	return ok
}

// unplaced says why no instance can be given the request.
func (x *exchange) unplaced() string {
	if x.choose.strict() {
		return "the instance that has this session cannot be reached, nor can one beside its copies; the route is strict, so no other is asked"
	}
	return x.rt.closed()
}
