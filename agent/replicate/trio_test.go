package replicate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// trio is three cores on a network that loses nothing, with tables made by
// hand: enough to see one rule at work. The simulation tries all of them
// together.
type trio struct {
	t      *testing.T
	now    Time
	nodes  map[member.Number]*Node
	queue  []envelope
	dead   map[member.Number]bool
	cut    map[[2]member.Number]bool
	table  *ring.Table
	done   map[uint64]*session.Response
	last   uint64
	adds   []*ring.AddInSync      // asked of the leader
	lead   map[member.Number]bool // false: hears no leader
	taking bool                   // the leader counts in whoever is announced
	lose   func(envelope) bool
	seen   func(envelope)
	disks  map[member.Number]*plate // of members that have one
}

type envelope struct {
	from  ring.Holder
	to    ring.Holder
	epoch ring.Epoch
	msg   Message
	bulk  bool
}

func newTrio(t *testing.T, refuse bool) *trio {
	c := &trio{t: t, now: Time{Mono: 1e9, Wall: 1_700_000_000_000}, nodes: map[member.Number]*Node{}, dead: map[member.Number]bool{},
		cut: map[[2]member.Number]bool{}, done: map[uint64]*session.Response{}, lead: map[member.Number]bool{1: true, 2: true, 3: true}}
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
	d := c.disks[i]
	if d != nil && len(out.Log) > 0 {
		d.pieces = append(d.pieces, piece{out.Logged, slices.Clone(out.Log), c.now.Mono})
		if !d.lazy {
			d.synced = out.Logged
		}
	}
	for _, s := range out.Sends {
		b := AppendMessage(nil, s.Msg, c.now.Mono)
		m, err := DecodeMessage(b, c.now.Mono)
		if err != nil {
			c.t.Fatalf("%T: %v", s.Msg, err)
		}
		e := envelope{n.Self(), s.To, n.Table().Epoch, m, s.Bulk}
		if d != nil && s.After > d.synced {
			d.held = append(d.held, func() { c.queue = append(c.queue, e) })
			continue
		}
		c.queue = append(c.queue, e)
	}
	for _, a := range out.Answers {
		if d != nil && a.After > d.synced {
			d.held = append(d.held, func() { c.done[a.Handle] = a.Resp })
			continue
		}
		c.done[a.Handle] = a.Resp
	}
	for _, m := range out.Leader {
		switch m := m.(type) {
		case *ring.Renew:
			if c.lead[i] {
				g := &ring.Grant{To: m.From, Sent: m.Sent, Leader: 1, Term: 1, Table: c.table.Since(m.Epoch)}
				c.step(i, func(n *Node, out *Out) { n.Control(c.now, g, out) })
			}
		case *ring.AddInSync:
			c.adds = append(c.adds, m)
			if c.taking {
				c.take(m)
			}
		}
	}
}

// deliver lets the next message arrive.
func (c *trio) deliver() {
	e := c.queue[0]
	c.queue = c.queue[1:]
	if c.dead[e.to.Num] || c.dead[e.from.Num] || c.cut[[2]member.Number{e.from.Num, e.to.Num}] || c.lose != nil && c.lose(e) {
		return
	}
	if c.seen != nil {
		c.seen(e)
	}
	c.step(e.to.Num, func(n *Node, out *Out) { n.Receive(c.now, e.from, e.epoch, e.msg, out) })
}

// run lets time pass, and everything that is sent arrive.
func (c *trio) run(d time.Duration) {
	for end := c.now.Mono + int64(d); ; {
		for len(c.queue) > 0 {
			c.deliver()
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

// oldID is one that was issued long before now.
func (c *trio) oldID(h ring.Slot) session.ID {
	return session.NewKeyring(c.table.Keys).Mint(h, time.UnixMilli(c.now.Wall-60_000))
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

// change commits another state of one slot, as the leader does.
func (c *trio) change(h ring.Slot, f func(s *ring.SlotState)) {
	c.t.Helper()
	c.changeAll(func(x ring.Slot) bool { return x == h }, f)
}

func (c *trio) changeAll(which func(ring.Slot) bool, f func(s *ring.SlotState)) {
	c.t.Helper()
	ch := &ring.Change{Base: c.table.Epoch}
	for h := range ring.Slot(ring.Slots) {
		if !which(h) {
			continue
		}
		old := c.table.Slots[h]
		s := old
		f(&s)
		if s.Owner != old.Owner || !slices.Equal(s.InSync, old.InSync) {
			s.PrevRe, s.Re = old.Re, old.Re+1
		}
		ch.Slots = append(ch.Slots, ring.SlotChange{Slot: h, State: s})
	}
	c.commit(ch)
}

func (c *trio) commit(ch *ring.Change) {
	c.t.Helper()
	tab, err := c.table.Apply(ch, c.table.Epoch+1)
	if err != nil {
		c.t.Fatal(err)
	}
	c.publish(tab)
}

func (c *trio) holder(num member.Number) ring.Holder { return c.table.Member(num).Holder() }

func (c *trio) holders(nums ...member.Number) (hs []ring.Holder) {
	for _, num := range nums {
		hs = append(hs, c.holder(num))
	}
	return hs
}

// learn makes num a learner of the slot, with the others in sync.
func (c *trio) learn(h ring.Slot, num member.Number) {
	c.t.Helper()
	c.change(h, func(s *ring.SlotState) {
		s.InSync = slices.DeleteFunc(slices.Clone(s.InSync), func(x ring.Holder) bool { return x.Num == num })
		s.Learners = c.holders(num)
	})
}

// detach takes the leader away from a member, which then goes by gossip.
func (c *trio) detach(num member.Number, alive ...member.Number) {
	c.t.Helper()
	c.lead[num] = false
	c.alive(num, alive...)
	for range 100 {
		if c.nodes[num].isDetached() {
			return
		}
		c.run(25 * time.Millisecond)
	}
	c.t.Fatalf("member %d is not detached", num)
}

func (c *trio) alive(num member.Number, alive ...member.Number) {
	c.step(num, func(n *Node, out *Out) { n.Alive(c.now, c.holders(alive...), out) })
}

// between cuts all links between two groups, or mends them.
func (c *trio) between(cut bool, a, b []member.Number) {
	for _, x := range a {
		for _, y := range b {
			if cut {
				c.cut[[2]member.Number{x, y}], c.cut[[2]member.Number{y, x}] = true, true
			} else {
				delete(c.cut, [2]member.Number{x, y})
				delete(c.cut, [2]member.Number{y, x})
			}
		}
	}
}

func (c *trio) create(h ring.Slot, attrs ...session.Attr) session.ID {
	c.t.Helper()
	id := c.mint(h)
	c.wantOK(c.do(c.table.Slots[h].Owner, &session.Request{Kind: session.Create, ID: id, Attrs: attrs}))
	return id
}

func (c *trio) record(num member.Number, h ring.Slot, id session.ID) *session.Record {
	if e := c.nodes[num].store.Get(h, id); e != nil {
		return e.Rec
	}
	return nil
}

// value returns an attribute at one member, "" where there is none.
func (c *trio) value(num member.Number, h ring.Slot, id session.ID, name string) string {
	r := c.record(num, h, id)
	if r == nil {
		return ""
	}
	if a := r.Attr(name); a != nil && !a.Dead {
		return string(a.Value)
	}
	return ""
}

func set(id session.ID, name, value string) *session.Request {
	return &session.Request{Kind: session.Patch, ID: id, Attrs: []session.Attr{attr(name, value)}}
}

func incr(id session.ID) *session.Request {
	return &session.Request{Kind: session.Incr, ID: id, Name: "n", Value: []byte("1")}
}

// take counts in those of the candidates that the table still allows.
func (c *trio) take(m *ring.AddInSync) {
	for _, x := range m.Slots {
		s := &c.table.Slots[x.Slot]
		if s.Re != x.Re || s.Owner != m.From.Num || !slices.Contains(s.Learners, x.Cand) {
			continue
		}
		c.change(x.Slot, func(s *ring.SlotState) {
			s.InSync = append(slices.Clone(s.InSync), x.Cand)
			slices.SortFunc(s.InSync, func(a, b ring.Holder) int { return int(a.Num) - int(b.Num) })
			s.Learners = slices.DeleteFunc(slices.Clone(s.Learners), func(l ring.Holder) bool { return l == x.Cand })
		})
	}
}
