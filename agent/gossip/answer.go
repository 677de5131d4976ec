package gossip

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/member"
)

// introduce is how this agent presents itself.
func (g *Gossip) introduce(kind byte) hello {
	g.mu.Lock()
	defer g.mu.Unlock()
	return hello{kind: kind, name: g.opts.Name, addr: g.self, meta: g.meta}
}

// answer judges an agent that presents itself. What memberlist would refuse
// without telling the newcomer is told here.
func (g *Gossip) answer(h hello, _ string) (byte, reply) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if h.meta.ID == g.meta.ID && h.meta.Boot == g.meta.Boot {
		return replySelf, reply{}
	}
	ours := g.clusterLocked()
	if foreign(ours, h.meta.Cluster) {
		return replyCluster, reply{detail: fmt.Sprintf("%s is in cluster %x, %s in cluster %x", g.opts.Name, ours[:4], h.name, h.meta.Cluster[:4])}
	}
	if code, detail := g.namesLocked(h, now); code != replyOK {
		return code, reply{detail: detail}
	}
	g.liftLocked(h, now)
	p := reply{detail: g.opts.Name, cluster: ours}
	if m := g.list.byName[h.name]; m != nil && m.ID == h.meta.ID {
		p.seen, p.boot = m.Status, m.Boot
	}
	if h.kind == helloFetch {
		entry, ok := g.entryLocked(h.target)
		if !ok {
			return replyNoEntry, reply{}
		}
		p.entry = entry
	}
	return replyOK, p
}

// welcome judges the answer of an agent that this one has dialled.
func (g *Gossip) welcome(p reply) error {
	g.mu.Lock()
	ours := g.clusterLocked()
	g.mu.Unlock()
	if foreign(ours, p.cluster) {
		return fmt.Errorf("%w: %s is in cluster %x, %s in cluster %x", ErrOtherCluster, p.detail, p.cluster[:4], g.opts.Name, ours[:4])
	}
	return nil
}

// namesLocked finds out whether the name or the id of h is another's.
func (g *Gossip) namesLocked(h hello, now time.Time) (byte, string) {
	if h.meta.ID == g.meta.ID {
		return replyOldPlace, fmt.Sprintf("%s runs with the same member id; is its data directory a copy?", g.opts.Name)
	}
	if h.name == g.opts.Name {
		detail := fmt.Sprintf("%s at %s", g.opts.Name, g.self)
		if g.meta.Cluster == ([16]byte{}) && g.others.Load() <= 1 && h.meta.ID < g.meta.ID {
			// Two that are alone: one rule for both, or both stop.
			g.stop(fmt.Errorf("%w: %s at %s", ErrNameTaken, h.name, h.addr))
			return replyOldPlace, detail
		}
		return replyName, detail
	}
	m := g.list.byName[h.name]
	switch {
	case m == nil || m.Gossip() == h.addr:
		// Unknown, or back at its place, where nobody else can be.
	case m.Here() && m.ID != h.meta.ID:
		return replyName, fmt.Sprintf("%s at %s", m.Name, m.Gossip())
	case m.Here():
		return replyOldPlace, fmt.Sprintf("%s at %s", m.Name, m.Gossip())
	case m.Status == member.Failed && now.Sub(m.Since) <= reclaimTime:
		return replyOldPlace, fmt.Sprintf("%s at %s failed only just now", m.Name, m.Gossip())
	}
	if m := g.list.byID(h.meta.ID); m != nil && m.Name != h.name && m.Here() && m.Boot != h.meta.Boot {
		return replyOldPlace, fmt.Sprintf("%s at %s runs with the same member id", m.Name, m.Gossip())
	}
	return replyOK, ""
}

// liftLocked takes back that a member was said to have left, now that it
// knocks itself.
func (g *Gossip) liftLocked(h hello, now time.Time) {
	n, ok := g.list.notes[h.meta.ID]
	if !ok || !n.left || n.own || n.boot != h.meta.Boot {
		return
	}
	n.left, n.prune, n.seq, n.since = false, false, n.seq+1, now
	g.list.notes[h.meta.ID] = n
	g.queue.QueueBroadcast(broadcast(n.encode(h.meta.ID)))
}

// refused tells of agents that were sent away, or could not be understood.
func (g *Gossip) refused(from string, h *hello, err error) {
	host := from
	if i := lastColon(from); i > 0 {
		host = from[:i]
	}
	pairs := []any{"addr", from}
	if h != nil && h.name != "" {
		pairs = append(pairs, "member", h.name)
	}
	level := hclog.Warn
	switch {
	case errors.Is(err, errOldPlace):
		level = hclog.Info
	case isRefusal(err):
	default:
		level = hclog.Debug // somebody hung up
	}
	g.quiet.say(level, "refused "+host+" "+reason(err), "refused an agent", append(pairs, "error", err)...)
}

func lastColon(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == ':' {
			return i
		}
	}
	return -1
}

// refusals are the reasons that do not go away by trying again.
var refusals = []error{ErrNameTaken, ErrOtherCluster, ErrTheyEncrypt, ErrWeEncrypt, ErrKeysDiffer, ErrUnknownDialect}

func isRefusal(err error) bool {
	for _, r := range refusals {
		if errors.Is(err, r) {
			return true
		}
	}
	return false
}

// reason is a short stable text for an error, to count its repetitions.
func reason(err error) string {
	for _, r := range refusals {
		if errors.Is(err, r) {
			return r.Error()
		}
	}
	return "other"
}
