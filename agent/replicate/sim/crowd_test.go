package sim

import (
	"strconv"

	"github.com/rondel-project/rondel/agent/replicate"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// crowd is many clients that count in one session at the same time, so that
// queues fill: each adds one, and some ask two agents. What they were told
// bounds what is there in the end (V11 and V1 of a counter).
type crowd struct {
	w     *world
	slot  ring.Slot
	id    session.ID
	acked int
	maybe int
	size  int
}

func (l *load) crowd() {
	w := l.w
	if w.now > l.end-sc {
		return
	}
	slot := l.slots[w.rng.IntN(len(l.slots))]
	c := &crowd{w: w, slot: slot, id: l.mint(slot), size: 20 + w.rng.IntN(60)}
	l.crowds = append(l.crowds, c)
	for range c.size {
		w.at(w.between(0, 400*ms), -1, c.add)
	}
	w.stats["crowds"]++
	w.at(w.between(2*sc, 8*sc), -1, l.crowd)
}

func (c *crowd) add() {
	w := c.w
	req := session.Request{Kind: session.Incr, ID: c.id, Name: "n", Value: []byte("1"), Acks: session.AcksDefault}
	copy(req.Op[:], w.bytes(16))
	asked := 1
	if w.chance(0.3) {
		asked = 1 + w.rng.IntN(3)
	}
	left, certain, ended := asked, true, false
	end := func(r *session.Response) {
		if r != nil {
			w.logf("crowd %s op %x: %d %s", c.id[12:16], req.Op[:4], r.Status, r.Code)
		}
		switch {
		case ended:
			return
		case r != nil && r.Status == session.OK:
			ended = true
			c.acked++
			return
		case r == nil || r.Status == session.UnknownEnd:
			certain = false
		}
		if left--; left == 0 {
			ended = true
			if !certain || asked > 1 {
				c.maybe++ // of two copies one may have been refused, and the other be under way
			}
		}
	}
	for range asked {
		h := w.hosts[w.rng.IntN(len(w.hosts))]
		boot, sent, told := h.boot, w.now, false
		once := func(r *session.Response) {
			if !told {
				told = true
				end(r)
			}
		}
		w.at(w.between(50*us, 2*ms), h.idx, func() {
			if !h.up || h.boot != boot || w.now-sent > connectionLife {
				return
			}
			q := req
			h.ask(&q, func(a *replicate.Answer) {
				if a == nil {
					once(nil)
					return
				}
				once(a.Resp)
			})
		})
		w.at(4*sc, -1, func() { once(nil) })
	}
}

// final checks the sum. Serve mode promises it only while no answer came from
// one side of a partition, or before all copies had it: not checked there.
func (c *crowd) final() {
	w := c.w
	if !w.refuse {
		return
	}
	o := w.raft.table.Slots[c.slot].Owner
	e := w.hosts[w.byID[w.raft.table.Member(o).ID]].core.Sessions().Get(c.slot, c.id)
	n := 0
	if e != nil {
		n, _ = strconv.Atoi(got(e.Rec).n)
	}
	if n < c.acked || n > c.acked+c.maybe {
		w.check.fail("V11: %d increments were acknowledged and %d may have been, and the sum is %d", c.acked, c.maybe, n)
	}
}
