package replicate

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// plate is one member's disk: what a core has logged, and how much of it is
// safe.
type plate struct {
	pieces []piece
	synced uint64
	lazy   bool // syncs when told to only
	held   []func()
}

type piece struct {
	upto uint64
	b    []byte
	at   int64
}

// onDisks gives the members of a trio disks, and new cores that log to them.
func (c *trio) onDisks() map[member.Number]*plate {
	c.t.Helper()
	disks := map[member.Number]*plate{}
	for num, n := range c.nodes {
		disks[num] = &plate{}
		cfg := n.cfg
		cfg.Disk = true
		c.nodes[num] = NewNode(cfg)
	}
	c.disks = disks
	ch := &ring.Change{Base: c.table.Epoch}
	s := c.table.Settings
	s.Disk = true
	ch.Settings = &s
	c.commit(ch)
	c.run(time.Second)
	return disks
}

// sync makes all that a member has logged safe, and lets go what waited.
func (c *trio) sync(num member.Number) {
	d := c.disks[num]
	if k := len(d.pieces); k > 0 {
		d.synced = d.pieces[k-1].upto
	}
	held := d.held
	d.held = nil
	for _, f := range held {
		f()
	}
}

// reboot ends all members at once, with what was not safe yet lost, and starts
// them again from their disks. Nobody has a leader or a table yet.
func (c *trio) reboot() {
	c.t.Helper()
	c.queue = nil
	for num := range c.nodes {
		c.rebootOne(num)
	}
}

func (c *trio) rebootOne(num member.Number) {
	c.t.Helper()
	d := c.disks[num]
	cfg := c.nodes[num].cfg
	cfg.Boot[15]++
	n := NewNode(cfg)
	c.nodes[num] = n
	d.held = nil
	kept := d.pieces[:0]
	for _, p := range d.pieces {
		if p.upto > d.synced {
			continue
		}
		kept = append(kept, p)
		if err := n.Load(c.now, p.b, time.Duration(c.now.Mono-p.at)); err != nil {
			c.t.Fatal(err)
		}
	}
	d.pieces, d.synced = nil, 0
	// What was found is the beginning of the new run's log.
	for h := range ring.Slot(ring.Slots) {
		c.step(num, func(n *Node, out *Out) { n.Dump(c.now, h, out) })
	}
	c.sync(num)
}

// rename puts the members' new runs where the old ones stood, as the leader does
// with those that found their disks whole.
func (c *trio) rename(nums ...member.Number) {
	c.t.Helper()
	ch := &ring.Change{Base: c.table.Epoch}
	now := map[ring.Holder]ring.Holder{}
	for _, num := range nums {
		m := *c.table.Member(num)
		old := m.Holder()
		m.Boot = c.nodes[num].cfg.Boot
		now[old] = m.Holder()
		ch.Members = append(ch.Members, m)
	}
	for h := range ring.Slot(ring.Slots) {
		s := c.table.Slots[h]
		var set []ring.Holder
		for _, x := range s.InSync {
			if y, ok := now[x]; ok {
				x = y
			}
			set = append(set, x)
		}
		s.InSync, s.PrevRe, s.Re = set, s.Re, s.Re+1
		ch.Slots = append(ch.Slots, ring.SlotChange{Slot: h, State: s})
	}
	c.commit(ch)
	c.run(time.Second)
}

func TestDisk_allEndAtOnce(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"serve", "refuse"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, mode == "refuse")
			c.onDisks()
			kept := c.create(4, attr("a", "1"))
			c.wantOK(c.do(2, set(kept, "b", "2")))
			c.wantOK(c.do(3, incr(kept)))
			gone := c.create(5, attr("a", "1"))
			c.wantOK(c.do(1, &session.Request{Kind: session.Delete, ID: gone}))
			old := c.create(6, attr("a", "1"))
			turned := c.wantOK(c.do(2, &session.Request{Kind: session.Rotate, ID: old, NewID: c.mint(6)})).NewID
			c.run(time.Second)

			c.reboot()
			c.rename(1, 2, 3)

			r := c.wantOK(c.do(1, &session.Request{Kind: session.Get, ID: kept}))
			for name, want := range map[string]string{"a": "1", "b": "2", "n": "1"} {
				if a := r.Record.Attr(name); a == nil || string(a.Value) != want {
					t.Errorf("%s after the restart is %v, want %s", name, a, want)
				}
			}
			for _, id := range []session.ID{gone, old} {
				if r := c.do(2, &session.Request{Kind: session.Get, ID: id}); r.Status != session.NotFound {
					t.Errorf("an ended session answers %d after the restart", r.Status)
				}
			}
			c.wantOK(c.do(3, &session.Request{Kind: session.Get, ID: turned}))
			// A retried operation is remembered.
			op := incr(kept)
			op.Op = session.OpID{7}
			first := c.wantOK(c.do(1, op))
			c.reboot()
			c.rename(1, 2, 3)
			again := incr(kept)
			again.Op = session.OpID{7}
			if r := c.wantOK(c.do(2, again)); !r.Replay || !bytes.Equal(r.Value, first.Value) {
				t.Errorf("the retry answers %s (replay %v), the first time %s", r.Value, r.Replay, first.Value)
			}
		})
	}
}

func TestDisk_promisesWait(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	disks := c.onDisks()
	id := c.create(3, attr("a", "1")) // member 1 owns slot 3
	c.run(time.Second)

	for _, slow := range []member.Number{1, 2} { // the owner's disk, a copy's disk
		disks[slow].lazy = true
		h := c.start(1, set(id, "a", string('0'+rune(slow))+"!"))
		c.run(200 * time.Millisecond)
		if c.done[h] != nil {
			t.Fatalf("a write was answered before the disk of member %d had it", slow)
		}
		if slow == 1 {
			// The new state is the owner's already, and must not be shown before it is safe.
			r := c.start(1, &session.Request{Kind: session.Get, ID: id})
			c.run(50 * time.Millisecond)
			if x := c.done[r]; x != nil && string(x.Record.Attr("a").Value) == "1!" {
				t.Fatal("a read showed a state that is not on the owner's disk")
			}
		}
		disks[slow].lazy = false
		c.sync(slow)
		c.run(100 * time.Millisecond)
		if r := c.done[h]; r == nil || r.Status != session.OK {
			t.Fatalf("after the disk of member %d has it the write answers %+v", slow, r)
		}
	}
}

func TestDisk_readsDoNotWaitForOthers(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	disks := c.onDisks()
	read, written := c.create(3, attr("a", "1")), c.create(3, attr("a", "1"))
	c.run(time.Second)
	disks[1].lazy = true
	c.start(1, set(written, "a", "2"))
	c.run(50 * time.Millisecond)
	r := c.start(1, &session.Request{Kind: session.Get, ID: read})
	if c.done[r] == nil {
		t.Fatal("a read waits for the disk though its session was not written")
	}
}

func TestDisk_oneReturns(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	c.onDisks()
	a, b := c.create(3, attr("a", "1")), c.create(4, attr("a", "1"))
	c.run(time.Second)
	full := 0
	c.seen = func(e envelope) {
		if r, ok := e.msg.(*Replicate); ok && len(r.Updates) > 0 && r.Updates[0].Full != nil {
			full++
		}
	}
	c.rebootOne(1)
	c.rename(1)
	c.seen = nil
	if full > 0 {
		t.Errorf("%d whole records were sent to a member that had them on its disk", full)
	}
	for _, id := range []session.ID{a, b} {
		c.wantOK(c.do(2, &session.Request{Kind: session.Get, ID: id}))
	}
}

func TestDisk_oldDiskBringsNothingBack(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"serve", "refuse"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, mode == "refuse")
			c.onDisks()
			c.taking = true
			id := c.create(4, attr("a", "1")) // member 2's
			c.run(time.Second)
			c.fail(3)
			c.run(time.Second)
			c.wantOK(c.do(1, &session.Request{Kind: session.Delete, ID: id}))
			c.run(time.Second)
			c.rebootOne(3)
			if c.value(3, 4, id, "a") != "1" {
				t.Fatal("the old disk does not hold the session: the test shows nothing")
			}
			delete(c.dead, 3)
			ch := &ring.Change{Base: c.table.Epoch}
			m := *c.table.Member(3)
			m.Boot, m.State = c.nodes[3].cfg.Boot, ring.Joining
			ch.Members = append(ch.Members, m)
			for h := range ring.Slot(ring.Slots) {
				s := c.table.Slots[h]
				s.Learners = []ring.Holder{m.Holder()}
				ch.Slots = append(ch.Slots, ring.SlotChange{Slot: h, State: s})
			}
			c.commit(ch)
			c.run(time.Minute)
			if s := c.table.Slots[4]; !s.InSyncHas(c.holder(3)) {
				t.Fatal("the returning member was not filled")
			}
			for _, at := range []member.Number{1, 2, 3} {
				if r := c.do(at, &session.Request{Kind: session.Get, ID: id}); r.Status != session.NotFound {
					t.Errorf("a deleted session came back with an old disk: %d at %d", r.Status, at)
				}
			}
		})
	}
}

func TestDisk_timeRunsOnAndNothingEndsEarly(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	c.onDisks()
	id := c.mint(3)
	c.wantOK(c.do(1, &session.Request{Kind: session.Create, ID: id, TTL: 10 * time.Minute, Attrs: []session.Attr{attr("a", "1")}}))
	c.run(6 * time.Minute)
	c.wantOK(c.do(2, &session.Request{Kind: session.Touch, ID: id}))
	c.run(time.Minute) // its batch is out
	c.reboot()
	down := 7 * time.Minute
	c.now.Mono += int64(down)
	c.now.Wall += down.Milliseconds()
	for num := range c.nodes {
		// As a start after that time: the pieces are as old as they are.
		c.rebootOne(num)
	}
	c.rename(1, 2, 3)
	r := c.wantOK(c.do(1, &session.Request{Kind: session.Get, ID: id}))
	if r.Left > 4*time.Minute || r.Left < time.Minute {
		t.Errorf("%v are left 8 minutes after the last use of 10, with a touch batch of slack", r.Left)
	}
	if r.Age < 14*time.Minute {
		t.Errorf("age is %v after 14 minutes", r.Age)
	}
	c.run(4 * time.Minute)
	if r := c.do(1, &session.Request{Kind: session.Get, ID: id}); r.Status != session.NotFound {
		t.Errorf("a session outlived its time: %d", r.Status)
	}
}

func TestDisk_unsettledSurvives(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	c.onDisks()
	id := c.create(4, attr("a", "1")) // member 2's
	c.run(time.Second)
	c.between(true, []member.Number{3}, []member.Number{1, 2})
	c.detach(3)
	c.alive(3, 3)
	c.wantOK(c.do(3, set(id, "b", "alone")))
	c.rebootOne(3)
	if e := c.nodes[3].store.Get(4, id); e == nil || !e.Unsettled {
		t.Fatal("what a member acknowledged alone is not marked after its restart")
	}
	if len(c.nodes[3].unsettled) != 1 {
		t.Fatalf("%d sessions to be offered, want 1", len(c.nodes[3].unsettled))
	}
	c.between(false, []member.Number{3}, []member.Number{1, 2})
	c.lead[3] = true
	c.rename(3)
	c.run(5 * time.Second)
	r := c.wantOK(c.do(1, &session.Request{Kind: session.Get, ID: id}))
	if a := r.Record.Attr("b"); a == nil || string(a.Value) != "alone" {
		t.Error("an acknowledged write was lost with the restart of the member that had it")
	}
}

func TestLoad_refusesWhatWasNotWritten(t *testing.T) {
	t.Parallel()
	c := newTrio(t, true)
	disks := c.onDisks()
	id := c.create(3, attr("a", "1"))
	c.wantOK(c.do(1, set(id, "b", "2")))
	var all []byte
	for _, p := range disks[1].pieces {
		all = append(all, p.b...)
	}
	if len(all) == 0 {
		t.Fatal("nothing was logged")
	}
	for _, bad := range [][]byte{all[:len(all)-1], append(bytes.Clone(all), 99), disks[1].pieces[len(disks[1].pieces)-1].b} {
		n := NewNode(c.nodes[1].cfg)
		if err := n.Load(c.now, bad, 0); !errors.Is(err, ErrJournal) {
			t.Errorf("%d of %d bytes: error %v, want ErrJournal", len(bad), len(all), err)
		}
	}
}

func FuzzLoad(f *testing.F) {
	c := newTrio(&testing.T{}, false)
	c.onDisks()
	id := c.create(3, attr("a", "1"))
	c.do(1, set(id, "b", "2"))
	c.do(1, &session.Request{Kind: session.Delete, ID: id})
	for _, d := range c.disks {
		for _, p := range d.pieces {
			f.Add(p.b)
		}
	}
	cfg := c.nodes[1].cfg
	f.Fuzz(func(t *testing.T, b []byte) {
		n := NewNode(cfg)
		_ = n.Load(Time{Mono: 1e12, Wall: 1e12}, b, time.Second)
		// What was loaded can be logged and loaded again.
		var out Out
		for h := range ring.Slot(ring.Slots) {
			n.Dump(Time{Mono: 1e12, Wall: 1e12}, h, &out)
		}
		m := NewNode(cfg)
		if err := m.Load(Time{Mono: 1e12, Wall: 1e12}, out.Log, 0); err != nil {
			t.Fatalf("a dump cannot be loaded: %v", err)
		}
		for h := range ring.Slot(ring.Slots) {
			if n.store.Sum(h) != m.store.Sum(h) {
				t.Fatalf("slot %d differs after a dump", h)
			}
		}
	})
}
