package replicate

import (
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/session"
)

func TestNode_writeIsOnAllCopies(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]bool{"serve": false, "refuse": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, refuse)
			id := c.mint(0) // owned by 1, asked through 2
			r := c.wantOK(c.do(2, &session.Request{Kind: session.Create, ID: id, Attrs: []session.Attr{attr("a", `1`)}}))
			if r.Owner != 1 || len(r.Replicas) != 2 {
				t.Fatalf("owner %d, replicas %v", r.Owner, r.Replicas)
			}
			c.wantOK(c.do(3, &session.Request{Kind: session.Incr, ID: id, Name: "a", Value: []byte("41")}))
			for i, n := range c.nodes {
				e := n.Sessions().Get(0, id)
				if e == nil || string(e.Rec.Attr("a").Value) != "42" || e.Rec.Ver != 2 {
					t.Errorf("member %d holds %+v", i, e)
				}
			}
		})
	}
}

func TestNode_ownerDies(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]bool{"serve": false, "refuse": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, refuse)
			id := c.mint(0)
			c.wantOK(c.do(1, &session.Request{Kind: session.Create, ID: id, Attrs: []session.Attr{attr("a", `"x"`)}}))
			// A write that reaches one copy only, and then its owner dies.
			c.cut[[2]member.Number{1, 3}] = true
			h := c.start(2, &session.Request{Kind: session.Incr, ID: id, Name: "n", Value: []byte("1"), Op: session.OpID{9}})
			c.run(50 * time.Millisecond)
			if c.done[h] != nil {
				t.Fatalf("answered with one copy: %+v", c.done[h])
			}
			c.fail(1)
			c.run(0)
			r := c.wantOK(c.done[h])
			if string(r.Value) != "1" {
				t.Fatalf("the operation was done %s times", r.Value)
			}
			r = c.wantOK(c.do(3, &session.Request{Kind: session.Get, ID: id}))
			if string(r.Record.Attr("n").Value) != "1" || string(r.Record.Attr("a").Value) != `"x"` {
				t.Fatalf("record %+v", r.Record)
			}
			r = c.wantOK(c.do(3, &session.Request{Kind: session.Incr, ID: id, Name: "n", Value: []byte("1"), Op: session.OpID{9}}))
			if string(r.Value) != "1" || !r.Replay {
				t.Fatalf("a retried operation was done again: %s", r.Value)
			}
		})
	}
}

func TestNode_deletedStaysDeleted(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.mint(1)
	c.wantOK(c.do(1, &session.Request{Kind: session.Patch, ID: id, Attrs: []session.Attr{attr("a", `1`)}}))
	c.wantOK(c.do(3, &session.Request{Kind: session.Delete, ID: id}))
	for _, k := range []session.Kind{session.Get, session.Patch, session.Put, session.Touch, session.Incr} {
		r := c.do(1, &session.Request{Kind: k, ID: id, Name: "a", Value: []byte("1"), Attrs: []session.Attr{attr("a", `1`)}})
		if r.Status != session.NotFound {
			t.Errorf("kind %d: status %d", k, r.Status)
		}
	}
	c.fail(2)
	if r := c.do(1, &session.Request{Kind: session.Get, ID: id}); r.Status != session.NotFound {
		t.Errorf("after a failover: status %d", r.Status)
	}
}

func TestNode_expiresAtItsDeadline(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.mint(0)
	c.wantOK(c.do(1, &session.Request{Kind: session.Create, ID: id, TTL: 2 * time.Second}))
	c.run(1900 * time.Millisecond)
	c.wantOK(c.do(2, &session.Request{Kind: session.Touch, ID: id}))
	c.run(1900 * time.Millisecond)
	c.wantOK(c.do(3, &session.Request{Kind: session.Get, ID: id}))
	c.run(300 * time.Millisecond)
	if r := c.do(3, &session.Request{Kind: session.Get, ID: id}); r.Status != session.NotFound {
		t.Fatalf("status %d", r.Status)
	}
	for i, n := range c.nodes {
		if e := n.Sessions().Get(0, id); e == nil || !e.Rec.Dead {
			t.Errorf("member %d has no tombstone", i)
		}
	}
}

func TestNode_rotate(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id, fresh := c.mint(0), c.mint(0)
	c.wantOK(c.do(1, &session.Request{Kind: session.Create, ID: id, Attrs: []session.Attr{attr("a", `1`)}}))
	r := c.wantOK(c.do(2, &session.Request{Kind: session.Rotate, ID: id, NewID: fresh, Op: session.OpID{1}}))
	if r.NewID != fresh {
		t.Fatalf("new id %q", r.NewID)
	}
	if r := c.do(2, &session.Request{Kind: session.Get, ID: id}); r.Status != session.NotFound {
		t.Errorf("the old id: status %d", r.Status)
	}
	c.fail(1)
	r = c.wantOK(c.do(2, &session.Request{Kind: session.Get, ID: fresh}))
	if string(r.Record.Attr("a").Value) != "1" {
		t.Errorf("record %+v", r.Record)
	}
	r = c.wantOK(c.do(3, &session.Request{Kind: session.Rotate, ID: id, NewID: c.mint(0), Op: session.OpID{1}}))
	if r.NewID != fresh {
		t.Errorf("the same rotation again gives %q", r.NewID)
	}
}

func TestNode_serveGoesOnWithOneCopySlow(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.mint(0)
	c.cut[[2]member.Number{1, 3}] = true
	r := c.wantOK(c.do(1, &session.Request{Kind: session.Create, ID: id, Attrs: []session.Attr{attr("a", `1`)}}))
	if len(r.Replicas) != 1 || r.Replicas[0] != 2 {
		t.Fatalf("replicas %v", r.Replicas)
	}
	delete(c.cut, [2]member.Number{1, 3})
	c.run(2 * time.Second)
	if e := c.nodes[3].Sessions().Get(0, id); e == nil {
		t.Fatal("the slow copy was not repaired")
	}
	if c.nodes[1].Sessions().Unsettled() != 0 {
		t.Error("the record is still unsettled")
	}
}

func TestNode_refuseWaitsForAll(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	id := c.mint(0)
	c.cut[[2]member.Number{1, 3}] = true
	r := c.do(1, &session.Request{Kind: session.Create, ID: id})
	if r.Status != session.UnknownEnd || r.Code != "outcome_unknown" {
		t.Fatalf("status %d %s", r.Status, r.Code)
	}
	if r := c.do(2, &session.Request{Kind: session.Get, ID: id}); r.Status != session.NotFound {
		t.Fatalf("a pending write is visible: status %d", r.Status)
	}
}
