package replicate

import (
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// The other part of a divided cluster may have done a rotation that comes again here:
// the session that it made may have been changed since, and may have ended.
func TestNode_rotationMeetsWhatItWouldMake(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before func(c *trio, fresh session.ID)
		want   session.Status
	}{
		"ended":   {func(c *trio, fresh session.ID) { c.wantOK(c.do(1, &session.Request{Kind: session.Delete, ID: fresh})) }, session.NotFound},
		"changed": {func(c *trio, fresh session.ID) { c.wantOK(c.do(1, set(fresh, "b", `"2"`))) }, session.OK},
		"ending":  {func(c *trio, fresh session.ID) { c.start(1, &session.Request{Kind: session.Delete, ID: fresh}) }, session.NotFound},
		"changing": {func(c *trio, fresh session.ID) {
			c.start(1, set(fresh, "b", `"1"`))
			c.start(1, set(fresh, "b", `"2"`))
		}, session.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, false)
			c.change(0, func(s *ring.SlotState) { s.InSync = c.holders(1) }) // no other copy can mend what goes wrong
			c.run(time.Second)
			old, fresh := c.create(0, attr("a", `"1"`)), c.mint(0)
			tc.before(c, fresh)
			again := c.start(1, &session.Request{Kind: session.Rotate, ID: old, NewID: fresh, Op: session.OpID{1}})
			c.run(time.Second)
			if r := c.done[again]; r == nil || r.Status != session.OK || r.NewID != fresh {
				t.Fatalf("the rotation: %+v", r)
			}
			for at := number(1); at <= 3; at++ {
				if r := c.do(at, &session.Request{Kind: session.Get, ID: fresh}); r.Status != tc.want {
					t.Errorf("the new session by member %d: %d %s", at, r.Status, r.Code)
				}
				if r := c.do(at, &session.Request{Kind: session.Get, ID: old}); r.Status != session.NotFound {
					t.Errorf("the old one by member %d: %d %s", at, r.Status, r.Code)
				}
			}
			if a, b := c.value(1, 0, fresh, "a"), c.value(1, 0, fresh, "b"); tc.want == session.OK && (a != `"1"` || b != `"2"`) {
				t.Errorf("it holds a = %s, b = %s", a, b)
			}
		})
	}
}
