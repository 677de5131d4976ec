package replicate

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// reloaded returns a new run of a member that has loaded its whole log.
func (c *trio) reloaded(num member.Number) *Node {
	c.t.Helper()
	n := NewNode(c.nodes[num].cfg)
	for _, p := range c.disks[num].pieces {
		if err := n.Load(c.now, p.b, time.Duration(c.now.Mono-p.at)); err != nil {
			c.t.Fatalf("member %d: %v", num, err)
		}
	}
	return n
}

// dump logs all that a member holds anew and forgets what was logged before.
// Something may happen between.
func (c *trio) dump(num member.Number, between func()) {
	d := c.disks[num]
	k := len(d.pieces)
	c.nodes[num].BeginDump()
	between()
	for h := range ring.Slot(ring.Slots) {
		c.step(num, func(n *Node, out *Out) { n.Dump(c.now, h, out) })
	}
	d.pieces = d.pieces[k:]
}

func TestDisk_logHoldsWhatMemoryHolds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(16) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := newTrio(t, seed%2 == 0)
		c.onDisks()
		ids := []session.ID{c.create(3), c.create(3), c.create(4)}
		for range 60 {
			i := rng.IntN(len(ids))
			at := member.Number(1 + rng.IntN(3))
			switch rng.IntN(12) {
			case 0, 1, 2:
				c.start(at, set(ids[i], string('a'+rune(rng.IntN(3))), "x"))
			case 3, 4:
				c.start(at, incr(ids[i]))
			case 5:
				c.start(at, &session.Request{Kind: session.Delete, ID: ids[i]})
				id := c.mint(ring.Slot(3 + rng.IntN(2)))
				c.start(at, &session.Request{Kind: session.Create, ID: id})
				ids[i] = id
			case 6:
				// Nobody knows the new id before the rotation is done.
				if r := c.do(at, &session.Request{Kind: session.Rotate, ID: ids[0], NewID: c.mint(3)}); r.Status == session.OK {
					ids[0] = r.NewID
				}
			case 7:
				c.between(rng.IntN(2) == 0, []member.Number{1}, []member.Number{2, 3})
			case 8:
				c.dump(at, func() { c.start(at, incr(ids[i])) })
			case 9:
				c.change(ring.Slot(3+rng.IntN(2)), func(s *ring.SlotState) { s.Owner = member.Number(1 + rng.IntN(3)) })
			default:
				c.run(time.Duration(rng.IntN(400)) * time.Millisecond)
			}
		}
		clear(c.cut)
		c.run(20 * time.Second)
		for num, n := range c.nodes {
			m := c.reloaded(num)
			for h := range ring.Slot(ring.Slots) {
				if n.store.Sum(h) != m.store.Sum(h) || n.store.Count(h) != m.store.Count(h) {
					t.Fatalf("seed %d: the log of member %d holds another state of slot %d", seed, num, h)
				}
			}
			if a, b := n.store.Unsettled(), m.store.Unsettled(); a != b {
				t.Fatalf("seed %d: member %d has %d unsettled sessions, its log %d", seed, num, a, b)
			}
		}
	}
}

func TestDisk_allWriteAtTheSameTime(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	disks := c.onDisks()
	id := c.create(3, attr("a", "1"))
	c.run(time.Second)
	before := len(disks[1].pieces)
	h := c.start(1, set(id, "a", "2")) // nothing has been delivered yet
	if len(disks[1].pieces) == before {
		t.Error("the owner's disk waits for the copies")
	}
	c.run(time.Second)
	c.wantOK(c.done[h])
	if k := len(disks[1].pieces) - before; k != 1 {
		t.Errorf("one write was logged in %d pieces", k)
	}
}

func TestDisk_writeThatEndsWithItsSlotIsTakenBack(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	c.onDisks()
	id, fresh := c.create(3, attr("a", "1")), c.mint(3)
	c.run(time.Second)
	c.between(true, []member.Number{1}, []member.Number{2, 3})
	c.start(1, set(id, "a", "2"))
	c.start(1, &session.Request{Kind: session.Create, ID: fresh})
	c.run(time.Second)
	if e := c.reloaded(1).store.Get(3, id); string(e.Rec.Attr("a").Value) != "2" {
		t.Fatal("the write is not on the owner's disk: the test shows nothing")
	}
	c.change(3, func(s *ring.SlotState) { s.Owner = 2 })
	c.run(time.Second)
	m := c.reloaded(1)
	if e := m.store.Get(3, id); e == nil || string(e.Rec.Attr("a").Value) != "1" {
		t.Error("a write that ended with its slot is still in the log")
	}
	if m.store.Get(3, fresh) != nil {
		t.Error("a session that never came to be is still in the log")
	}
}

func TestDisk_dumpKeepsAWriteUnderWay(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	disks := c.onDisks()
	id := c.create(3, attr("a", "1"))
	c.run(time.Second)
	c.between(true, []member.Number{1}, []member.Number{2, 3})
	h := c.start(1, set(id, "a", "2"))
	c.run(100 * time.Millisecond)
	c.dump(1, func() {})
	disks[1].lazy = true
	c.between(false, []member.Number{1}, []member.Number{2, 3})
	c.run(time.Second)
	c.wantOK(c.done[h])
	c.rebootOne(1)
	if got := c.value(1, 3, id, "a"); got != "2" {
		t.Errorf("an acknowledged write is %q after the log was cleaned, want 2", got)
	}
}

func TestDisk_longAwayForgetsWhatDoesNotCount(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{30 * time.Minute, 3 * time.Hour} {
		c := newTrio(t, true)
		c.onDisks()
		a, b := c.create(3), c.create(4)
		c.run(time.Second)
		c.now.Mono += int64(away)
		c.now.Wall += away.Milliseconds()
		c.rebootOne(3)
		ch := &ring.Change{Base: c.table.Epoch}
		m := *c.table.Member(3)
		old := m.Holder()
		m.Boot = c.nodes[3].cfg.Boot
		ch.Members = append(ch.Members, m)
		for h := range ring.Slot(ring.Slots) {
			s := c.table.Slots[h]
			s.PrevRe, s.Re = s.Re, s.Re+1
			var set []ring.Holder
			for _, x := range s.InSync {
				if x == old && h == 3 {
					set = append(set, m.Holder()) // counts here
				} else if x != old {
					set = append(set, x)
				}
			}
			s.InSync = set
			ch.Slots = append(ch.Slots, ring.SlotChange{Slot: h, State: s})
		}
		c.commit(ch)
		if c.record(3, 3, a) == nil {
			t.Errorf("away for %v: a copy that counts was forgotten", away)
		}
		if kept := c.record(3, 4, b) != nil; kept != (away < time.Hour) {
			t.Errorf("away for %v: a copy that does not count is kept: %v", away, kept)
		}
	}
}

func TestDisk_newRunGetsWhatTheOneBeforeLacked(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	c.onDisks()
	id := c.create(3, attr("a", "1"))
	c.run(time.Second)
	c.between(true, []member.Number{3}, []member.Number{1, 2})
	c.wantOK(c.do(1, set(id, "a", "2"))) // with one copy
	c.rebootOne(3)
	clear(c.cut)
	c.nodes[1].slots[3].repair = c.now.Mono + int64(time.Hour) // no comparison helps
	c.rename(3)
	c.run(2 * time.Second)
	if got := c.value(3, 3, id, "a"); got != "2" {
		t.Errorf("the new run holds %q, want 2", got)
	}
	if e := c.nodes[1].store.Get(3, id); e.Unsettled {
		t.Error("the session is not settled although all have it")
	}
}
