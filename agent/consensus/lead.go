package consensus

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

// Term is one stretch of leadership.
type Term struct {
	Number  uint64
	Elected time.Time // when this server learned of it
}

const (
	transferWait = 5 * time.Second
	leadAgain    = time.Second
)

// Lead runs work for every term in which this server leads, until ctx is done.
// Each run has a context that ends with its term, and the next waits until the
// last has returned. Every notice from Raft that this server leads is a new
// term: leadership may have been lost and won again in between. Work that
// returns an error while its term lasts gives leadership away, or starts again
// where nobody can take it.
func (n *Node) Lead(ctx context.Context, work func(context.Context, Term) error) error {
	select {
	case <-n.ready:
	case <-ctx.Done():
		return nil
	}
	r := n.raft.Load()
	if r == nil {
		return ErrNotRunning
	}
	l := &lead{node: n, raft: r, work: work}
	defer l.stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case leads := <-r.LeaderCh():
			l.stop()
			if leads {
				l.start(ctx)
			}
		case err := <-l.done:
			l.stop()
			if err == nil || ctx.Err() != nil || r.State() != raft.Leader {
				continue
			}
			if errors.Is(err, raft.ErrLeadershipTransferInProgress) {
				l.again = time.After(leadAgain) // for the case that it comes to nothing
				continue
			}
			n.log.Error("leader work failed", "error", err)
			l.giveUp(ctx)
		case <-l.again:
			l.again = nil
			if r.State() == raft.Leader {
				l.start(ctx)
			}
		}
	}
}

type lead struct {
	node   *Node
	raft   *raft.Raft
	work   func(context.Context, Term) error
	cancel context.CancelFunc
	done   chan error
	over   chan struct{}
	again  <-chan time.Time
}

func (l *lead) start(ctx context.Context) {
	term := Term{Number: l.raft.CurrentTerm(), Elected: time.Now()}
	ctx, l.cancel = context.WithCancel(ctx)
	l.done, l.over = make(chan error, 1), make(chan struct{})
	go func(done chan<- error, over chan<- struct{}) {
		defer close(over)
		done <- l.work(ctx, term)
	}(l.done, l.over)
}

// stop ends the work of the present term, if there is one, and waits for it.
func (l *lead) stop() {
	l.again = nil
	if l.cancel == nil {
		return
	}
	l.cancel()
	<-l.over
	l.cancel, l.done, l.over = nil, nil, nil
}

func (l *lead) giveUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, transferWait)
	defer cancel()
	if err := l.node.TransferLeadership(ctx, ""); err != nil {
		l.node.log.Warn("could not hand over leadership", "error", err)
		l.again = time.After(leadAgain)
	}
}
