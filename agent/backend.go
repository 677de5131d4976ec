package agent

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/gossip"
	"github.com/rondel-project/rondel/agent/httpapi"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/replicate"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/telemetry"
	"github.com/rondel-project/rondel/api"
)

// ofKind is an error that the API answers by its kind, and in its own words.
type ofKind struct {
	error
	kind error
}

func as(kind, err error) error { return ofKind{err, kind} }

// Unwrap lets errors.Is find the kind and the cause.
func (e ofKind) Unwrap() []error { return []error{e.kind, e.error} }

// backend speaks for the agent as a whole at the HTTP API.
type backend struct{ a *Agent }

// Self implements httpapi.Process.
func (b backend) Self() api.Self {
	a := b.a
	self, _ := a.roster.member(a.id.id)
	f := a.engine.Figures()
	v := a.engine.View()
	t := v.Table
	stats := map[string]map[string]string{
		"sessions": {
			"owned": strconv.Itoa(f.Owned), "held": strconv.Itoa(f.Held), "bytes": strconv.FormatInt(f.Bytes, 10),
			"slots_open": strconv.Itoa(f.Open), "slots_closed": strconv.Itoa(f.Closed), "slots_filling": strconv.Itoa(f.Filling), "slots_short": strconv.Itoa(slotsShort(v)),
			"records_to_copy": strconv.Itoa(f.FillLeft), "records_copied": strconv.FormatUint(f.Filled, 10), "bytes_copied": strconv.FormatUint(f.FilledBytes, 10),
			"records_unsettled": strconv.Itoa(f.Unsettled), "clock_offset": f.Clock.String(),
			"writes_pending": strconv.Itoa(f.Pending), "detached": strconv.FormatBool(f.Detached),
			"writes": strconv.FormatUint(f.Writes, 10), "reads": strconv.FormatUint(f.Reads, 10),
		},
		"ring":   {"epoch": strconv.FormatUint(uint64(t.Epoch), 10), "leader": a.leaderName()},
		"raft":   a.raft.Stats(),
		"store":  a.storeStats(),
		"gossip": {"members": strconv.Itoa(len(a.roster.members())), "health_score": strconv.Itoa(a.gossip.HealthScore())},
	}
	if a.doors != nil {
		if shown := a.doors.secure.stats(); len(shown) > 0 {
			stats["certificates"] = shown
		}
	}
	return api.Self{Config: config.Masked(*a.cfg.Load()), Member: b.a.apiMember(self), Stats: stats}
}

// Unready implements httpapi.Process: why another member must not be restarted
// now.
func (b backend) Unready() []string {
	a := b.a
	v := a.engine.View()
	var why []string
	if a.control.leaderID() == "" {
		why = append(why, "there is no leader")
	}
	me := v.Table.ByID(a.id.id)
	if v.Self.Num == 0 || me == nil || me.State != ring.Up {
		return append(why, "the table does not name this run of the agent as up yet")
	}
	for _, m := range a.roster.members() {
		if m.Status != member.Alive || m.Witness {
			continue
		}
		if e := v.Table.ByID(m.ID); e == nil || e.Boot != m.Boot || e.State != ring.Up {
			why = append(why, fmt.Sprintf("member %s is alive, and not up in the table yet", m.Name))
		}
	}
	if w := a.storeUnready(me); w != "" {
		why = append(why, w)
	}
	short := slotsShort(v)
	if short > 0 {
		why = append(why, fmt.Sprintf("%d slots held here do not have all their copies yet", short))
	}
	return why
}

// slotsShort counts the slots that this member owns or is to hold, and that lack
// some of the copies they are to have.
func slotsShort(v *replicate.View) (n int) {
	for h := range ring.Slot(ring.Slots) {
		mine := v.Table.Slots[h].Owner == v.Self.Num || slices.Contains(v.Table.Want(h), v.Self.Num)
		if mine && v.Table.Short(h) {
			n++
		}
	}
	return n
}

// Unserving implements httpapi.Process: why this agent serves nothing.
func (b backend) Unserving() []string {
	if v := b.a.engine.View(); v.Table.Epoch == 0 {
		return []string{"this agent has no table yet: it has not found its cluster, or there is none"}
	}
	if b.a.leaving.Load() {
		return []string{"this agent is leaving the cluster"}
	}
	select {
	case <-b.a.ending:
		return []string{"this agent is stopping"}
	default:
		return nil
	}
}

// Leave implements httpapi.Process. Whoever asked may hang up; what has begun
// goes on, unless the agent is stopped.
func (b backend) Leave(ctx context.Context, force bool) error {
	return b.a.Leave(context.WithoutCancel(ctx), force)
}

// Reload implements httpapi.Process.
func (b backend) Reload(context.Context) (api.ReloadResult, error) {
	if b.a.reload == nil {
		return api.ReloadResult{}, as(httpapi.ErrConflict, errors.New("this agent was not started from a configuration"))
	}
	changed, restart, err := b.a.reload()
	if err != nil {
		return api.ReloadResult{}, as(httpapi.ErrInvalid, err)
	}
	return api.ReloadResult{Changed: changed, NeedsRestart: restart}, nil
}

// Configuration implements httpapi.Raft.
func (b backend) Configuration(ctx context.Context) (out api.RaftConfiguration, err error) {
	a := b.a
	list, index, _, err := a.raft.Servers(ctx)
	if err != nil {
		return out, as(httpapi.ErrUnavailable, fmt.Errorf("raft configuration: %w", err))
	}
	lead := a.control.leaderID()
	out.Index, out.Leader = max(index, a.raft.AppliedIndex()), a.leaderName()
	for _, s := range list {
		m, _ := a.roster.member(s.ID)
		r := api.RaftServer{ID: string(s.ID), Node: m.Name, Address: s.Addr, Voter: s.Voter, Leader: s.ID == lead, Status: m.Status.String()}
		out.Servers = append(out.Servers, r)
	}
	return out, nil
}

// leaderName returns the leader's name, "" where there is none now.
func (a *Agent) leaderName() string {
	m, ok := a.roster.member(a.control.leaderID())
	if !ok || !m.Here() {
		return ""
	}
	return m.Name
}

// apiMember is a member as the API shows it.
func (a *Agent) apiMember(m gossip.Member) api.Member {
	r, _ := a.services.catalog.Snapshot().Member(m.ID)
	out := api.Member{
		Name: m.Name, ID: string(m.ID), Addr: m.Addr.String(), Port: int(m.GossipPort), Status: m.Status.String(),
		Role: r.Role, Version: m.Version, Sessions: r.Sessions,
		Load: api.Load{CPU: r.Load.CPU, InFlight: r.Load.InFlight, RequestRate: r.Load.RequestRate},
		Tags: map[string]string{
			"rpc_port": strconv.Itoa(int(m.RPCPort)), "http_port": strconv.Itoa(int(m.HTTPPort)),
			"proxy_port": strconv.Itoa(int(m.ProxyPort)), "boot": m.Boot.String(),
		},
	}
	if e := a.engine.View().Table.ByID(m.ID); e != nil && m.Here() {
		out.Draining = e.Drain
	}
	if m.ID == a.id.id {
		out.Role = a.role()
	}
	switch {
	case !m.Here():
		out.Role, out.Load, out.Sessions = "", api.Load{}, 0
	case out.Role == "":
		out.Role = "nonvoter"
	case out.Role == "leader" && m.ID != a.control.leaderID() && a.control.leaderID() != "":
		out.Role = "voter" // it led when it last told
	}
	if m.Here() && m.ID == a.control.leaderID() {
		out.Role = "leader"
	}
	return out
}

type membersBackend struct{ a *Agent }

// Watch implements httpapi.Watcher.
func (b membersBackend) Watch() (uint64, <-chan struct{}) { return b.a.roster.watchIndex() }

// Members implements httpapi.Members.
func (b membersBackend) Members() []api.Member {
	var out []api.Member
	for _, m := range b.a.roster.members() {
		out = append(out, b.a.apiMember(m))
	}
	return out
}

// Join implements httpapi.Members.
func (b membersBackend) Join(ctx context.Context, addr string) error {
	n, err := b.a.gossip.Join(ctx, []string{addr})
	if errors.Is(err, gossip.ErrAddress) {
		return as(httpapi.ErrInvalid, err)
	}
	if n == 0 {
		return as(httpapi.ErrUnavailable, err)
	}
	return nil
}

// ForceLeave implements httpapi.Members.
func (b membersBackend) ForceLeave(_ context.Context, name string, prune bool) error {
	err := b.a.gossip.ForceLeave(name, prune)
	switch {
	case errors.Is(err, gossip.ErrUnknownMember):
		return as(httpapi.ErrNotFound, err)
	case errors.Is(err, gossip.ErrStillHere):
		return as(httpapi.ErrConflict, err)
	}
	return err
}

func encodeKey(k []byte) string { return base64.StdEncoding.EncodeToString(k) }

// publishMetrics makes the figures known that parts keep themselves.
func (a *Agent) publishMetrics() error {
	w := a.transport
	s := telemetry.Sources{
		SessionsOwned:  func() int { return a.engine.Figures().Owned },
		SessionsHeld:   func() int { return a.engine.Figures().Held },
		SessionBytes:   func() int64 { return a.engine.Figures().Bytes },
		Divergence:     func() uint64 { return a.engine.Figures().Divergence },
		MergeConflicts: func() uint64 { return a.engine.Figures().MergeConflicts },
		Takeovers:      func() uint64 { return a.engine.Figures().Takeovers },
		Expired:        func() uint64 { return a.engine.Figures().Expired },
		Evicted:        func() uint64 { return a.engine.Figures().Evicted },
		Degraded:       func() uint64 { return a.engine.Figures().Degraded },
		Repaired:       func() uint64 { return a.engine.Figures().Repaired },
		SlotsShort:     func() int { return slotsShort(a.engine.View()) },
		SlotsFilling:   func() int { return a.engine.Figures().Filling },
		FillLeft:       func() int { return a.engine.Figures().FillLeft },
		Filled:         func() uint64 { return a.engine.Figures().Filled },
		FilledBytes:    func() uint64 { return a.engine.Figures().FilledBytes },
		ClockOffset:    func() time.Duration { return a.engine.Figures().Clock },
		RingEpoch:      func() uint64 { return uint64(a.engine.View().Table.Epoch) },
		Members: func() map[string]int {
			out := map[string]int{}
			for _, m := range a.roster.members() {
				out[m.Status.String()]++
			}
			return out
		},
		GossipHealth:      a.gossip.HealthScore,
		Leader:            a.leader.Leading,
		MessagesDropped:   func() uint64 { return w.Stats().Dropped },
		PeersUnreachable:  func() uint64 { return w.Stats().Unreachable },
		ConnectionsBroken: func() uint64 { return w.Stats().Broken },
		ConnectionsTurned: func() uint64 { return w.Stats().Turned },
	}
	if a.store != nil {
		s.StoreWhole = func() bool { return a.store.State().Whole }
		s.StoreBytes = func() int64 { return a.store.State().Bytes }
	}
	if a.doors != nil {
		s.Certificates = a.doors.secure.ends
		a.proxyFigures(&s)
	}
	return a.metrics.Watch(s)
}
