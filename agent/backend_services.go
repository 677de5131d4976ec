package agent

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rondel-project/rondel/agent/catalog"
	"github.com/rondel-project/rondel/agent/check"
	"github.com/rondel-project/rondel/agent/httpapi"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/proxy"
	"github.com/rondel-project/rondel/api"
)

type servicesBackend struct{ a *Agent }

// wrapped gives the catalog's errors the kind that the API answers by.
func wrapped(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, catalog.ErrInvalid):
		return as(httpapi.ErrInvalid, err)
	case errors.Is(err, catalog.ErrUnknownInstance), errors.Is(err, check.ErrUnknownCheck):
		return as(httpapi.ErrNotFound, err)
	case errors.Is(err, catalog.ErrConfigured):
		return as(httpapi.ErrConflict, err)
	}
	return err
}

const checkPrefix = "service:"

// checkID names a check: service:INSTANCE, from the second on with its number.
func checkID(instance string, index int) string {
	if index == 0 {
		return checkPrefix + instance
	}
	return fmt.Sprintf("%s%s:%d", checkPrefix, instance, index+1)
}

// Services implements httpapi.Services.
func (b servicesBackend) Services() []api.Service {
	s := b.a.services
	var out []api.Service
	for _, i := range s.local.Instances() {
		reg, _, err := s.local.Registration(i.ID)
		if err != nil {
			continue // gone meanwhile
		}
		v := api.Service{
			ID: i.ID, Name: i.Name, Address: i.Address, Port: i.Port, Weight: i.Weight, Backup: i.Backup, Tags: orEmpty(i.Tags),
			Protocol: i.Protocol, SendProxy: i.SendProxy, MaxConnections: i.MaxConnections, SlowStart: api.Duration(i.SlowStart),
			Health: string(i.Health), Maintenance: i.Maintenance, Drain: i.Draining, Load: i.Load, Checks: []api.CheckStatus{},
		}
		v.DrainUntil, v.Reason = i.Drain.Until, i.Drain.Reason
		if i.Maintenance {
			v.Reason = i.Reason
		}
		if v.Address == "" {
			v.Address = s.address()
		}
		for k, c := range i.Checks {
			cs := api.CheckStatus{Status: string(c.Health), Output: c.Reason, Since: c.Since}
			cs.ID = checkID(i.ID, k)
			if k < len(reg.Checks) {
				r := reg.Checks[k]
				cs.HTTP, cs.TCP, cs.TTL = r.HTTP, r.TCP, api.Duration(r.TTL)
				cs.Interval, cs.Timeout = api.Duration(r.Interval), api.Duration(r.Timeout)
				cs.Method, cs.Host, cs.Scheme, cs.Healthy, cs.Warning = r.Method, r.Host, r.Scheme, r.Status, r.Warning
				cs.Contains, cs.BodyLimit, cs.Rise, cs.Fall = r.Contains, r.BodyLimit, r.Rise, r.Fall
			}
			v.Checks = append(v.Checks, cs)
		}
		out = append(out, v)
	}
	return out
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// Register implements httpapi.Services.
func (b servicesBackend) Register(r api.ServiceRegistration) error {
	reg := catalog.Registration{ID: r.ID, Name: r.Name, Address: r.Address, Port: r.Port, Backup: r.Backup, Tags: r.Tags,
		Protocol: r.Protocol, SendProxy: r.SendProxy, MaxConnections: r.MaxConnections, SlowStart: catalog.Duration(r.SlowStart)}
	if reg.ID == "" && r.Port > 0 {
		reg.ID = fmt.Sprintf("%s:%d", r.Name, r.Port)
	}
	reg.Weight = r.Weight
	for _, c := range r.Checks {
		reg.Checks = append(reg.Checks, catalog.Check{
			HTTP: c.HTTP, TCP: c.TCP, TTL: catalog.Duration(c.TTL),
			Interval: catalog.Duration(c.Interval), Timeout: catalog.Duration(c.Timeout),
			Method: c.Method, Host: c.Host, Scheme: c.Scheme, Status: c.Healthy, Warning: c.Warning,
			Contains: c.Contains, BodyLimit: c.BodyLimit, Rise: c.Rise, Fall: c.Fall,
		})
	}
	return wrapped(b.a.services.local.Register(reg))
}

// Deregister implements httpapi.Services.
func (b servicesBackend) Deregister(id string) error {
	return wrapped(b.a.services.local.Deregister(id))
}

// SetMaintenance implements httpapi.Services.
func (b servicesBackend) SetMaintenance(id string, m httpapi.Maintenance) error {
	if m.Drain {
		var d *catalog.Drain
		if m.Enable {
			d = &catalog.Drain{Reason: m.Reason}
			if m.Deadline > 0 {
				d.Until = time.Now().Add(m.Deadline)
			}
		}
		return wrapped(b.a.services.local.SetDrain(id, d))
	}
	return wrapped(b.a.services.local.SetMaintenance(id, m.Enable, m.Reason))
}

// SetWeight implements httpapi.Services.
func (b servicesBackend) SetWeight(id string, weight int) error {
	return wrapped(b.a.services.local.SetWeight(id, weight))
}

// ReportLoad implements httpapi.Services.
func (b servicesBackend) ReportLoad(id string, load float64) error {
	return wrapped(b.a.services.local.SetLoad(id, load))
}

// Report implements httpapi.Checks: the id is the instance's, or the check's.
func (b servicesBackend) Report(id, status, note string) error {
	instance := strings.TrimPrefix(id, checkPrefix)
	err := b.a.services.checks.Beat(instance, check.Status(status), note)
	if errors.Is(err, check.ErrUnknownCheck) {
		if i := strings.LastIndexByte(instance, ':'); i > 0 {
			if b.a.services.checks.Beat(instance[:i], check.Status(status), note) == nil {
				return nil
			}
		}
	}
	return wrapped(err)
}

type catalogBackend struct{ a *Agent }

// Watch implements httpapi.Watcher.
func (b catalogBackend) Watch() (uint64, <-chan struct{}) {
	changed := b.a.services.catalog.Changed()
	return b.a.services.catalog.Snapshot().Index, changed
}

// reasonOf says why the instance has not its whole part in the traffic.
func reasonOf(i catalog.Instance) string {
	switch {
	case i.Reason != "":
		return i.Reason
	case i.Moved:
		return cmp.Or(i.Drain.Reason, "drained")
	}
	return i.Drain.Reason
}

// Instances implements httpapi.Catalog.
func (b catalogBackend) Instances() []api.CatalogInstance {
	type key struct {
		member member.ID
		id     string
	}
	counts := map[key]proxy.Counters{}
	if b.a.doors != nil {
		for _, c := range b.a.doors.proxy.Counters() {
			counts[key{c.Member, c.ID}] = c
		}
	}
	var out []api.CatalogInstance
	s := b.a.services.catalog.Snapshot()
	for _, svc := range s.Services() {
		for _, i := range s.Instances(svc.Name) {
			n := counts[key{i.Member, i.ID}]
			out = append(out, api.CatalogInstance{
				ID: i.ID, Name: i.Name, Member: i.MemberName, Address: i.Address, Port: i.Port, Weight: i.Weight,
				Protocol: i.Protocol, MaxConnections: i.MaxConnections,
				Backup: i.Backup, Tags: orEmpty(i.Tags), Health: string(i.Health), Maintenance: i.Maintenance,
				Drain: i.Draining, Load: i.Load, InFlight: int(n.InFlight), NewSessions: n.NewSessions,
				Reason: reasonOf(i), DrainUntil: i.Drain.Until, Queued: n.Queued, Failures: n.Failures, EjectedUntil: n.Ejected,
			})
		}
	}
	return out
}
