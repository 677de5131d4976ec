package gossip

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

// Errors of ForceLeave.
var (
	ErrUnknownMember = errors.New("no member has the name")
	ErrStillHere     = errors.New("is alive")
)

const leaveLimit = 5 * time.Second

// Leave tells all members that this agent goes for good. They show it as
// Leaving and then as Left. Afterwards this Gossip cannot join any more; Run
// goes on until its context ends. A member that is not reached shows this
// agent as Failed until another one tells it.
func (g *Gossip) Leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	g.mu.Lock()
	if g.left {
		g.mu.Unlock()
		return nil
	}
	g.meta.Leaving, g.meta.Departed = true, true
	n := note{boot: g.meta.Boot, seq: 1, left: true, own: true, since: time.Now()}
	if old, ok := g.list.notes[g.meta.ID]; ok {
		n.seq = old.seq + 1
	}
	g.list.notes[g.meta.ID] = n
	alone := g.others.Load() <= 1
	g.mu.Unlock()
	g.queue.QueueBroadcast(broadcast(n.encode(g.opts.Meta.ID)))
	if !alone {
		g.announce(ctx, 500*time.Millisecond)
	}
	g.mu.Lock()
	g.left = true
	g.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("leave gossip: %w", err)
	}
	deadline, _ := ctx.Deadline()
	if err := g.ml.Leave(max(time.Until(deadline), time.Millisecond)); err != nil {
		// In a large cluster the library waits for more sends than it
		// makes; the messages are on their way all the same.
		g.log.Debug("leave not confirmed", "error", err)
	}
	if !alone {
		sleep(ctx, 6*g.times.gossipInterval)
	}
	return nil
}

// ForceLeave makes a failed member a left one, everywhere; with prune it is
// not even listed any more. It returns ErrUnknownMember, or ErrStillHere for a
// member that is alive. Should the same run of the member turn out to live
// after all and knock, it is a member again.
func (g *Gossip) ForceLeave(name string, prune bool) error {
	now := time.Now()
	g.mu.Lock()
	m := g.list.byName[name]
	switch {
	case m == nil:
		g.mu.Unlock()
		return fmt.Errorf("%w %s; `rondel members` lists them", ErrUnknownMember, name)
	case m.Here():
		g.mu.Unlock()
		return fmt.Errorf("%s %w: run `rondel leave` there, or stop it and try again when `rondel members` shows it as failed", name, ErrStillHere)
	case m.Status == member.Left && !prune:
		g.mu.Unlock()
		return nil
	}
	id := m.ID
	n := note{boot: m.Boot, seq: g.list.notes[id].seq + 1, left: true, prune: prune, since: now}
	g.list.take(id, n, now)
	for addr, p := range g.peers {
		if addr == m.Gossip() || p.ID == id {
			delete(g.peers, addr)
		}
	}
	g.mu.Unlock()
	g.queue.QueueBroadcast(broadcast(n.encode(id)))
	g.wakeAll()
	return nil
}

// Pruned returns the runs that were made to leave and taken off the list.
func (g *Gossip) Pruned() map[member.ID]member.Boot {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[member.ID]member.Boot{}
	for id, n := range g.list.notes {
		if n.left && n.prune {
			out[id] = n.boot
		}
	}
	return out
}

// Miss takes in that there is a member, found dead, of which gossip need not know
// any more: all agents may have been restarted since. It is listed as failed,
// unless it is listed already or was pruned. rpc is where it was reached by other
// agents.
func (g *Gossip) Miss(name string, id member.ID, boot member.Boot, rpc netip.AddrPort, witness bool) {
	g.mu.Lock()
	at := netip.AddrPortFrom(rpc.Addr(), defaultPort)
	for addr, p := range g.peers {
		if p.ID == id {
			at = addr
		}
	}
	meta := member.Meta{ID: id, Boot: boot, RPCPort: rpc.Port(), Witness: witness, Cluster: g.meta.Cluster}
	g.list.absent(name, at, meta, member.Failed, time.Now())
	g.mu.Unlock()
	g.wakeAll()
}
