package replicate

import (
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/internal/codec"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// gated is an engine of member 2 with a disk that syncs when told to.
type gated struct {
	t     *testing.T
	c     *trio
	e     *Engine
	sent  []Message
	upto  uint64
	lines int
}

func (g *gated) Send(_ *ring.Member, _ bool, payload []byte) {
	r := codec.NewReader(payload)
	r.Uvarint()
	r.Uvarint()
	m, err := DecodeMessage(r.Fixed(r.Len()), g.c.now.Mono)
	if err != nil {
		g.t.Errorf("held payload: %v", err)
	}
	g.sent = append(g.sent, m)
}
func (g *gated) Flush()                       {}
func (g *gated) ToLeader(ring.Message)        {}
func (g *gated) Append(upto uint64, _ []byte) { g.upto, g.lines = upto, g.lines+1 }

func newGated(t *testing.T) *gated {
	g := &gated{t: t, c: newTrio(t, true)}
	cfg := g.c.nodes[2].cfg
	cfg.Disk = true
	g.e = NewEngine(Options{Config: cfg, Link: g, Disk: g, Clock: func() Time { return g.c.now }}, hclog.NewNullLogger())
	g.e.Adopt(g.c.table)
	return g
}

// replicate sends the engine a new session of member 1's.
func (g *gated) replicate() {
	g.t.Helper()
	id := g.c.mint(3)
	rec := &session.Record{ID: id, Ver: 1, Gen: session.Gen{Re: g.c.table.Slots[3].Re}, TTL: 1e12}
	m := &Replicate{SlotRe{3, g.c.table.Slots[3].Re}, []*session.Update{{ID: id, Full: rec, Left: 1e12}}}
	b := AppendMessage([]byte{byte(g.c.table.Epoch), 1}, m, g.c.now.Mono)
	from := g.c.table.Member(1)
	if err := g.e.Receive(from.ID, from.Boot, [][]byte{b}); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gated) acks() (k int) {
	for _, m := range g.sent {
		if _, ok := m.(*Ack); ok {
			k++
		}
	}
	return k
}

// refused has an answer wait for the disk. It returns what is answered instead,
// nil where it waits.
func (g *gated) refused(a Answer) *session.Response {
	g.t.Helper()
	ch := make(mailbox, 1)
	g.e.mu.Lock()
	defer g.e.mu.Unlock()
	g.e.waiting[a.Handle] = ch
	g.e.hold(a)
	select {
	case r := <-ch:
		return r
	default:
		return nil
	}
}

func (g *gated) want(acks int, when string) {
	g.t.Helper()
	if got := g.acks(); got != acks {
		g.t.Fatalf("%s: %d acknowledgements have left, want %d", when, got, acks)
	}
}

// names lets the table name a store of member 2's.
func (g *gated) names(s ring.Store) {
	m := *g.c.table.Member(2)
	m.Store = s
	g.c.commit(&ring.Change{Base: g.c.table.Epoch, Members: []ring.Member{m}})
	g.e.Adopt(g.c.table)
}

func TestEngine_promisesWaitForTheDisk(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	g.replicate()
	first := g.upto
	g.replicate()
	if g.lines != 2 {
		t.Fatalf("two steps were handed to the disk in %d calls", g.lines)
	}
	g.want(0, "before the disk has it")
	g.e.Synced(first)
	g.want(1, "when the first is safe")
	g.e.Synced(g.upto)
	g.want(2, "when both are")
	versions := map[session.ID]bool{}
	for _, m := range g.sent {
		if a, ok := m.(*Ack); ok {
			versions[a.ID] = true
		}
	}
	if len(versions) != 2 {
		t.Errorf("the acknowledgements are of %d sessions", len(versions))
	}
}

func TestEngine_goesOnFromMemory(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	g.e.SetStore(ring.Store{1}, false)
	g.replicate()
	g.want(0, "before the disk has it")
	g.e.SetStore(ring.Store{}, false)
	g.want(1, "after the disk has failed")
	g.replicate()
	g.want(2, "from memory")
	g.e.SetStore(ring.Store{2}, false)
	g.replicate()
	g.want(2, "with a new disk")
	g.e.Synced(g.upto)
	g.want(3, "when the new disk has it")
}

func TestEngine_diskInDoubtIsPromisedNothing(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	g.names(ring.Store{1})
	g.e.SetStore(ring.Store{1}, false)
	g.e.SetStore(ring.Store{}, true)
	g.replicate()
	g.want(0, "while the table names the store")
	g.names(ring.Store{})
	g.want(1, "when the table does not")
	// Late news of the store may bring its name back.
	g.names(ring.Store{1})
	g.replicate()
	g.want(1, "when the table names it again")
	g.names(ring.Store{})
	g.want(2, "when it does not any more")
}

// What waits for a disk that does not come is bounded.
func TestEngine_holdsOnlySoMuch(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	g.e.held.limit = 10 * heldCost
	for range 100 {
		g.replicate()
	}
	if q := &g.e.held; q.size > q.limit || len(q.outs) == 0 {
		t.Fatalf("%d bytes wait in %d messages, the limit is %d", q.size, len(q.outs), q.limit)
	}
	waiting := len(g.e.held.outs)
	g.e.held.size = g.e.held.limit // whatever the sizes of messages are
	if r := g.refused(Answer{Handle: 1000, After: g.upto, Resp: &session.Response{}}); r == nil || r.Status != session.Unavailable {
		t.Errorf("a read without room is answered with %+v", r)
	}
	if r := g.refused(Answer{Handle: 1001, After: g.upto, Resp: &session.Response{}, Mutates: true}); r == nil || r.Status != session.UnknownEnd {
		t.Errorf("a write without room is answered with %+v", r)
	}
	g.e.Synced(g.upto)
	g.want(waiting, "when the disk has it")
	if q := &g.e.held; q.size != 0 || len(q.outs) != 0 {
		t.Errorf("%d bytes still wait in %d messages", q.size, len(q.outs))
	}
	g.replicate()
	if r := g.refused(Answer{Handle: 1002, After: g.upto, Resp: &session.Response{}}); r != nil {
		t.Errorf("with room again an answer is %+v", r)
	}
	g.e.Synced(g.upto)
	g.want(waiting+1, "with room again")
}
