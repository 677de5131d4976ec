package replicate

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/internal/codec"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// driven is an engine around the core of member 1 of a trio, which takes its steps only
// where a test has it do so.
type driven struct {
	*trio
	e *Engine
}

func (d *driven) Send(to *ring.Member, bulk bool, payload []byte) {
	r := codec.NewReader(payload)
	epoch := ring.Epoch(r.Uvarint())
	r.Uvarint()
	m, err := DecodeMessage(r.Fixed(r.Len()), d.now.Mono)
	if err != nil {
		d.t.Errorf("payload: %v", err)
	}
	d.queue = append(d.queue, envelope{d.nodes[1].Self(), to.Holder(), epoch, m, bulk})
}
func (d *driven) Flush()                {}
func (d *driven) ToLeader(ring.Message) {}

func newDriven(t *testing.T, refuse bool) *driven {
	d := &driven{trio: newTrio(t, refuse)}
	n := d.nodes[1]
	d.e = NewEngine(Options{Config: n.cfg, Link: d, Clock: func() Time { return d.now }}, hclog.NewNullLogger())
	d.e.node = n
	d.e.view.Store(newView(nil, n, time.Now()))
	return d
}

// noted is how many uses nobody has taken in.
func (d *driven) noted() int {
	d.e.noted.mu.Lock()
	defer d.e.noted.mu.Unlock()
	return len(d.e.noted.uses.ids)
}

func (d *driven) entry(at number, id session.ID) *session.Entry {
	d.t.Helper()
	h, _ := id.Slot()
	e := d.nodes[at].store.Get(h, id)
	if e == nil {
		d.t.Fatalf("member %d has no such session", at)
	}
	return e
}

// left is how long the session lives on by what a member knows.
func (d *driven) left(at number, id session.ID) time.Duration {
	d.t.Helper()
	return time.Duration(d.entry(at, id).Deadline - d.now.Mono)
}

const ttl = 30 * time.Minute // of the trio's sessions

// However late the next step is, and whatever has become of this member meanwhile: a
// session that was used before its end goes on, from when that is taken in.
func TestEngine_useCountsFromWhenItWasNoted(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]bool{"serve": false, "refuse": true} {
		for _, late := range []time.Duration{25 * time.Millisecond, 400 * time.Millisecond, 5 * time.Second} {
			t.Run(name+" "+late.String(), func(t *testing.T) {
				t.Parallel()
				d := newDriven(t, refuse)
				const ttl = 20 * time.Second
				id, unused := d.mint(0), d.mint(0)
				for _, id := range []session.ID{id, unused} {
					d.wantOK(d.do(1, &session.Request{Kind: session.Create, ID: id, TTL: ttl}))
				}
				d.run(ttl - 200*time.Millisecond)
				d.now.Mono += int64(d.left(1, id)) - 1
				d.e.Touch(id)
				if d.noted() != 1 {
					t.Fatal("the use was not noted")
				}
				d.now.Mono += int64(late)
				if list := d.e.Owned(Filter{}); len(list) != 1 || list[0].ID != id {
					t.Errorf("a list has %v, want %s alone", list, id)
				}
				d.e.tick()
				if d.noted() != 0 {
					t.Error("a tick leaves a use behind")
				}
				if got := d.left(1, id); got < ttl || got > ttl+d.e.touches.every {
					t.Errorf("%v are left", got)
				}
				d.run(10 * time.Second)
				d.wantOK(d.do(1, &session.Request{Kind: session.Get, ID: id}))
				if r := d.do(1, &session.Request{Kind: session.Get, ID: unused}); r.Status != session.NotFound {
					t.Errorf("one that was not used: %d %s", r.Status, r.Code)
				}
			})
		}
	}
}

// What was noted is known to the core before it does anything else: before it gives
// a slot away, so that the next owner hears of it.
func TestEngine_handsOverWhatIsNoted(t *testing.T) {
	t.Parallel()
	d := newDriven(t, true)
	id := d.create(0)
	d.run(20 * time.Second)
	d.e.Touch(id)
	s := d.table.Slots[0]
	s.Owner, s.PrevRe, s.Re = 2, s.Re, s.Re+1
	tab, err := d.table.Apply(&ring.Change{Base: d.table.Epoch, Slots: []ring.SlotChange{{Slot: 0, State: s}}}, d.table.Epoch+1)
	if err != nil {
		t.Fatal(err)
	}
	d.table = tab
	d.e.Adopt(tab)
	for i := number(2); i <= 3; i++ {
		d.step(i, func(n *Node, out *Out) { n.Adopt(d.now, tab, out) })
	}
	d.run(time.Second)
	if got := d.left(2, id); got < ttl-time.Second || got > ttl+d.e.touches.every {
		t.Errorf("its next owner believes that %v are left", got)
	}
}

// A message counts as much as any other step.
func TestEngine_takesInWhatIsNotedBeforeMessages(t *testing.T) {
	t.Parallel()
	d := newDriven(t, false)
	id := d.create(0)
	d.run(5 * time.Second)
	d.e.Touch(id)
	from := d.table.Member(2)
	if err := d.e.Receive(from.ID, from.Boot, nil); err != nil {
		t.Fatal(err)
	}
	if got := d.left(1, id); d.noted() != 0 || got < ttl {
		t.Errorf("%v are left, %d uses noted", got, d.noted())
	}
}

// The end of Run takes in what there is, and what comes after it counts at once.
func TestEngine_notesNothingWithoutTicks(t *testing.T) {
	t.Parallel()
	d := newDriven(t, false)
	first, second := d.create(0), d.create(0)
	d.run(5 * time.Second)
	d.e.Touch(first)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.e.Run(ctx); err != nil {
		t.Fatal(err)
	}
	d.e.Touch(second)
	for _, id := range []session.ID{first, second} {
		if got := d.left(1, id); d.noted() != 0 || got < ttl {
			t.Errorf("%v are left, %d uses noted", got, d.noted())
		}
	}
}

// How much is noted is bounded: whoever notes the last one has it taken in.
func TestEngine_takesInUsesWhenTheyAreMany(t *testing.T) {
	t.Parallel()
	d := newDriven(t, false)
	id := d.create(0)
	d.run(5 * time.Second)
	d.e.touches.every = 0
	for i := range maxNoted {
		if d.noted() != i {
			t.Fatalf("%d are noted after %d", d.noted(), i)
		}
		d.e.Touch(id)
	}
	if got := d.left(1, id); d.noted() != 0 || got < ttl {
		t.Errorf("%v are left, %d uses noted", got, d.noted())
	}
}

// The owner of others' sessions is told at once: it does not know of what is noted here.
func TestEngine_tellsOthersOfUsesAtOnce(t *testing.T) {
	t.Parallel()
	d := newDriven(t, false)
	id := d.create(1)
	d.run(5 * time.Second)
	d.e.Touch(id)
	if told := slices.ContainsFunc(d.queue, func(e envelope) bool { return e.to.Num == 2 }); d.noted() != 0 || !told {
		t.Errorf("%d uses noted, told: %t", d.noted(), told)
	}
	d.run(time.Second)
	if got := d.left(2, id); got < ttl-time.Second {
		t.Errorf("%v are left", got)
	}
}

// What has come to be another's between the use and the step goes to him.
func TestEngine_passesOnUsesOfWhatItDoesNotServe(t *testing.T) {
	t.Parallel()
	d := newDriven(t, false)
	id := d.create(1)
	d.run(5 * time.Second)
	if ok, full := d.e.noted.add(id, 1, d.e.clock); !ok || full {
		t.Fatal("not noted")
	}
	d.e.step(func(Time, *Out) {})
	d.run(time.Second)
	if got := d.left(2, id); got < ttl-time.Second {
		t.Errorf("%v are left", got)
	}
}
