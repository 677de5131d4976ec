package sim

import (
	"time"

	"github.com/rondel-project/rondel/agent/replicate"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// user is a person whose session lasts while it is used, and must never end
// early (V7).
type user struct {
	w     *world
	id    session.ID
	slot  ring.Slot
	lives int
	used  int64 // when the last use began that was confirmed
	late  bool  // serve: that was after the session's time, and a tombstone may have been on its way
	made  bool
}

const userTTL = 8 * time.Second

func (u *user) begin() {
	w := u.w
	u.slot = w.load.slots[w.rng.IntN(len(w.load.slots))]
	u.id, u.made = w.load.mint(u.slot), false
	u.use()
}

func (u *user) use() {
	w := u.w
	if w.now > w.load.end {
		return
	}
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	boot, id, began := h.boot, u.id, w.now
	if !h.up {
		w.at(100*ms, -1, u.use)
		return
	}
	req := &session.Request{Kind: session.Touch, ID: u.id, Acks: session.AcksDefault}
	if !u.made {
		req.Kind, req.TTL = session.Create, userTTL
	}
	answered := false
	next := func(a *replicate.Answer) {
		if answered || u.id != id {
			return
		}
		answered = true
		if a != nil {
			w.logf("user %s: %d %s by %d left %v", u.id[12:16], a.Resp.Status, a.Resp.Code, a.Resp.Owner, a.Resp.Left)
		}
		wait := w.between(100*ms, 2500*ms)
		switch {
		case a == nil:
		case a.Resp.Status == session.OK, a.Resp.Code == "session_exists":
			if a.Resp.Status == session.OK {
				u.late = !w.refuse && u.made && began > u.used+int64(userTTL)
				u.used = began
			}
			if !u.made {
				u.made, u.late, u.lives, u.used = true, false, u.lives+1, began
			}
			switch {
			case w.chance(0.08): // away until after its end
				wait = int64(userTTL) + w.between(3*sc, 6*sc)
			case w.chance(0.2): // away for nearly as long as it lasts
				wait = int64(userTTL) - w.between(500*ms, 4500*ms)
			}
		case a.Resp.Status == session.NotFound && u.made:
			if early := u.used + int64(float64(userTTL)*0.985) - w.now; early > 0 && !u.late && (w.refuse || !w.partitions) {
				w.check.fail("V7: a session ended %v early", time.Duration(early))
			}
			w.stats["expired"]++
			w.at(wait, -1, u.begin)
			return
		}
		w.at(wait, -1, u.use)
	}
	w.at(w.between(50*us, 500*us), h.idx, func() {
		if w.now-began < connectionLife && h.up && h.boot == boot {
			h.ask(req, next)
		}
	})
	w.at(2600*ms, -1, func() { next(nil) })
}
