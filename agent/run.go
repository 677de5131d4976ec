package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/rondel-project/rondel/agent/consensus"
)

// Run runs the agent until ctx ends, until Shutdown or Leave have ended it, or
// until a part cannot go on. It returns when all goroutines have ended and every
// port is free. It can be called once.
func (a *Agent) Run(ctx context.Context) (err error) {
	defer close(a.ended)
	defer func() { err = errors.Join(err, a.forget(), a.id.close()) }()
	net := newStage(ctx, a.fail)   // how members reach each other
	base := newStage(ctx, a.fail)  // what others need of this member
	work := newStage(ctx, a.fail)  // what this member does
	api := newStage(ctx, a.fail)   // what applications beside it ask
	front := newStage(ctx, a.fail) // what users reach
	defer func() { err = errors.Join(err, a.loops.Close()) }()
	defer net.stop()
	defer base.stop()
	defer work.stop()
	defer api.stop()
	defer front.stop()

	net.run("agent-to-agent transport", a.transport.Run)
	net.run("gossip", a.gossip.Run)
	if a.doors != nil {
		net.run("access log", a.doors.access.Run)
	}
	if a.store != nil {
		net.run("store", a.runStore)
	}
	if t, err := a.id.cachedTable(); err != nil {
		a.log.Warn("no table of an earlier run", "error", err)
	} else if t != nil {
		a.engine.Adopt(t)
	}
	base.run("raft", a.runRaft)
	base.run("sessions", a.engine.Run)
	work.run("bootstrap", a.bootstrap.Run)
	work.run("leader", a.lead)
	work.run("table", a.followTable)
	work.run("alive", a.followAlive)
	work.run("table cache", a.cacheTable)
	work.run("checks", a.services.checks.Run)
	work.run("load", a.services.load.Run)
	work.run("vote", a.watchVote)
	work.run("join", a.join)
	if err := a.services.start(*a.cfg.Load()); err != nil {
		return err
	}
	work.run("publish", func(ctx context.Context) error { return a.services.publish(ctx, a.memberRecord) })
	if a.doors != nil {
		work.run("instances", a.feedInstances)
		front.run("certificates", a.doors.secure.certificates.Run)
		if authority := a.doors.secure.authority; authority != nil {
			front.run("certificate authority", authority.Run)
		}
		front.run("proxy", a.serveProxy)
		api.run("HTTP API", func(ctx context.Context) error { return a.doors.api.Run(ctx, a.doors.apiPorts...) })
	}

	for closing := a.closing; ; {
		select {
		case err := <-a.fatal:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-closing: // Leave goes on when that is done
			front.stop()
			close(a.closed)
			closing = nil
			continue
		case <-a.ending:
		}
		break
	}
	// Other agents send nothing more to the instances here, which are about to
	// lose their agent; then this agent's own requests end, then its slots go.
	// The API stays to the last, since applications still work on those requests.
	a.services.withdraw()
	front.stop()
	a.handOver(ctx)
	return nil
}

// runRaft runs this member's Raft server. Being removed is what a member that
// leaves asks for.
func (a *Agent) runRaft(ctx context.Context) error {
	err := a.raft.Run(ctx)
	if errors.Is(err, consensus.ErrRemoved) {
		if a.leaving.Load() {
			return nil
		}
		return fmt.Errorf("%w: an operator has removed this member; to make it a new one, move its data directory away and start it again", err)
	}
	return err
}

func (a *Agent) lead(ctx context.Context) error {
	return a.raft.Lead(ctx, func(ctx context.Context, t consensus.Term) error { return a.leader.Term(ctx, t.Number) })
}

// followTable hands the engine each table that this member's Raft server
// applies.
func (a *Agent) followTable(ctx context.Context) error {
	for {
		t, newer := a.raft.Watch()
		if t.Epoch > 0 {
			a.engine.Adopt(t)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-newer:
		}
	}
}

// join makes this agent known to the others. With -join it must succeed once;
// -retry-join goes on for as long as the agent runs.
func (a *Agent) join(ctx context.Context) error {
	cfg := a.cfg.Load().Join
	if len(cfg.Once) > 0 {
		n, err := a.gossip.Join(ctx, cfg.Once)
		if n == 0 {
			return fmt.Errorf("no member answered at any of -join's addresses: %w", err)
		}
		a.log.Info("joined", "reached", n)
	}
	for {
		round, end := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- a.gossip.RetryJoin(round, a.cfg.Load().Join.Retry) }()
		select {
		case err := <-done:
			end()
			return err
		case <-a.rejoin: // by a reload, with other addresses
			end()
			if err := <-done; err != nil {
				return err
			}
		}
	}
}
