package replicate

import (
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/session"
)

// A use that is told counts wherever it is told; for a session that the member
// serves itself it costs no call.
func TestNode_useIsATouchThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]bool{"serve": false, "refuse": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, refuse)
			const ttl, every = 3 * time.Minute, 10 * time.Second
			id := c.mint(0)
			c.wantOK(c.do(1, &session.Request{Kind: session.Create, ID: id, TTL: ttl}))
			for at := number(1); at <= 3; at++ {
				c.run(ttl / 2)
				calls := 0
				c.step(at, func(n *Node, out *Out) {
					n.Use(c.now, 0, id, every, out)
					calls = len(n.calls)
				})
				if owner := at == 1; owner != (calls == 0) {
					t.Errorf("member %d has %d calls", at, calls)
				}
				c.run(time.Second)
				r := c.wantOK(c.do(1, &session.Request{Kind: session.Get, ID: id}))
				if want := ttl + every - time.Second; r.Left > want || r.Left < want-time.Second {
					t.Errorf("after a use told by member %d %v are left", at, r.Left)
				}
			}
			c.run(time.Minute) // the copies hear of uses together
			for at := number(2); at <= 3; at++ {
				off := time.Duration(c.nodes[1].store.Get(0, id).Deadline - c.nodes[at].store.Get(0, id).Deadline)
				if off.Abs() > 250*time.Millisecond {
					t.Errorf("the deadline of member %d is %v off", at, off)
				}
			}
		})
	}
}

// One that has ended is not brought back by it, nor is one that its owner may
// not speak for.
func TestNode_useOfWhatIsNotServed(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.mint(0)
	c.wantOK(c.do(1, &session.Request{Kind: session.Create, ID: id, TTL: 20 * time.Second}))
	c.run(21 * time.Second)
	n := c.nodes[1]
	c.step(1, func(n *Node, out *Out) { n.Use(c.now, 0, id, 0, out) })
	c.run(time.Second)
	if r := c.do(1, &session.Request{Kind: session.Get, ID: id}); r.Status != session.NotFound {
		t.Errorf("an ended session that was used: %d %s", r.Status, r.Code)
	}
	id = c.create(0)
	use := func() bool { return n.useHere(0, n.store.Get(0, id), n.now.Mono, 0) }
	if !use() {
		t.Fatal("the owner does not note a use")
	}
	n.now.Mono += int64(time.Hour) // its lease is long over
	if !n.leaseOver() || use() {
		t.Error("a use was noted without a lease")
	}
}
