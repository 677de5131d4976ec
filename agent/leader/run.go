package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

// ErrNotLeader means that this agent does not lead now.
var ErrNotLeader = errors.New("not the leader")

// Raft is the log. Its methods are called from several goroutines and return
// when their context is done.
type Raft interface {
	// Propose returns the table that the change made. With ring.ErrStale it
	// returns the present table, without the change in it; after any other error
	// the change may or may not be committed.
	Propose(context.Context, *ring.Change) (*ring.Table, error)
	// Verify confirms with a quorum, asked after the call, that this agent leads.
	Verify(context.Context) error
	// Barrier returns when all entries before the call are applied here.
	Barrier(context.Context) error
	// Watch returns the table, and a channel closed when there is a newer one.
	Watch() (*ring.Table, <-chan struct{})
}

// Sender sends control messages to members, this agent among them. It never
// blocks and may drop.
type Sender interface {
	Send(to Peer, m ring.Message)
}

// Prober tries to reach members. Both methods return when their context is
// done, at the latest.
type Prober interface {
	Probe(ctx context.Context, who Peer) Reach
	Ask(ctx context.Context, via, who Peer) Reach
}

// Gossip is the member list.
type Gossip interface {
	// Watch returns all members, this agent among them, and a channel closed
	// when the list has changed.
	Watch() ([]Seen, <-chan struct{})
}

// Config makes a Leader.
type Config struct {
	Self    member.ID
	Params  Params
	Cluster Cluster
	Raft    Raft
	Send    Sender
	Probe   Prober
	Gossip  Gossip
	Servers Servers // nil: the Raft configuration is left alone
	Log     hclog.Logger
	// Now is a clock that never goes back, best one that runs on while the
	// machine sleeps. Nil: Go's monotonic one.
	Now func() time.Duration
}

const (
	tickEvery   = 50 * time.Millisecond
	barrierWait = 10 * time.Second
	inboxSize   = 1024
	probeWait   = 400 * time.Millisecond
	verifyWait  = 2 * time.Second
	noticeEvery = time.Minute
)

// Leader runs the work of this agent's terms. Between terms it refuses what it
// is given.
type Leader struct {
	cfg Config
	log hclog.Logger

	mu    sync.Mutex // guards all below
	inbox chan Event // nil: not leading
	asked map[uint64]chan Answer
	op    uint64
}

// NewLeader returns a Leader that does nothing until Term is called.
func NewLeader(cfg Config) *Leader {
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	if cfg.Params == (Params{}) {
		cfg.Params = Default()
	}
	if cfg.Now == nil {
		start := time.Now()
		cfg.Now = func() time.Duration { return time.Since(start) }
	}
	return &Leader{cfg: cfg, log: cfg.Log.Named("leader")}
}

// Leading reports whether a term's work takes messages now.
func (l *Leader) Leading() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inbox != nil
}

// Handle takes a control message meant for the leader. It returns ErrNotLeader
// where the sender must look for another, and never blocks: with a full inbox
// the message is dropped, and its sender's timer brings it again.
func (l *Leader) Handle(m ring.Message) error {
	switch m := m.(type) {
	case *ring.Renew:
		return l.offer(Renewed{m})
	case *ring.AddInSync:
		return l.offer(AddAsked{m})
	case *ring.Report:
		return l.offer(Reported{m})
	case *ring.Stop:
		return l.offer(StopAsked{m})
	}
	return fmt.Errorf("control message %d is not for a leader", m.Kind())
}

// Refused tells of a connection that was refused at a member's address.
func (l *Leader) Refused(who ring.Holder) { _ = l.offer(Refused{who}) } // not leading: nobody to tell

func (l *Leader) offer(ev Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inbox == nil {
		return ErrNotLeader
	}
	select {
	case l.inbox <- ev:
	default: // full: dropped, see Handle
	}
	return nil
}

// Term does the work of one term: it waits for everything that earlier leaders
// committed, then observes, plans and applies until ctx is done. Its error means
// that this agent had better not lead. When it returns, nothing of the term
// still runs.
func (l *Leader) Term(ctx context.Context, number uint64) error {
	elected := l.cfg.Now()
	if err := l.barrier(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("barrier of term %d: %w", number, err)
	}
	table, _ := l.cfg.Raft.Watch()
	t := &term{
		Leader: l, results: make(chan result), inbox: make(chan Event, inboxSize),
		core: New(Options{
			Params: l.cfg.Params, Self: l.cfg.Self, Term: number,
			Elected: elected, Table: table, Cluster: l.cfg.Cluster,
		}),
	}
	l.setInbox(t.inbox)
	defer l.setInbox(nil)
	l.log.Info("leading", "term", number, "epoch", uint64(table.Epoch))
	defer l.log.Info("no longer leading", "term", number)
	return t.run(ctx)
}

func (l *Leader) setInbox(c chan Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inbox = c
	for op, answer := range l.asked {
		close(answer)
		delete(l.asked, op)
	}
}

func (l *Leader) barrier(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, barrierWait)
	defer cancel()
	return l.cfg.Raft.Barrier(ctx)
}
