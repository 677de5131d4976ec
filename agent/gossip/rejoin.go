package gossip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/member"
)

const (
	redialMin, redialMax = 4 * time.Second, 6 * time.Second
	witnesses            = 3 // asked whether this agent's name is its own
)

// dialLoop keeps the cluster one: every few seconds it dials one address at
// which a member is missing, since memberlist never makes up again with those
// it has declared dead; and it asks one member how that one sees this agent.
func (g *Gossip) dialLoop(ctx context.Context) {
	first := true
	for {
		wait := redialMin + rand.N(redialMax-redialMin)
		if first {
			// Known peers of the last run are dialled at once.
			wait, first = rand.N(200*time.Millisecond), false
		}
		t := time.NewTimer(wait)
		conflict := false
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-g.wakeDial:
			conflict = true
		}
		t.Stop()
		if ctx.Err() != nil {
			return
		}
		g.mu.Lock()
		left := g.left
		g.mu.Unlock()
		if left {
			continue
		}
		if !conflict {
			g.redial(ctx)
		}
		g.askAround(ctx)
	}
}

// redial dials one of the addresses at which somebody is missing.
func (g *Gossip) redial(ctx context.Context) {
	var missing []netip.AddrPort
	g.mu.Lock()
	here := map[netip.AddrPort]bool{g.self: true}
	for _, m := range g.list.byName {
		if m.Here() {
			here[m.Gossip()] = true
		}
	}
	for _, m := range g.list.byName {
		if m.Status == member.Failed && !here[m.Gossip()] {
			missing = append(missing, m.Gossip())
			here[m.Gossip()] = true
		}
	}
	for addr := range g.peers {
		if !here[addr] {
			missing = append(missing, addr)
		}
	}
	g.mu.Unlock()
	if len(missing) == 0 {
		return
	}
	to := missing[rand.IntN(len(missing))]
	err := g.dial(ctx, to, false)
	key := "redial " + to.String()
	switch {
	case ctx.Err() != nil:
	case err == nil:
		g.quiet.settle(key)
		g.log.Info("reached a missing member", "addr", to)
	case errors.Is(err, ErrOtherCluster):
		g.quiet.say(hclog.Warn, key, "a former member's address is in use by another cluster", "addr", to, "error", err)
		g.forgetAddr(to)
	case isRefusal(err):
		g.quiet.say(hclog.Warn, key, "a missing member refuses this agent", "addr", to, "error", err)
	default:
		g.log.Debug("missing member not reached", "addr", to, "error", err)
	}
}

func (g *Gossip) forgetAddr(addr netip.AddrPort) {
	g.mu.Lock()
	delete(g.peers, addr)
	for name, m := range g.list.byName {
		if m.Gossip() == addr && m.Status == member.Failed {
			g.list.forget(name)
		}
	}
	g.mu.Unlock()
	g.wakeAll()
}

// askAround asks members whether they see this run of this agent. When most of
// those asked say that its name belongs to another, this agent stops.
func (g *Gossip) askAround(ctx context.Context) {
	var asked, taken int
	var reason error
	var tried []member.ID
	for range witnesses {
		g.mu.Lock()
		m, ok := g.someoneLocked(func(o *Member) bool { return !slices.Contains(tried, o.ID) })
		g.mu.Unlock()
		if !ok {
			break
		}
		tried = append(tried, m.ID)
		p, err := g.trans.ask(ctx, m.Gossip(), g.introduce(helloAsk))
		switch {
		case errors.Is(err, ErrNameTaken):
			asked++
			taken++
			reason = err
			continue
		case err != nil:
			continue
		}
		asked++
		if p.boot != g.opts.Meta.Boot || p.seen == member.Failed || p.seen == member.Left {
			g.log.Info("a member does not see this agent, telling it", "member", m.Name, "seen", p.seen)
			g.announce(ctx, 500*time.Millisecond)
			if err := g.dial(ctx, m.Gossip(), false); err != nil {
				g.log.Debug("member not joined anew", "member", m.Name, "error", err)
			}
		}
		if taken == 0 {
			return
		}
	}
	if taken > 0 && 2*taken > asked {
		g.stop(fmt.Errorf("stop gossip: %w", reason))
	}
}
