package replicate

import (
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

func TestNode_writesOfADetachedMemberSurviveTheNextOwner(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(0, attr("a", `0`))
	c.dead[1] = true
	c.detach(2, 2, 3)
	c.detach(3, 2, 3)
	c.lose = func(e envelope) bool { // the copy stores what its writer does not know it has
		_, ok := e.msg.(*Ack)
		return ok
	}
	c.start(2, set(id, "w", "1"))
	c.run(0)
	c.lose = nil
	c.lead[2], c.lead[3] = true, true
	c.fail(1)
	c.run(time.Second)
	c.wantOK(c.do(3, set(id, "w2", "2")))
	for _, num := range []number{2, 3} {
		if c.value(num, 0, id, "w2") != "2" {
			t.Errorf("member %d holds %+v", num, c.record(num, 0, id))
		}
	}
	c.fail(c.table.Slots[0].Owner)
	c.run(time.Second)
	r := c.wantOK(c.do(c.table.Slots[0].Owner, &session.Request{Kind: session.Get, ID: id}))
	if r.Record.Attr("w2") == nil || r.Record.Attr("a") == nil {
		t.Errorf("an answered write is gone with its owner: %+v", r.Record)
	}
}

func TestNode_ownerThatCannotOpenServesDetached(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(0)
	c.dead[3] = true // and with it whoever led
	c.fail(1)
	c.detach(2, 2)
	if c.nodes[2].open(0) {
		t.Fatal("open without the other copy's seal")
	}
	c.wantOK(c.do(2, &session.Request{Kind: session.Get, ID: id}))
	c.wantOK(c.do(2, set(id, "a", "1")))
	if e := c.nodes[2].store.Get(0, id); e.Rec.Gen.Detach == 0 || !e.Unsettled {
		t.Errorf("what it wrote does not show that nobody else had a say: %v, unsettled %v", e.Rec.Gen, e.Unsettled)
	}
	if r := c.do(2, set(c.oldID(0), "a", "1")); r.Status != session.Unavailable {
		t.Errorf("made a session that the other copy may hold: status %d", r.Status)
	}
}

func TestNode_sameVersionWithOtherContentsIsAskedForWhole(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(0)
	gen := session.Gen{Re: 1, Detach: 1, Num: 2}
	mine := made(t, id, gen, "mine").Restamp(session.Version{Gen: gen, Ver: 2})
	c.nodes[3].store.Put(0, mine, c.now.Mono, 0, time.Hour)
	var asked bool
	c.seen = func(e envelope) {
		if a, ok := e.msg.(*Ack); ok && e.from.Num == 3 {
			asked = asked || a.NeedFull
		}
	}
	c.step(3, func(n *Node, out *Out) {
		n.Receive(c.now, c.holder(2), c.table.Epoch, &Replicate{SlotRe{0, 1}, []*session.Update{{
			ID: id, Base: session.Version{Gen: session.Gen{Re: 1}, Ver: 1}, Next: mine.Version(),
			Set: []*session.Attr{session.NewAttr("b", []byte("2"), "", false, session.Stamp{HLC: 9, Num: 2})},
		}}}, out)
	})
	c.run(0)
	if !asked {
		t.Error("a copy took another record for the one it was sent")
	}
}

func TestNode_mergeKeepsWhatOnlyOneSideHas(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(0)
	c.cut[[2]number{1, 2}] = true
	if r := c.wantOK(c.do(1, set(id, "acked", "1"))); len(r.Replicas) != 1 || r.Replicas[0] != 3 {
		t.Fatalf("replicas %v", r.Replicas)
	}
	c.dead[1] = true
	c.detach(2, 2) // gossip does not show it member 3 yet
	c.detach(3, 2, 3)
	c.wantOK(c.do(2, set(id, "b", "1")))
	c.alive(2, 2, 3)
	c.wantOK(c.do(2, set(id, "b", "2")))
	c.run(0)
	if c.value(3, 0, id, "acked") != "1" || c.value(3, 0, id, "b") != "2" {
		t.Errorf("member 3 holds %+v", c.record(3, 0, id))
	}
	if c.value(2, 0, id, "acked") != "1" {
		t.Errorf("member 2 serves it without asking who has come: %+v", c.record(2, 0, id))
	}
}

func TestNode_copyDoesNotAdoptARecordOfADetachedMemberWhole(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(0)
	mine := made(t, id, session.Gen{Re: 1}, "mine")
	other := made(t, id, session.Gen{Re: 1, Detach: 1, Num: 2}, "other")
	other = other.Restamp(session.Version{Gen: other.Gen, Ver: 9})
	other.Attrs[0].Name = "b"
	n := c.nodes[3]
	n.store.Put(0, mine, c.now.Mono, 0, time.Hour)
	c.step(3, func(n *Node, out *Out) {
		n.Receive(c.now, c.holder(2), c.table.Epoch, &Replicate{SlotRe{0, 1}, []*session.Update{{ID: id, Full: other, Left: time.Hour}}}, out)
	})
	if c.value(3, 0, id, "a") != "mine" || c.value(3, 0, id, "b") != "other" {
		t.Errorf("holds %+v", c.record(3, 0, id))
	}
}

func TestNode_endedSessionIsNotBroughtBackByAnOffer(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.mint(0)
	ch, _ := session.Apply(nil, &session.Request{Kind: session.Create, ID: id, TTL: time.Minute},
		session.Env{MaxSize: 1 << 20, Gen: session.Gen{Re: 1, Detach: 1, Num: 3}})
	c.between(true, []number{3}, []number{1, 2})
	c.detach(3, 3)
	c.nodes[3].markUnsettled(c.nodes[3].store.Put(0, ch.Next, c.now.Mono, 0, time.Minute), c.now.Mono)
	c.run(3 * time.Minute)
	c.between(false, []number{3}, []number{1, 2})
	c.lead[3] = true
	c.run(3 * time.Second)
	if r := c.do(1, &session.Request{Kind: session.Get, ID: id}); r.Status != session.NotFound {
		t.Errorf("two minutes after its end: status %d, left %v", r.Status, r.Left)
	}
	if r := c.record(1, 0, id); r != nil {
		t.Errorf("made again, only to end: %+v", r)
	}
	if n := c.nodes[3].Sessions().Unsettled(); n != 0 {
		t.Errorf("%d records are still offered", n)
	}
}

func TestNode_mergeIsNoUse(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.mint(0)
	c.between(true, []number{3}, []number{1, 2})
	c.detach(3, 3)
	rec := made(t, id, session.Gen{Re: 1, Detach: 1, Num: 3}, "1")
	c.nodes[3].markUnsettled(c.nodes[3].store.Put(0, rec, c.now.Mono, 0, 10*time.Minute), c.now.Mono)
	c.between(false, []number{3}, []number{1, 2})
	c.lead[3] = true
	c.run(3 * time.Second)
	if r := c.wantOK(c.do(1, &session.Request{Kind: session.Get, ID: id})); r.Left > 10*time.Minute {
		t.Errorf("of 10 minutes %v are left at the owner", r.Left)
	}
}

func TestNode_offersComeInBatches(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	c.between(true, []number{3}, []number{1, 2})
	c.detach(3, 3)
	const many, bound = 768, 256
	for range many {
		rec := made(t, c.mint(0), session.Gen{Re: 1, Detach: 1, Num: 3}, "1")
		c.nodes[3].markUnsettled(c.nodes[3].store.Put(0, rec, c.now.Mono, 0, time.Hour), c.now.Mono)
	}
	c.between(false, []number{3}, []number{1, 2})
	at, offers, most := int64(0), 0, 0
	c.seen = func(e envelope) {
		if _, ok := e.msg.(*Offer); ok {
			if c.now.Mono != at {
				at, offers = c.now.Mono, 0
			}
			offers++
			most = max(most, offers)
		}
	}
	c.lead[3] = true
	c.run(5 * time.Second)
	if most > bound {
		t.Errorf("%d records offered at once", most)
	}
	if got, left := c.nodes[1].store.Live(0), c.nodes[3].Sessions().Unsettled(); got != many || left != 0 {
		t.Errorf("the owner has %d of %d, %d are unsettled", got, many, left)
	}
}

func TestNode_writeWithAcksEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(0)
	c.cut[[2]number{1, 3}] = true
	req := incr(id)
	req.Acks = 2
	if r := c.do(1, req); r.Status != session.UnknownEnd {
		t.Fatalf("status %d", r.Status)
	}
	c.run(time.Second)
	began := c.now.Mono
	c.wantOK(c.do(1, incr(id)))
	if took := time.Duration(c.now.Mono - began); took > time.Second {
		t.Errorf("the next write waited %v for one that was given up", took)
	}
}

func TestNode_grantFromBeforeAPauseDoesNotWake(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	n := c.nodes[1]
	n.lease.renewAt = 0
	var out Out
	n.Tick(c.now, &out)
	var sent int64
	for _, m := range out.Leader {
		if r, ok := m.(*ring.Renew); ok {
			sent = r.Sent
		}
	}
	c.now.Mono += int64(10 * time.Minute)
	n.Control(c.now, &ring.Grant{To: n.Self(), Sent: sent, Leader: 2, Term: 1}, &Out{})
	if !n.wakeup.dozing {
		t.Error("a grant that waited in a buffer for ten minutes proves nothing")
	}
	n.Control(c.now, &ring.Grant{To: n.Self(), Sent: c.now.Mono, Leader: 2, Term: 1}, &Out{})
	if n.wakeup.dozing {
		t.Error("still asking after a grant of now")
	}
}

// Who woke and was told nothing in time is believed no more because of messages
// that had waited for it all the while: it stays alone until somebody answers.
func TestNode_messageFromBeforeAPauseIsNoAnswer(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(0, attr("a", "old"))
	waited := c.table.Epoch
	get := func() *session.Response {
		t.Helper()
		return c.wantOK(c.do(1, &session.Request{Kind: session.GetAttr, ID: id, Name: "a"}))
	}
	c.fail(1) // it sleeps
	c.run(10 * time.Second)
	c.wantOK(c.do(2, set(id, "a", "new")))
	c.dead[1], c.lead[1] = false, false
	c.between(true, []member.Number{1}, []member.Number{2, 3})
	if r := get(); string(r.Attr.Value) != "old" || !r.Stale {
		t.Fatalf("a member that nobody answers shows %q, stale %v", r.Attr.Value, r.Stale)
	}
	for _, m := range []Message{&Pong{1}, &Stale{}} {
		c.step(1, func(n *Node, out *Out) { n.Receive(c.now, c.holder(2), waited, m, out) })
		if r := get(); !r.Stale {
			t.Errorf("after a %T of before its pause it shows %q, and does not call that stale", m, r.Attr.Value)
		}
	}
	c.step(1, func(n *Node, out *Out) {
		n.Control(c.now, &ring.Grant{To: n.Self(), Sent: n.lease.sent, Leader: 2, Term: 1}, out)
	})
	if r := get(); !r.Stale {
		t.Errorf("after a grant of before its pause it shows %q, and does not call that stale", r.Attr.Value)
	}
	c.between(false, []member.Number{1}, []member.Number{2, 3})
	for range 40 { // it may be heard and asked again first
		c.step(1, func(n *Node, out *Out) { n.Receive(c.now, c.holder(3), waited, &Stale{}, out) })
		c.run(25 * time.Millisecond)
		if r := get(); !r.Stale {
			if string(r.Attr.Value) != "new" {
				t.Errorf("it shows %q as if that were the newest", r.Attr.Value)
			}
			return
		}
	}
	t.Error("still alone, though the others answer")
}

// Who was alone, and was not replaced, is so no more as soon as it is answered.
func TestNode_answerAfterAllEndsBeingAlone(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(0)
	n := c.nodes[1]
	c.lead[1] = false
	c.between(true, []member.Number{1}, []member.Number{2, 3})
	c.run(1200 * time.Millisecond)
	if !n.wakeup.alone {
		t.Fatal("nobody answers, and it does not take itself for alone")
	}
	c.between(false, []member.Number{1}, []member.Number{2, 3})
	c.step(1, func(n *Node, out *Out) { n.Receive(c.now, c.holder(2), c.table.Epoch, &Stale{}, out) })
	c.run(time.Second)
	if n.wakeup.alone {
		t.Error("it was answered, and takes itself for alone")
	}
	if r := c.wantOK(c.do(1, &session.Request{Kind: session.Get, ID: id})); r.Stale {
		t.Error("what it shows is called stale")
	}
}

func TestNode_queuedWriteWaitsForALease(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.create(0)
	first := c.start(1, set(id, "a", "1"))
	second := c.start(1, &session.Request{Kind: session.DelAttr, ID: id, Name: "b"})
	n := c.nodes[1]
	c.lead[1] = false
	n.lease.until = c.now.Mono - 1
	c.run(0)
	c.wantOK(c.done[first])
	if c.done[second] != nil {
		t.Errorf("answered without a lease: %+v", c.done[second])
	}
	c.lead[1] = true
	c.run(500 * time.Millisecond)
	if c.done[second] == nil {
		t.Error("no answer under the next lease")
	}
}

// A member that came to own a slot and lost its leader before it could open it serves
// what it and those whom it can ask hold. It does not know who else does.
func TestNode_detachedOwnerOfAClosedSlotNamesNoReplicas(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(0)
	c.between(true, []number{2}, []number{1, 3})
	c.change(0, func(s *ring.SlotState) { s.Owner = 2 })
	c.detach(2, 2)
	if c.nodes[2].open(0) {
		t.Fatal("the slot is open")
	}
	for name, req := range map[string]*session.Request{"get": {Kind: session.Get, ID: id}, "touch": touch(id)} {
		if r := c.wantOK(c.do(2, req)); len(r.Replicas) > 0 {
			t.Errorf("%s names %v", name, r.Replicas)
		}
	}
}
