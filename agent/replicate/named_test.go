package replicate

import (
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// A named id is written at any time, outlives its owner, ends when it is not
// used, and may be made again, on all copies.
func TestNode_namedIDs(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]bool{"serve": false, "refuse": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, refuse)
			id := session.NewKeyring(c.table.Keys).Name("shop", []byte("JSESSIONID of mine"))
			h, _ := id.Slot()
			owner := c.table.Slots[h].Owner
			bind := func(value string, exists bool) *session.Request {
				a := attr("b", value)
				a.Type = "text/plain"
				return &session.Request{Kind: session.Patch, ID: id, Attrs: []session.Attr{a}, TTL: 2 * time.Second, MaxAge: session.NamedMaxAge, IfMatchAny: exists}
			}
			if r := c.do(1, bind("x", true)); r.Status != session.VersionDiffs {
				t.Fatalf("changed what is not there: %d", r.Status)
			}
			c.wantOK(c.do(1, bind("one", false)))
			c.wantOK(c.do(2, bind("two", true)))
			c.run(4 * time.Second)
			for i := range c.nodes {
				if r := c.do(i, &session.Request{Kind: session.Get, ID: id}); r.Status != session.NotFound {
					t.Fatalf("member %d: not ended: %d", i, r.Status)
				}
				if rec := c.record(i, h, id); rec == nil || !rec.Dead {
					t.Fatalf("member %d has no tombstone: %+v", i, rec)
				}
			}
			c.wantOK(c.do(3, bind("three", false)))
			for i := range c.nodes {
				if got := c.value(i, h, id, "b"); got != "three" {
					t.Errorf("member %d has %q", i, got)
				}
			}
			if r := c.wantOK(c.do(2, &session.Request{Kind: session.Get, ID: id})); r.Left > 2*time.Second || r.Left < time.Second {
				t.Errorf("made again it ends in %s", r.Left)
			}
			c.run(time.Second)
			for i := range c.nodes {
				c.do(i, &session.Request{Kind: session.Touch, ID: id})
			}
			c.fail(owner)
			at := owner%3 + 1
			r := c.wantOK(c.do(at, &session.Request{Kind: session.Get, ID: id}))
			if string(r.Record.Attr("b").Value) != "three" || r.Left > 3*time.Second {
				t.Errorf("after a failover: %+v, ends in %s", r.Record, r.Left)
			}
			for _, n := range c.nodes {
				if n.Stats.Divergence != 0 {
					t.Error("copies differ")
				}
			}
		})
	}
}

// A member that missed the new life of a named id takes it, in whatever way it
// hears of it; one that holds the old life brings nothing back.
func TestNode_namedIDWhileACopyIsAway(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	k := session.NewKeyring(c.table.Keys)
	var id session.ID
	for n := byte(0); ; n++ { // one that member 1 owns
		id = k.Name("shop", []byte{n})
		if h, _ := id.Slot(); c.table.Slots[h].Owner == 1 {
			break
		}
	}
	h, _ := id.Slot()
	write := func(value string) {
		t.Helper()
		c.wantOK(c.do(1, &session.Request{Kind: session.Patch, ID: id, Attrs: []session.Attr{attr("b", value)}, TTL: 5 * time.Second}))
	}
	write(`"one"`)
	c.change(h, func(s *ring.SlotState) { s.InSync = c.holders(1, 2) })
	c.wantOK(c.do(1, &session.Request{Kind: session.Delete, ID: id}))
	write(`"two"`)
	if got := c.value(3, h, id, "b"); got != `"one"` {
		t.Fatalf("member 3 has %q", got)
	}
	c.taking = true
	c.learn(h, 3)
	c.run(2 * time.Second)
	for i := range c.nodes {
		if got := c.value(i, h, id, "b"); got != `"two"` {
			t.Errorf("member %d has %q", i, got)
		}
	}
}
