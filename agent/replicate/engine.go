package replicate

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/internal/codec"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// Link carries an engine's messages. Its methods never block, may drop, and are
// called one at a time with the engine's lock held: they must not call back.
type Link interface {
	// Send sends a payload to one run of a member, at the latest with the next
	// Flush. The payload may be reused once it returns.
	Send(to *ring.Member, bulk bool, payload []byte)
	Flush()
	// ToLeader sends a control message to whoever leads.
	ToLeader(m ring.Message)
}

// Options make an Engine.
type Options struct {
	Config
	Link  Link
	Clock func() Time // of this member; Mono must never fall
	// Disk, if set, keeps what the core logs; Config.Disk is then true.
	Disk Disk
	// OnTable, if set, is called for each newer table, in order.
	OnTable func(*ring.Table)
}

const tickEvery = 25 * time.Millisecond

// Engine runs a core: it gives it requests, messages, tables and time, one at
// a time, and sends what it wants sent.
type Engine struct {
	log   hclog.Logger
	link  Link
	clock func() Time
	onTab func(*ring.Table)
	disk  Disk
	fatal func(p any, stack []byte) // ends the process; another in tests

	mu        sync.Mutex // guards all below but view; whoever calls the core under it defers guard
	node      *Node
	out       Out
	buf       []byte
	last      uint64
	waiting   map[uint64]Waiter
	done      []completion // answered, not yet handed over
	spare     []completion // empty, for done
	view      atomic.Pointer[View]
	tables    []*ring.Table // adopted, not yet told of
	telling   sync.Mutex    // held while telling, so that tables are told of in order
	touches   touchFilter
	noted     noted
	greetings greetings
	offset    time.Duration // of the clock, as told in the log; only for Run
	held      held
	answers   sync.Pool // of channels that one answer goes through at a time
}

// NewEngine returns an engine that has no table yet. It owns no goroutine until
// Run.
func NewEngine(o Options, log hclog.Logger) *Engine {
	e := &Engine{
		log: log.Named("sessions"), link: o.Link, clock: o.Clock, onTab: o.OnTable,
		disk: o.Disk, fatal: die, held: held{gate: o.Disk != nil, limit: maxHeld}, node: NewNode(o.Config), waiting: map[uint64]Waiter{},
	}
	e.answers.New = func() any { return make(mailbox, 1) }
	e.touches.every = useEvery(o.Defaults.TTL)
	e.view.Store(newView(nil, e.node, time.Now()))
	return e
}

// Run keeps the engine's time until ctx ends.
func (e *Engine) Run(ctx context.Context) error {
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			e.noteNoMore()
			return nil
		case <-t.C:
			e.tick()
		}
	}
}

// step runs f under the lock and does what the core then wants.
func (e *Engine) step(f func(now Time, out *Out)) { e.stepBuffered(f, true) }

// stepBuffered is step; without flush, what it sends may wait for more.
func (e *Engine) stepBuffered(f func(now Time, out *Out), flush bool) {
	e.mu.Lock()
	e.work(f, flush)
	e.unlock()
}

// work is a step's part under the lock.
func (e *Engine) work(f func(now Time, out *Out), flush bool) {
	defer e.guard()
	now := e.begin()
	e.out.Reset()
	f(now, &e.out)
	e.deliver(now)
	if flush {
		e.link.Flush()
	}
}

// unlock ends a step.
func (e *Engine) unlock() {
	tell := len(e.tables) > 0
	e.handOver()
	if tell {
		e.tell()
	}
}

func (e *Engine) deliver(now Time) {
	if e.disk != nil {
		e.keep()
	}
	var encoded Message
	for i := range e.out.Sends {
		s := &e.out.Sends[i]
		m := e.node.t.Member(s.To.Num)
		if m == nil || m.Boot != s.To.Boot {
			continue
		}
		// A message to several copies is encoded once.
		if s.Msg != encoded {
			e.buf = binary.AppendUvarint(e.buf[:0], uint64(e.node.t.Epoch))
			e.buf = binary.AppendUvarint(e.buf, uint64(e.node.self.Num))
			e.buf = AppendMessage(e.buf, s.Msg, now.Mono)
			encoded = s.Msg
		}
		if e.held.waits(s.After) {
			e.held.send(s, e.buf)
			continue
		}
		e.link.Send(m, s.Bulk, e.buf)
	}
	if cap(e.buf) > 1<<20 {
		e.buf = nil
	}
	for _, m := range e.out.Leader {
		e.link.ToLeader(m)
	}
	for _, a := range e.out.Answers {
		if e.held.waits(a.After) {
			e.hold(a)
			continue
		}
		e.answer(a)
	}
	if e.out.Table != nil {
		e.view.Store(newView(e.view.Load(), e.node, time.Now()))
		if e.onTab != nil {
			e.tables = append(e.tables, e.out.Table)
		}
	}
}

func (e *Engine) answer(a Answer) {
	w := e.waiting[a.Handle]
	if w == nil {
		return
	}
	delete(e.waiting, a.Handle)
	e.name(a.Resp)
	if m, ok := w.(mailbox); ok {
		m <- a.Resp
		return
	}
	e.done = append(e.done, completion{w, a.Resp})
}

// tell tells of new tables outside the engine's lock, so that who is told may
// call the engine.
func (e *Engine) tell() {
	for e.telling.TryLock() { // else whoever holds it tells of these, too
		e.mu.Lock()
		tables := e.tables
		e.tables = nil
		e.mu.Unlock()
		for _, t := range tables {
			e.onTab(t)
		}
		e.telling.Unlock()
		e.mu.Lock()
		more := len(e.tables) > 0
		e.mu.Unlock()
		if !more {
			return
		}
	}
}

// name fills in the names of owner and replicas.
func (e *Engine) name(r *session.Response) {
	if m := e.node.t.Member(r.Owner); m != nil {
		r.OwnerName = m.Name
	}
	r.ReplicaNames = make([]string, 0, len(r.Replicas))
	for _, num := range r.Replicas {
		if m := e.node.t.Member(num); m != nil {
			r.ReplicaNames = append(r.ReplicaNames, m.Name)
		}
	}
}

// Do runs one request, wherever the session's owner is, within
// Params.OpBudget or until ctx ends; a write may then have happened.
func (e *Engine) Do(ctx context.Context, req *session.Request) *session.Response {
	ch := e.answers.Get().(mailbox)
	var handle uint64
	e.stepBuffered(func(now Time, out *Out) {
		e.last++
		handle = e.last
		e.waiting[handle] = ch
		e.node.Request(now, handle, req, out)
	}, false)
	if len(ch) == 0 {
		// Answers come in bunches, and so do the requests that follow them. All
		// that are ready to run get to say what they send before the first of
		// them lets it go for all.
		runtime.Gosched()
	}
	e.Flush()
	select {
	case r := <-ch:
		e.answers.Put(ch)
		return r
	case <-ctx.Done():
	}
	e.mu.Lock()
	_, pending := e.waiting[handle]
	delete(e.waiting, handle)
	e.mu.Unlock()
	if !pending { // the answer came meanwhile
		r := <-ch
		e.answers.Put(ch)
		return r
	}
	e.answers.Put(ch)
	if req.Kind.Mutates() {
		return unknownEnd()
	}
	return unavailable("gave_up", "the request was given up before the owner answered")
}

// Exists asks the session's owner whether there is one. known is false where it
// could not be told before ctx ended.
func (e *Engine) Exists(ctx context.Context, id session.ID) (exists, known bool) {
	switch r := e.Do(ctx, &session.Request{Kind: session.Head, ID: id}); r.Status {
	case session.OK:
		return true, true
	case session.NotFound:
		return false, true
	}
	return false, false
}

// codeEnded tells who asks whether there is a session that there was one.
const codeEnded = "session_ended"

// Ended asks the session's owner whether there was one that has ended, or was
// given another id. It reports false where that is not known before ctx ends,
// which is so, too, once its end has been forgotten.
func (e *Engine) Ended(ctx context.Context, id session.ID) bool {
	r := e.Do(ctx, &session.Request{Kind: session.Head, ID: id})
	return r.Status == session.NotFound && r.Code == codeEnded
}

// received is a message as its frame brings it.
type received struct {
	epoch ring.Epoch
	num   member.Number
	msg   Message
}

func decode(payload []byte, now int64) (in received, err error) {
	r := codec.NewReader(payload)
	in.epoch, in.num = ring.Epoch(r.Uvarint()), member.Number(r.Uvarint())
	if err := r.Err(); err != nil {
		return in, fmt.Errorf("replication frame: %w", err)
	}
	in.msg, err = DecodeMessage(r.Fixed(r.Len()), now)
	return in, err
}

// Receive takes payloads that another engine's link was given, in their order.
// It looks at all of them before it takes the lock, once, and what they make this
// engine send leaves together. The error is that of the first that was broken;
// the others count all the same.
func (e *Engine) Receive(from member.ID, boot member.Boot, payloads [][]byte) (broken error) {
	all := make([]received, 0, len(payloads))
	mono := e.clock().Mono
	for _, p := range payloads {
		in, err := decode(p, mono)
		if err != nil {
			broken = cmp.Or(broken, err)
			continue
		}
		all = append(all, in)
	}
	e.mu.Lock()
	e.receive(from, boot, all)
	e.unlock()
	return broken
}

func (e *Engine) receive(from member.ID, boot member.Boot, all []received) {
	defer e.guard()
	now := e.begin()
	for i := range all {
		in := &all[i]
		if known := e.node.t.Member(in.num); known != nil && known.Boot == boot && known.ID != from {
			continue // it says another's number
		}
		e.out.Reset()
		e.node.Receive(now, ring.Holder{Num: in.num, Boot: boot}, in.epoch, in.msg, &e.out)
		e.deliver(now)
	}
	e.link.Flush()
}

// Flush lets go what requests have left waiting.
func (e *Engine) Flush() {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.guard()
	e.link.Flush()
}

// SetDefaults changes what a session gets that does not say otherwise.
func (e *Engine) SetDefaults(d Defaults) {
	e.mu.Lock()
	e.node.cfg.Defaults = d
	e.mu.Unlock()
}

// Control takes a message from the leader.
func (e *Engine) Control(m ring.Message) {
	e.step(func(now Time, out *Out) { e.node.Control(now, m, out) })
}

// Adopt takes a table that this agent's own Raft server has applied.
func (e *Engine) Adopt(t *ring.Table) {
	e.step(func(now Time, out *Out) { e.node.Adopt(now, t, out) })
}

// Alive takes the members that gossip sees alive.
func (e *Engine) Alive(alive map[member.ID]member.Boot) {
	e.step(func(now Time, out *Out) {
		var hs []ring.Holder
		for i := range e.node.t.Members {
			if m := &e.node.t.Members[i]; alive[m.ID] == m.Boot {
				hs = append(hs, m.Holder())
			}
		}
		e.node.Alive(now, hs, out)
	})
}

// PeerDown takes evidence that a member's address refused a connection or did
// not answer.
func (e *Engine) PeerDown(id member.ID, boot member.Boot, refused bool) {
	e.step(func(now Time, out *Out) {
		if m := e.node.t.ByID(id); m != nil && m.Boot == boot {
			e.node.PeerDown(now, m.Num, refused, out)
		}
	})
}
