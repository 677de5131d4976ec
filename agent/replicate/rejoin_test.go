package replicate

import (
	"testing"

	"github.com/rondel-project/rondel/agent/member"
)

// What a member acknowledged while it was cut off is the owner's before the next
// request for that session is: else the owner's older record would be changed,
// and the later stamp would win over all that was done meanwhile.
func TestRejoin_requestsComeAfterWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(4) // member 2's
	c.between(true, []member.Number{3}, []member.Number{1, 2})
	c.detach(3)
	c.alive(3, 3)
	for range 5 {
		c.wantOK(c.do(3, incr(id)))
	}
	c.between(false, []member.Number{3}, []member.Number{1, 2})
	c.alive(3, 1, 2, 3)
	c.lead[3] = true
	for c.nodes[3].isDetached() {
		c.step(3, func(n *Node, out *Out) { n.lease.renewAt = 0; n.Tick(c.now, out) })
	}
	if r := c.wantOK(c.do(3, incr(id))); string(r.Value) != "6" {
		t.Errorf("the first increment after the partition answers %s, want 6", r.Value)
	}
	c.run(5e9)
	for num := member.Number(1); num <= 3; num++ {
		if got := c.value(num, 4, id, "n"); got != "6" {
			t.Errorf("member %d holds %s, want 6", num, got)
		}
	}
}
