package replicate

import (
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// apart cuts member 3 off, lets it write to a session as if it were alone, and
// has the leader find it dead.
func apart(t *testing.T) (*trio, session.ID) {
	t.Helper()
	c := newTrio(t, false)
	id := c.create(0, attr("n", `1`))
	c.between(true, []number{3}, []number{1, 2})
	c.detach(3, 3)
	c.wantOK(c.do(3, set(id, "n", "2")))
	c.fail(3)
	delete(c.dead, 3)
	return c, id
}

// A request that reaches the owner before what was acknowledged apart would
// change the older state, and its later stamp would win.
func TestNode_ownerAsksWhoIsBackBeforeItServes(t *testing.T) {
	t.Parallel()
	for name, req := range map[string]func(session.ID) *session.Request{
		"a read":  func(id session.ID) *session.Request { return &session.Request{Kind: session.Get, ID: id} },
		"a write": incr,
	} {
		c, id := apart(t)
		c.nodes[3].offerAt = c.now.Mono + int64(time.Hour) // it offers too late
		c.between(false, []number{3}, []number{1, 2})
		c.lead[3] = true
		c.commit(c.back(3, 0))
		c.wantOK(c.do(1, req(id)))
		want := map[string]string{"a read": "2", "a write": "3"}[name]
		if got := c.value(1, 0, id, "n"); got != want {
			t.Errorf("%s: the owner holds %s, want %s", name, got, want)
		}
	}
}

func TestNode_ownerDoesNotWaitForWhoIsGone(t *testing.T) {
	t.Parallel()
	c, id := apart(t)
	began := c.now.Mono
	c.wantOK(c.do(1, incr(id)))
	if took := time.Duration(c.now.Mono - began); took > 500*time.Millisecond {
		t.Errorf("took %v while the other is away", took)
	}
	c.commit(c.back(3, 0)) // the leader hears it, and this owner does not
	began = c.now.Mono
	c.wantOK(c.do(1, incr(id)))
	if took := time.Duration(c.now.Mono - began); took > askingReturned+500*time.Millisecond {
		t.Errorf("took %v where the other does not answer", took)
	}
}

// What the network has held up for as long as a partition lasts is not a request
// of now.
func TestNode_requestFromBeforeAChangeIsTurnedAway(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(0, attr("n", `1`))
	late := &Forward{SlotRe{0, c.table.Slots[0].Re}, 77, 0, false, time.Second, incr(id)}
	from, epoch := c.holder(2), c.table.Epoch
	c.fail(3)
	var answer *Reply
	c.seen = func(e envelope) {
		if r, ok := e.msg.(*Reply); ok && r.Handle == 77 {
			answer = r
		}
	}
	c.step(1, func(n *Node, out *Out) { n.Receive(c.now, from, epoch, late, out) })
	c.run(100 * time.Millisecond)
	if c.value(1, 0, id, "n") != "1" || answer == nil || answer.Resp.Status != session.Retry {
		t.Errorf("it was done: %s, answered %+v", c.value(1, 0, id, "n"), answer)
	}
	c.wantOK(c.do(2, incr(id)))
}

// Who is still without a grant, and has a newer table than when it lost it, does
// not serve by what gossip shows.
func TestNode_newerTableEndsDetachment(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	c.create(0)
	c.dead[1] = true
	c.detach(3, 2, 3)
	if c.nodes[3].effective(0) == 1 {
		t.Fatal("detached, it goes by gossip")
	}
	c.change(5, func(*ring.SlotState) {})
	if n := c.nodes[3]; n.isDetached() || n.effective(0) != 1 {
		t.Errorf("detached %v with a table of now, and takes %d for the owner", n.isDetached(), n.effective(0))
	}
	c.run(2 * time.Second)
	if !c.nodes[3].isDetached() {
		t.Error("not detached, though nothing came since")
	}
}

// A grant that the network has held up is over when it comes.
func TestNode_lateGrantDoesNotAttach(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	sent := c.now.Mono
	c.detach(3, 3)
	c.run(c.nodes[3].p.Lease)
	n := c.nodes[3]
	c.step(3, func(n *Node, out *Out) {
		n.Control(c.now, &ring.Grant{To: n.Self(), Sent: sent, Leader: 1, Term: 1}, out)
	})
	if !n.isDetached() {
		t.Error("attached by a grant from before")
	}
}
