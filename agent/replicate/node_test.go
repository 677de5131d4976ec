package replicate

import (
	"fmt"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// trio is three cores on a network that loses nothing, with tables made by
// hand: enough to see one rule at work. The simulation tries all of them
// together.
type trio struct {
	t     *testing.T
	now   Time
	nodes map[member.Number]*Node
	queue []envelope
	dead  map[member.Number]bool
	cut   map[[2]member.Number]bool
	table *ring.Table
	done  map[uint64]*session.Response
	last  uint64
}

type envelope struct {
	from  ring.Holder
	to    ring.Holder
	epoch ring.Epoch
	msg   Message
}

func newTrio(t *testing.T, refuse bool) *trio {
	c := &trio{t: t, now: Time{Mono: 1e9, Wall: 1_700_000_000_000}, nodes: map[member.Number]*Node{}, dead: map[member.Number]bool{},
		cut: map[[2]member.Number]bool{}, done: map[uint64]*session.Response{}}
	ch := &ring.Change{
		NextNum: 4, Keys: []ring.Key{{ID: 1, Secret: [32]byte{1}}},
		Settings: &ring.Settings{Replicas: 2, Refuse: refuse, MinCopies: 2},
	}
	var all []ring.Holder
	for i := member.Number(1); i <= 3; i++ {
		id := member.IDFromBytes([16]byte{byte(i)})
		boot := member.Boot{byte(i)}
		c.nodes[i] = NewNode(Config{ID: id, Boot: boot, Params: DefaultParams(30 * time.Minute), Seed: uint64(i),
			Defaults: Defaults{TTL: 30 * time.Minute, MaxAge: 24 * time.Hour, MaxSize: 1 << 20}})
		ch.Members = append(ch.Members, ring.Member{Num: i, ID: id, Name: fmt.Sprint("m", i), Boot: boot, State: ring.Up})
		ch.Order = append(ch.Order, i)
		all = append(all, ring.Holder{Num: i, Boot: boot})
	}
	for h := range ring.Slot(ring.Slots) {
		owner := member.Number(h%3) + 1
		ch.Slots = append(ch.Slots, ring.SlotChange{Slot: h, State: ring.SlotState{Home: owner, Owner: owner, Re: 1, InSync: all}})
	}
	tab, err := (&ring.Table{}).Apply(ch, 1)
	if err != nil {
		t.Fatal(err)
	}
	c.publish(tab)
	c.run(time.Second)
	return c
}

func (c *trio) publish(tab *ring.Table) {
	c.table = tab
	for i := member.Number(1); i <= 3; i++ {
		if !c.dead[i] {
			c.step(i, func(n *Node, out *Out) { n.Adopt(c.now, tab, out) })
		}
	}
}

func (c *trio) step(i member.Number, f func(n *Node, out *Out)) {
	var out Out
	n := c.nodes[i]
	f(n, &out)
	for _, s := range out.Sends {
		b := AppendMessage(nil, s.Msg, c.now.Mono)
		m, err := DecodeMessage(b, c.now.Mono)
		if err != nil {
			c.t.Fatalf("%T: %v", s.Msg, err)
		}
		c.queue = append(c.queue, envelope{n.Self(), s.To, n.Table().Epoch, m})
	}
	for _, a := range out.Answers {
		c.done[a.Handle] = a.Resp
	}
	for _, m := range out.Leader {
		if r, ok := m.(*ring.Renew); ok {
			n.Control(c.now, &ring.Grant{To: r.From, Sent: r.Sent, Leader: 1, Term: 1, Table: c.table.Since(r.Epoch)}, &Out{})
		}
	}
}

// run lets time pass, and everything that is sent arrive.
func (c *trio) run(d time.Duration) {
	for end := c.now.Mono + int64(d); ; {
		for len(c.queue) > 0 {
			e := c.queue[0]
			c.queue = c.queue[1:]
			if c.dead[e.to.Num] || c.dead[e.from.Num] || c.cut[[2]member.Number{e.from.Num, e.to.Num}] {
				continue
			}
			c.step(e.to.Num, func(n *Node, out *Out) { n.Receive(c.now, e.from, e.epoch, e.msg, out) })
		}
		if c.now.Mono >= end {
			return
		}
		c.now.Mono += int64(25 * time.Millisecond)
		c.now.Wall += 25
		for i := member.Number(1); i <= 3; i++ {
			if !c.dead[i] {
				c.step(i, func(n *Node, out *Out) { n.Tick(c.now, out) })
			}
		}
	}
}

func (c *trio) start(at member.Number, req *session.Request) uint64 {
	c.last++
	h := c.last
	if req.Acks == 0 {
		req.Acks = session.AcksDefault
	}
	c.step(at, func(n *Node, out *Out) { n.Request(c.now, h, req, out) })
	return h
}

func (c *trio) do(at member.Number, req *session.Request) *session.Response {
	c.t.Helper()
	h := c.start(at, req)
	for range 200 {
		c.run(0)
		if r := c.done[h]; r != nil {
			return r
		}
		c.run(25 * time.Millisecond)
	}
	c.t.Fatalf("request %d of kind %d has no answer", h, req.Kind)
	return nil
}

func (c *trio) mint(h ring.Slot) session.ID {
	return session.NewKeyring(c.table.Keys).Mint(h, time.UnixMilli(c.now.Wall))
}

// fail takes m out of the table, as the leader does with a dead member.
func (c *trio) fail(m member.Number) {
	c.dead[m] = true
	ch := &ring.Change{Base: c.table.Epoch}
	gone := *c.table.Member(m)
	gone.State = ring.Down
	ch.Members = append(ch.Members, gone)
	for h := range ring.Slot(ring.Slots) {
		s := c.table.Slots[h]
		var in []ring.Holder
		for _, x := range s.InSync {
			if x.Num != m {
				in = append(in, x)
			}
		}
		s.PrevRe, s.Re, s.InSync = s.Re, s.Re+1, in
		if s.Owner == m {
			s.Owner = in[0].Num
		}
		ch.Slots = append(ch.Slots, ring.SlotChange{Slot: h, State: s})
	}
	tab, err := c.table.Apply(ch, c.table.Epoch+1)
	if err != nil {
		c.t.Fatal(err)
	}
	c.publish(tab)
}

func attr(name, value string) session.Attr {
	return session.Attr{Name: name, Value: []byte(value)}
}

func (c *trio) wantOK(r *session.Response) *session.Response {
	c.t.Helper()
	if r.Status != session.OK {
		c.t.Fatalf("status %d %s: %s", r.Status, r.Code, r.Error)
	}
	return r
}

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
