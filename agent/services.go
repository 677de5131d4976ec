package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/catalog"
	"github.com/rondel-project/rondel/agent/check"
	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/gossip"
	"github.com/rondel-project/rondel/agent/load"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/proxyproto"
)

// services is this agent's instances with their checks, and all members' as
// gossip brings them.
type services struct {
	log     hclog.Logger
	self    member.ID
	address func() string // where the instances are reached that name no address
	catalog *catalog.Catalog
	local   *catalog.Local
	checks  *check.Runner
	load    *load.Sampler
	gossip  *gossip.Gossip // set before anything is published

	mu        sync.Mutex // guards the rest
	told      map[string][]byte
	withdrawn bool // nothing about instances is told any more
}

func (a *Agent) buildServices(cfg config.Runtime, log hclog.Logger) (err error) {
	s := &services{
		log: log.Named("services"), self: a.id.id, catalog: catalog.New(), told: map[string][]byte{},
		address: func() string { return a.gossip.Self().Addr.String() },
	}
	a.services = s
	s.checks = check.NewRunner(func(c check.State) {
		if s.local.SetCheck(c.Instance, c.Index, catalog.Health(c.Status), c.Reason) {
			s.log.Info("health of instance changed", "instance", c.Instance, "check", c.Index, "status", string(c.Status), "reason", c.Reason)
		}
	})
	s.local, err = catalog.OpenLocal(catalog.LocalOptions{
		Dir: cfg.Node.DataDir, Publisher: s,
		Validate: func(r catalog.Registration) error {
			_, err := s.specs(r)
			return err
		},
		OnInstance: func(r catalog.Registration, gone bool) { s.setChecks(r, gone) },
	})
	if err != nil {
		return err
	}
	s.load = load.NewSampler(a.proxyCounters, nil, func(err error) {
		if err != nil {
			s.log.Warn("processor load cannot be read", "error", err)
		}
	})
	return nil
}

// SetLocal implements catalog.Publisher: the other members' way to know, and
// this agent's own.
func (s *services) SetLocal(key string, value []byte) {
	s.mu.Lock()
	s.told[key] = value
	if !s.withdrawn || key == catalog.MemberKey {
		s.gossip.SetLocal(key, value)
	}
	s.mu.Unlock()
	s.onRecord(s.self, key, value)
}

// DeleteLocal implements catalog.Publisher.
func (s *services) DeleteLocal(key string) {
	s.mu.Lock()
	delete(s.told, key)
	s.gossip.DeleteLocal(key)
	s.mu.Unlock()
	s.onRecord(s.self, key, nil)
}

// withdraw makes the other members forget the instances here, as before their
// agent ends.
func (s *services) withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withdrawn = true
	for key := range s.told {
		if key != catalog.MemberKey {
			s.gossip.DeleteLocal(key)
		}
	}
}

// restore takes withdraw back.
func (s *services) restore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withdrawn = false
	for key, value := range s.told {
		s.gossip.SetLocal(key, value)
	}
}

func (s *services) onRecord(id member.ID, key string, value []byte) {
	if err := s.catalog.SetRecord(id, key, value); err != nil {
		s.log.Warn("record of a member refused", "member", id, "error", err)
	}
}

// specs returns the registration's checks as the runner takes them.
func (s *services) specs(r catalog.Registration) ([]check.Spec, error) {
	addr := r.Address
	if addr == "" {
		addr = s.address()
	}
	target := catalog.Instance{Address: addr, Port: r.Port}.Addr()
	specs := make([]check.Spec, 0, len(r.Checks))
	// The agent asks for itself, and says so where a client would be named.
	preface := ""
	switch r.SendProxy {
	case "v1":
		preface = string(proxyproto.V1.Append(nil, proxyproto.Header{Local: true}))
	case "v2":
		preface = string(proxyproto.V2.Append(nil, proxyproto.Header{Local: true}))
	}
	var errs []error
	for i, c := range r.Checks {
		spec, err := check.Spec{
			HTTP: c.HTTP, TCP: c.TCP, TTL: time.Duration(c.TTL), Preface: preface, Protocol: r.Protocol,
			Method: c.Method, Host: c.Host, Scheme: c.Scheme, Status: check.Statuses(c.Status), Warning: check.Statuses(c.Warning),
			Contains: c.Contains, BodyLimit: c.BodyLimit,
			Interval: time.Duration(c.Interval), Timeout: time.Duration(c.Timeout), Rise: c.Rise, Fall: c.Fall,
		}.Normalize(target)
		if err != nil {
			errs = append(errs, fmt.Errorf("check %d: %w", i+1, err))
		}
		specs = append(specs, spec)
	}
	return specs, errors.Join(errs...)
}

func (s *services) setChecks(r catalog.Registration, gone bool) {
	if gone {
		s.checks.Remove(r.ID)
		return
	}
	specs, err := s.specs(r)
	if err != nil {
		s.log.Error("checks of an instance cannot be run", "instance", r.ID, "error", err)
		return
	}
	s.checks.Set(r.ID, specs)
	for _, c := range s.checks.States(r.ID) {
		s.local.SetCheck(r.ID, c.Index, catalog.Health(c.Status), c.Reason)
	}
}

// configured returns the instances that the configuration names.
func configured(cfg config.Runtime) []catalog.Registration {
	var out []catalog.Registration
	for _, s := range cfg.Services {
		weight := s.Weight
		r := catalog.Registration{ID: s.ID, Name: s.Name, Address: s.Address, Port: s.Port, Weight: &weight, Backup: s.Backup, Tags: s.Tags,
			Protocol: s.Protocol, SendProxy: s.SendProxy, MaxConnections: s.MaxConnections, SlowStart: catalog.Duration(s.SlowStart)}
		for _, c := range s.Checks {
			r.Checks = append(r.Checks, catalog.Check{
				HTTP: c.HTTP, TCP: c.TCP, TTL: catalog.Duration(c.TTL),
				Interval: catalog.Duration(c.Interval), Timeout: catalog.Duration(c.Timeout),
				Method: c.Method, Host: c.Host, Scheme: c.Scheme, Status: c.Status, Warning: c.Warning,
				Contains: c.Contains, BodyLimit: c.BodyLimit, Rise: c.Rise, Fall: c.Fall,
			})
		}
		out = append(out, r)
	}
	return out
}

// start publishes the instances.
func (s *services) start(cfg config.Runtime) error {
	s.local.Start()
	if err := s.local.SetConfigured(configured(cfg)); err != nil {
		return fmt.Errorf("services of the configuration: %w", err)
	}
	return nil
}

const publishEvery = time.Second

// worthTelling reports whether others who know one record should get the next:
// a load that hardly differs is not worth it, anything else is.
func worthTelling(told, next catalog.MemberRecord) bool {
	if !load.Differs(told.Load, next.Load) {
		next.Load = told.Load
	}
	return next != told || told.Role == ""
}

// publish tells the others every now and then how this member fares.
func (s *services) publish(ctx context.Context, now func() catalog.MemberRecord) error {
	t := time.NewTicker(publishEvery)
	defer t.Stop()
	var told catalog.MemberRecord
	for {
		if r := now(); worthTelling(told, r) {
			told = r
			s.SetLocal(catalog.MemberKey, r.Encode())
		}
		for _, id := range s.local.Expire(time.Now()) {
			s.log.Info("drain is over, clients of the instance are moved", "instance", id)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}
