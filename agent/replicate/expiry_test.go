package replicate

import (
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/session"
)

// News of a use that comes when the session's tombstone is on its way does not have
// it answered as if it lived on: it is gone a moment later.
func TestNode_useOfASessionThatIsEnding(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.brief(0)
	c.cut[[2]number{1, 3}] = true
	c.run(62 * time.Second)
	n := c.nodes[1]
	if !n.ending(0, id) {
		t.Fatal("the session is not ending")
	}
	n.store.Extend(n.store.Get(0, id), c.now.Mono+int64(time.Minute))
	if n.useHere(0, n.store.Get(0, id), c.now.Mono, 0) {
		t.Error("a use of a session that is ending was noted")
	}
	h := c.start(2, touch(id))
	c.run(100 * time.Millisecond)
	if r := c.done[h]; r != nil {
		t.Errorf("answered while it is ending: %d %s", r.Status, r.Code)
	}
	clear(c.cut)
	c.run(time.Second)
	if r := c.done[h]; r == nil || r.Status != session.NotFound {
		t.Errorf("after its end: %+v", r)
	}
}

// While an owner sleeps others may serve its sessions. When it wakes up it may not
// end them before those can have told it.
func TestNode_ownerThatSleptDoesNotEndWhatOthersServed(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]*session.Request{
		"used":    {Kind: session.Touch},
		"changed": {Kind: session.Patch, Attrs: []session.Attr{attr("a", "1")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, false)
			id, unused := c.brief(0), c.brief(0)
			c.run(55 * time.Second)
			c.dead[1] = true // it sleeps: it is not asked to do anything
			c.lead[2], c.lead[3] = false, false
			c.detach(2, 2, 3)
			c.detach(3, 2, 3)
			req := *work
			req.ID = id
			c.wantOK(c.do(3, &req))
			c.run(10 * time.Second)
			c.queue, c.dead[1] = nil, false
			c.lead[2], c.lead[3] = true, true
			c.alive(2, 1, 2, 3)
			c.alive(3, 1, 2, 3)
			c.lose = func(e envelope) bool { // they cannot say it at once
				switch e.msg.(type) {
				case *Touch, *Offer:
					return e.to.Num == 1
				}
				return false
			}
			c.run(time.Second)
			c.wantOK(c.do(1, &session.Request{Kind: session.Get, ID: id}))
			c.lose = nil
			c.run(4 * time.Second)
			if !c.record(1, 0, unused).Dead {
				t.Error("one that was not used lives on")
			}
			c.wantOK(c.do(1, &session.Request{Kind: session.Get, ID: id}))
			if r := c.do(1, &session.Request{Kind: session.Get, ID: unused}); r.Status != session.NotFound {
				t.Errorf("one that was not used: %d %s", r.Status, r.Code)
			}
		})
	}
}
