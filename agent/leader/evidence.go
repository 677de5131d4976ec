package leader

import (
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

// evidence is what speaks for a member's death (L2). Each piece counts for
// Params.Evidence; a probe that reached the member takes all of it back.
type evidence struct {
	probing   bool
	probeSent time.Duration
	failed    time.Duration // the last probe of this agent failed
	refused   time.Duration // this agent was refused
	asking    bool
	askSent   time.Duration
	askVia    member.Number
	agreed    time.Duration // another member cannot reach it either
	reachable time.Duration // another member reaches it
	refusedOf time.Duration // another member was refused
	tried     int           // second opinions asked for so far
}

func noEvidence() evidence {
	return evidence{
		probeSent: never, failed: never, refused: never, askSent: never,
		agreed: never, reachable: never, refusedOf: never,
	}
}

// clear takes back all evidence but keeps the pace of probes.
func (e *evidence) clear() {
	probing, sent := e.probing, e.probeSent
	*e = noEvidence()
	e.probing, e.probeSent = probing, sent
}

func (c *Core) fresh(now, at time.Duration) bool { return now-at <= c.p.Evidence }

// gossipDead reports whether gossip holds a member's run for dead: failed,
// left, replaced by another run, or forgotten.
func (c *Core) gossipDead(r *run) bool {
	m := c.table.Member(r.holder.Num)
	s, ok := c.view[m.ID]
	if !ok {
		for _, id := range c.order { // another disk under the same name
			if v := c.view[id]; v.Name == m.Name {
				return true
			}
		}
		return len(c.view) > 0
	}
	return s.Status == member.Failed || s.Status == member.Left || s.Boot != m.Boot
}

// within reports whether this agent reaches a member: it hears from it, and
// gossip does not call it dead.
func (c *Core) within(now time.Duration, r *run) bool {
	m := c.table.Member(r.holder.Num)
	return m.State != ring.Down && now-r.heard <= c.p.Heard && !c.gossipDead(r)
}

// others returns the members that can give a second opinion on r, in ring
// order.
func (c *Core) others(now time.Duration, r *run) (out []*run) {
	for _, num := range c.table.Order {
		if c.isSelf(num) || num == r.holder.Num {
			continue
		}
		if o := c.run(num); o != nil && c.within(now, o) {
			out = append(out, o)
		}
	}
	return out
}

func (c *Core) isSelf(num member.Number) bool {
	m := c.table.Member(num)
	return m != nil && m.ID == c.self
}

// dead reports whether all evidence of L2 or L2a stands.
func (c *Core) dead(now time.Duration, r *run) bool {
	if c.isSelf(r.holder.Num) {
		return false
	}
	if c.gone(now, r) {
		return true
	}
	unreached := c.fresh(now, r.failed) || c.fresh(now, r.refused)
	agreed := c.fresh(now, r.agreed) || c.fresh(now, r.refusedOf) || c.alone(now, r)
	return c.gossipDead(r) && unreached && agreed
}

// gone reports whether L2a stands: nobody listens at the member's address.
func (c *Core) gone(now time.Duration, r *run) bool {
	return c.fresh(now, r.refused) && (c.fresh(now, r.refusedOf) || c.alone(now, r))
}

// alone reports whether nobody is there to give a second opinion on r. A new
// leader that has not heard from anybody yet is not alone.
func (c *Core) alone(now time.Duration, r *run) bool {
	return len(c.others(now, r)) == 0 && now-c.elected > 2*c.p.Heard
}

// suspect probes the members that something speaks against, and asks others
// about those that this agent cannot reach.
func (c *Core) suspect(now time.Duration) {
	for i := range c.table.Members {
		m := &c.table.Members[i]
		r := c.run(m.Num)
		if m.State == ring.Down || c.isSelf(m.Num) {
			continue
		}
		if !c.gossipDead(r) && !c.fresh(now, r.refused) && !c.fresh(now, r.refusedOf) {
			continue
		}
		if r.probing && now-r.probeSent > c.p.Evidence {
			r.probing = false // its answer got lost
		}
		if !r.probing && now-r.probeSent >= c.p.ProbeGap {
			r.probing, r.probeSent = true, now
			c.do(Probe{c.peer(m.Num)})
		}
		c.ask(now, r)
	}
}

// ask asks one other member about r, when this agent cannot reach it and the
// last opinion is old.
func (c *Core) ask(now time.Duration, r *run) {
	if !c.fresh(now, r.failed) && !c.fresh(now, r.refused) {
		return
	}
	if c.fresh(now, r.agreed) || c.fresh(now, r.refusedOf) || now-r.reachable < c.p.AskWait {
		return
	}
	if r.asking && now-r.askSent < c.p.AskWait {
		return
	}
	others := c.others(now, r)
	if len(others) == 0 {
		return
	}
	via := others[r.tried%len(others)].holder.Num
	r.tried++
	r.asking, r.askSent, r.askVia = true, now, via
	c.do(Ask{Via: c.peer(via), Who: c.peer(r.holder.Num)})
}

func (c *Core) refused(now time.Duration, who ring.Holder) {
	if r := c.current(who); r != nil {
		r.refused = now
		c.urgent = true
	}
}

func (c *Core) probed(now time.Duration, ev Probed) {
	r := c.current(ev.Who)
	if r == nil {
		return
	}
	r.probing = false
	switch ev.Result {
	case Reached:
		r.clear()
		r.reached = now
	case RefusedThere:
		r.refused, r.failed = now, now
	default:
		r.failed = now
	}
	c.urgent = true
}

func (c *Core) opinion(now time.Duration, ev Opinion) {
	r := c.current(ev.Who)
	if r == nil || ev.Via != r.askVia {
		return
	}
	r.asking = false
	switch ev.Result {
	case Reached:
		r.reachable, r.agreed, r.refusedOf = now, never, never
	case Unreached:
		r.agreed = now
	case RefusedThere:
		r.agreed, r.refusedOf = now, now
	case NoAnswer: // the next one is asked at once
	}
	c.urgent = true
}

// outlived reports whether one member was heard of after the other was dead, so
// that what both held is not gone with them. Of members that end at the same time
// one is noticed first; it must not leave a set to another that is dead already,
// and may come back without what it held.
func (c *Core) outlived(now time.Duration, living, dead member.Number) bool {
	l, d := c.run(living), c.run(dead)
	if l == nil || d == nil {
		return false
	}
	if c.isSelf(living) && c.view[c.self].Boot == l.holder.Boot {
		return true
	}
	return max(l.heard, l.reached) >= c.deadBy(now, d)
}

// deadBy returns the earliest time at which something spoke for a member's
// death.
func (c *Core) deadBy(now time.Duration, r *run) time.Duration {
	at := now
	for _, x := range []time.Duration{r.failed, r.refused, r.refusedOf, r.agreed} {
		if c.fresh(now, x) {
			at = min(at, x)
		}
	}
	for _, x := range []time.Duration{r.downAt, r.isolated} {
		if x != never {
			at = min(at, x)
		}
	}
	return at
}

// mayMark reports whether the rate limit lets one more member be marked down:
// a leader that sees many die at once more likely is the one in trouble. Two are
// allowed in a small cluster too, since two machines share a switch.
func (c *Core) mayMark(now time.Duration) bool {
	kept := c.downs[:0]
	for _, at := range c.downs {
		if now-at < c.p.DownGap {
			kept = append(kept, at)
		}
	}
	c.downs = kept
	return len(kept) < max(2, len(c.table.Members)/10)
}

// verdict is a member to be marked down, and why.
type verdict struct {
	num     member.Number
	why     string
	limited bool // counts against the rate limit
	hold    bool // must not rejoin at once
}

// verdicts returns the members to be marked down now.
func (c *Core) verdicts(now time.Duration) (out []verdict) {
	for i := range c.table.Members {
		m := &c.table.Members[i]
		r := c.run(m.Num)
		if m.State == ring.Down || !c.leaseGone(now, r) {
			continue
		}
		switch {
		case !c.dead(now, r):
			if r.isolated != never && now > r.isolated+c.p.leaseOver() {
				out = append(out, verdict{m.Num, "cut off from its successors", true, true})
			}
		case c.gone(now, r):
			out = append(out, verdict{m.Num, "connections refused", false, false})
		default:
			out = append(out, verdict{m.Num, "unreachable", true, false})
		}
	}
	return out
}
