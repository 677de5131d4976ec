package replicate

import (
	"sync"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// maxNoted is how many uses may be noted until whoever notes one more has them
// taken in.
const maxNoted = 4096

// noted are uses of sessions that the core has yet to hear of. Every step, the next
// tick at the latest, takes them in before it does anything else: nothing is told
// or decided about a session by one who does not know of its uses.
type noted struct {
	mu    sync.Mutex // guards all below; taken with the engine's lock held
	over  bool       // there are no ticks any more
	uses  uses
	spare uses // empty, for uses
}

// add notes a use. It reports false where that has to be told of at once, and full
// where what is noted is to be taken in now.
func (n *noted) add(id session.ID, h ring.Slot, clock func() Time) (ok, full bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over {
		return false, false
	}
	u := &n.uses
	if len(u.ids) == 0 {
		u.since = clock().Mono
	}
	u.ids, u.slots = append(u.ids, id), append(u.slots, h)
	return true, len(u.ids) >= maxNoted
}

// take returns what is noted, if there is anything. The caller holds the engine's
// lock, and gives it back.
func (n *noted) take() (u uses, some bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.uses.ids) == 0 {
		return u, false
	}
	u = n.uses
	n.uses, n.spare = n.spare, uses{}
	return u, true
}

func (n *noted) giveBack(u uses) {
	clear(u.ids)
	clear(u.found)
	n.mu.Lock()
	n.spare = uses{ids: u.ids[:0], slots: u.slots[:0], found: u.found[:0]}
	n.mu.Unlock()
}

// begin begins a step: it takes in what is noted, and returns the time.
func (e *Engine) begin() Time {
	u, some := e.noted.take()
	now := e.clock() // not before: what is noted later is for the next step
	if !some {
		return now
	}
	if cap(u.found) < len(u.ids) {
		u.found = make([]*session.Entry, cap(u.ids))
	}
	u.found = u.found[:len(u.ids)]
	e.out.Reset()
	e.node.Uses(now, e.last+1, &u, e.touches.every, &e.out)
	e.last += uint64(len(u.ids)) // nobody waits for the answers
	e.deliver(now)
	e.noted.giveBack(u)
	return now
}

// noteNoMore takes in what is noted, and has later uses told of at once.
func (e *Engine) noteNoMore() {
	e.noted.mu.Lock()
	e.noted.over = true
	e.noted.mu.Unlock()
	e.step(func(Time, *Out) {})
}

// Touch notes that the session was used. It does not wait, and tells the owner
// only so often; what that leaves out is added to the deadline. A use of a session
// that this member owns is only written down: with very many sessions in use nearly
// every one would have its request wait for memory that nobody has looked at for
// long, and many together wait hardly longer than one.
func (e *Engine) Touch(id session.ID) {
	if !e.touches.due(id, time.Now()) {
		return
	}
	if h, ok := id.Slot(); ok && e.View().Owns(h) {
		if noted, full := e.noted.add(id, h, e.clock); noted {
			if full {
				e.step(func(Time, *Out) {})
			}
			return
		}
	}
	e.step(func(now Time, out *Out) {
		e.last++ // nobody waits for the answer
		e.node.Use(now, e.last, id, e.touches.every, out)
	})
}
