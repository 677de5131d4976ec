package replicate

import (
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/session"
)

func TestQueues_exceeded(t *testing.T) {
	t.Parallel()
	p := DefaultParams(0)
	full := Queues{
		Waiting: p.MaxWaiting, Queued: p.MaxQueue, Shared: p.MaxWaiting, Bulk: p.BulkWindow + 10, Commits: commitsAtOnce, Filling: p.SyncSlots, Told: maxTouches,
	}
	if bad := full.Exceeded(p, 10); bad != "" {
		t.Errorf("full queues: %s", bad)
	}
	for _, grow := range []func(*Queues){
		func(q *Queues) { q.Waiting++ }, func(q *Queues) { q.Queued++ }, func(q *Queues) { q.Shared++ },
		func(q *Queues) { q.Bulk++ }, func(q *Queues) { q.Commits++ }, func(q *Queues) { q.Filling++ }, func(q *Queues) { q.Told++ },
	} {
		q := full
		if grow(&q); q.Exceeded(p, 10) == "" {
			t.Errorf("%+v is within bounds", q)
		}
	}
}

// An operation that comes again and again while it waits for its turn takes no
// more room than Params.MaxWaiting.
func TestNode_repetitionsInTheQueueAreBounded(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.create(0)
	c.cut[[2]number{3, 1}] = true // a write stays under way
	c.start(1, set(id, "a", "1"))
	again := set(id, "a", "2")
	again.Op = session.OpID{7}
	for range c.nodes[1].p.MaxWaiting + 50 {
		c.start(1, again)
	}
	if q := c.nodes[1].Queues(); q.Shared != c.nodes[1].p.MaxWaiting {
		t.Errorf("%d repetitions wait, the bound is %d", q.Shared, c.nodes[1].p.MaxWaiting)
	}
}

// What waits for the end of a session is a read when that is confirmed: by then
// the lease may be over.
func TestNode_readAfterAnEndNeedsTheLease(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.mint(0)
	c.wantOK(c.do(1, &session.Request{Kind: session.Create, ID: id, TTL: time.Second}))
	c.cut[[2]number{3, 1}] = true
	c.run(1100 * time.Millisecond) // its tombstone is on the way
	c.lead[1] = false
	get := c.start(1, &session.Request{Kind: session.Get, ID: id})
	c.run(1700 * time.Millisecond)
	delete(c.cut, [2]number{3, 1})
	c.run(time.Second)
	if r := c.done[get]; r == nil || r.Status != session.Unavailable {
		t.Errorf("with a lease that is over: %+v", r)
	}
}

// An owner whose lease is over has a copy like any other.
func TestNode_staleReadNeedsNoLease(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.mint(0)
	c.wantOK(c.do(1, &session.Request{Kind: session.Create, ID: id, TTL: time.Hour}))
	get := &session.Request{Kind: session.Get, ID: id, Stale: true}
	if r := c.wantOK(c.do(1, get)); r.Stale {
		t.Error("an owner with a lease calls what it knows stale")
	}
	c.lead[1] = false
	c.run(3 * time.Second)
	if r := c.wantOK(c.do(1, get)); !r.Stale || len(r.Replicas) > 0 {
		t.Errorf("with a lease that is over it answers %+v", r)
	}
	if r := c.do(1, &session.Request{Kind: session.Get, ID: id}); r.Status != session.Unavailable {
		t.Errorf("without ?consistency=stale it answers %+v", r)
	}
}

// A detached member that serves in the owner's place does not know which copies
// have what it tells of.
func TestNode_detachedReadNamesNoReplicas(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(0)
	c.between(true, []number{2}, []number{1, 3})
	c.detach(2, 2)
	c.wantOK(c.do(2, set(id, "a", "1")))
	if r := c.wantOK(c.do(2, &session.Request{Kind: session.Get, ID: id})); len(r.Replicas) != 0 {
		t.Errorf("cut off, it names %v", r.Replicas)
	}
}

// A detached member that takes a session over allows for the uses that its
// owner had not told of, as a new owner does.
func TestNode_detachedTakeoverEndsNoSessionEarly(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.mint(0)
	c.wantOK(c.do(1, &session.Request{Kind: session.Create, ID: id, TTL: 8 * time.Second}))
	c.run(7800 * time.Millisecond)
	c.wantOK(c.do(1, &session.Request{Kind: session.Touch, ID: id})) // nobody else hears of it
	c.between(true, []number{2}, []number{1, 3})
	c.detach(2, 2)
	if r := c.do(2, &session.Request{Kind: session.Get, ID: id}); r.Status == session.NotFound {
		t.Error("a session that was just used has ended")
	}
}
