package agent

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rondel-project/rondel/agent/catalog"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/proxy"
	"github.com/rondel-project/rondel/agent/replicate"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// proxySessions is what the proxy asks about session ids.
type proxySessions struct{ engine *replicate.Engine }

// Mint implements proxy.Sessions.
func (s proxySessions) Mint(m member.ID) (string, bool) {
	id, ok := s.engine.View().Mint(m, time.Now())
	return string(id), ok
}

// Parse implements proxy.Sessions.
func (s proxySessions) Parse(id string) (uint16, time.Time, error) {
	p, err := s.engine.View().Keys.Parse(id)
	switch {
	case errors.Is(err, session.ErrUnknownKey):
		return 0, time.Time{}, proxy.ErrUnknownKey
	case err != nil:
		return 0, time.Time{}, proxy.ErrForeign
	}
	return uint16(p.Slot), p.Issued, nil
}

// Locate implements proxy.Sessions.
func (s proxySessions) Locate(slot uint16) (member.ID, []member.ID, time.Duration) {
	if slot >= ring.Slots {
		return "", nil, 0
	}
	return s.engine.View().Locate(ring.Slot(slot), time.Now())
}

// Exists implements proxy.Sessions.
func (s proxySessions) Exists(ctx context.Context, id string) (exists, known bool) {
	return s.engine.Exists(ctx, session.ID(id))
}

// Ended implements proxy.Sessions.
func (s proxySessions) Ended(ctx context.Context, id string) bool {
	return s.engine.Ended(ctx, session.ID(id))
}

// Touch implements proxy.Sessions.
func (s proxySessions) Touch(id string) { s.engine.Touch(session.ID(id)) }

// feed keeps the proxy's knowledge of instances, of the table and of the route
// that a lone service gets.
type feed struct {
	mu       sync.Mutex // guards all
	fallback string
	tagKey   []byte
	position int
	sealed   []ring.Key // the keys that tokens are sealed with, as the proxy has them
}

// feedTable tells the proxy what it needs of the table.
func (a *Agent) feedTable(t *ring.Table) {
	if a.doors == nil || a.doors.proxy == nil {
		return
	}
	f := &a.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(t.Keys) > 0 {
		// Of the first key, since tags shall outlive a rotation.
		key, err := hkdf.Key(sha256.New, t.Keys[0].Secret[:], nil, "rondel cookie tag", 32)
		if err == nil && !slices.Equal(key, f.tagKey) {
			f.tagKey = key
			a.doors.proxy.SetTagKey(key)
		}
		a.feedTokenKeys(t.Keys)
	}
	if m := t.ByID(a.id.id); m != nil {
		if at := t.Position(m.Num); at >= 0 && at != f.position {
			f.position = at
			a.doors.proxy.SetPosition(at)
		}
	}
}

// feedInstances tells the proxy of each change of the catalog, and of who
// drains.
func (a *Agent) feedInstances(ctx context.Context) error {
	var told *catalog.Snapshot
	var away map[member.ID]bool
	var places map[member.ID]proxy.Place
	for {
		changed := a.services.catalog.Changed()
		_, table := ringBackend{a}.Watch()
		_, members := a.roster.watchIndex()
		if p := a.places(); !maps.Equal(p, places) {
			places = p
			a.doors.proxy.SetPlaces(a.id.id, p)
		}
		s, now := a.services.catalog.Snapshot(), draining(a.engine.View().Table)
		if s != told || !maps.Equal(now, away) {
			told, away = s, now
			a.setInstances(s, away)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-members:
		case <-table:
		}
	}
}

// draining returns the members that take no new sessions, and so no new clients.
func draining(t *ring.Table) map[member.ID]bool {
	out := make(map[member.ID]bool)
	for i := range t.Members {
		if m := &t.Members[i]; m.Drain || m.State == ring.Leaving {
			out[m.ID] = true
		}
	}
	return out
}

func (a *Agent) setInstances(s *catalog.Snapshot, away map[member.ID]bool) {
	var list []proxy.Instance
	services := s.Services()
	for _, svc := range services {
		instances := s.Instances(svc.Name)
		leaves := leaving(instances, away)
		for _, i := range instances {
			list = append(list, proxy.Instance{
				Service: i.Name, ID: i.ID, Member: i.Member, Addr: i.Addr(), Weight: i.Weight, Backup: i.Backup,
				Protocol: i.Protocol, SendProxy: i.SendProxy, MaxConnections: i.MaxConnections, SlowStart: i.SlowStart,
				Health: proxyHealth(i), Maintenance: i.Maintenance || i.Moved, Draining: i.Draining || leaves(i),
				Local: i.Member == a.id.id, Load: i.Load, Machine: machine(s, i),
			})
		}
	}
	a.doors.proxy.SetInstances(list)
	a.chooseFallback(services)
}

// leaving tells which of a service's instances get no new clients because their
// member drains. Where all of the service is beside agents that drain, that is
// still better for a new client than nothing; and no backup is elsewhere for any
// but another backup, since it waits as long as one of the others is healthy.
func leaving(instances []catalog.Instance, away map[member.ID]bool) func(catalog.Instance) bool {
	var elsewhere, backup bool
	for _, i := range instances {
		if !away[i.Member] && i.Weight > 0 && !i.Draining && !i.Maintenance && i.Health != catalog.Critical {
			elsewhere, backup = elsewhere || !i.Backup, backup || i.Backup
		}
	}
	return func(i catalog.Instance) bool { return away[i.Member] && (elsewhere || i.Backup && backup) }
}

// machine is the load of the instance's machine, where that is its member's.
func machine(s *catalog.Snapshot, i catalog.Instance) float64 {
	if !i.Beside {
		return 0
	}
	m, _ := s.Member(i.Member)
	return m.Load.CPU
}

func proxyHealth(i catalog.Instance) proxy.Health {
	switch i.Health {
	case catalog.Passing:
		return proxy.Passing
	case catalog.Warning:
		return proxy.Warning
	}
	return proxy.Critical
}

// chooseFallback gives a lone service the route that matches everything. It
// stays with it as long as the service is there, or nothing is: a second one
// that is registered does not take the first one's users away, and they are
// told to come again, not that nothing is here, while it restarts.
func (a *Agent) chooseFallback(services []catalog.Service) {
	f := &a.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	cfg := *a.cfg.Load()
	there := func(name string) bool {
		return slices.ContainsFunc(services, func(s catalog.Service) bool { return s.Name == name })
	}
	next := f.fallback
	if len(services) > 0 && !there(next) {
		next = ""
		if len(services) == 1 {
			next = services[0].Name
		}
	}
	if next == f.fallback {
		return
	}
	f.fallback = next
	if len(cfg.Routes) > 0 {
		return // it counts once they are taken out
	}
	if err := a.doors.proxy.Reload(proxyConfig(cfg, next)); err != nil {
		a.log.Error("route of a lone service refused", "service", next, "error", err)
		return
	}
	if next != "" {
		a.log.Info("all requests go to the only service, no route is configured", "service", next)
	}
}

// proxyCounters is what the proxy has to do, for the load that gossip tells.
func (a *Agent) proxyCounters() (inFlight int, requests uint64) {
	if a.doors == nil || a.doors.proxy == nil {
		return 0, 0
	}
	t := a.doors.proxy.Totals()
	return int(t.InFlight), t.Requests
}
