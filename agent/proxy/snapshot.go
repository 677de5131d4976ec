package proxy

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/rondel-project/rondel/agent/member"
)

// snapshot is all that a request is decided by. It never changes.
type snapshot struct {
	cfg    Config
	exact  map[string][]*route // by host; longest path first
	suffix []hostRoutes        // by what follows "*", longest first
	any    []*route
	tags   map[string]string // of all usable instances: the service of each
}

type hostRoutes struct {
	suffix string
	routes []*route
}

// route is a Route with its service's instances sorted into who may get what.
type route struct {
	Route
	turn     *turn
	group    *group
	observer Observer

	active   []*instance // new clients go to these
	byMember map[member.ID][]*instance
	spare    [][]*instance // healthy, but not while an active one or one of a list before can be reached
	bound    map[string]*instance

	// Of a route that redirects.
	bases   map[member.ID]string   // where each member is reached
	self    member.ID              // whose proxy this is
	own     []byte                 // its address as a Host field has it
	limited map[*backend]*instance // those new clients may wait for
	reserve map[*backend]*instance // and where none of the active can be used now: these and all spare ones
	plan    plan                   // of active
	owners  *ownership             // of active
	about   string                 // why nobody takes new clients, if so
}

// turn is a route's place in its round, and who observes it. It outlives
// snapshots, or every change of health would begin the round anew.
type turn struct {
	observer Observer
	next     atomic.Uint64
	_        [56]byte // what follows is on another cache line

	waiting atomic.Int32 // requests in line
	queued  atomic.Int32 // those among them that take any instance

	owners *ownership // of the latest snapshot; guarded by the proxy's mu
}

// build sorts routes and instances. The order of instances is by member and
// id, the same on all agents.
func build(cfg Config, instances []*instance, turns map[string]*turn, groups map[string]*group) *snapshot {
	s := &snapshot{cfg: cfg, exact: map[string][]*route{}, tags: map[string]string{}}
	byService := map[string][]*instance{}
	for _, i := range instances {
		byService[i.Service] = append(byService[i.Service], i)
		if i.usable() && i.tag != "" {
			s.tags[i.tag] = i.Service
		}
	}
	for _, list := range byService {
		slices.SortFunc(list, func(a, b *instance) int {
			return cmp.Or(cmp.Compare(a.Member, b.Member), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Addr, b.Addr))
		})
	}
	suffixes := map[string][]*route{}
	for _, r := range cfg.Routes {
		t := turns[r.Name]
		rt := &route{Route: r, turn: t, group: groups[r.Service], observer: t.observer}
		rt.settle(&s.cfg)
		rt.sort(byService[r.Service])
		rt.prepare()
		host := strings.ToLower(r.Host)
		switch {
		case host == "" || host == "*":
			s.any = append(s.any, rt)
		case strings.HasPrefix(host, "*."):
			suffixes[host[1:]] = append(suffixes[host[1:]], rt)
		default:
			s.exact[host] = append(s.exact[host], rt)
		}
	}
	byLength := func(a, b *route) int { return cmp.Compare(len(b.Path), len(a.Path)) }
	slices.SortStableFunc(s.any, byLength)
	for _, l := range s.exact {
		slices.SortStableFunc(l, byLength)
	}
	for suffix, l := range suffixes {
		slices.SortStableFunc(l, byLength)
		s.suffix = append(s.suffix, hostRoutes{suffix, l})
	}
	slices.SortFunc(s.suffix, func(a, b hostRoutes) int {
		return cmp.Or(cmp.Compare(len(b.suffix), len(a.suffix)), cmp.Compare(a.suffix, b.suffix))
	})
	return s
}

// sort puts a service's instances in tiers. The first tier that has an open
// instance is active; backups get nothing, bound clients included, while any
// other instance is healthy.
func (rt *route) sort(all []*instance) {
	tier := func(i *instance) int {
		t := 0
		if i.Backup {
			t = 2
		}
		if rt.Local && !i.Local {
			t++
		}
		return t
	}
	var tiers, waiting [4][]*instance
	primary := false
	for _, i := range all {
		if i.usable() && !i.Backup {
			primary = true
		}
		if i.open() {
			tiers[tier(i)] = append(tiers[tier(i)], i)
		}
	}
	if primary { // draining or weightless ones are healthy: backups keep waiting
		for _, t := range []int{2, 3} {
			waiting[t], tiers[t] = tiers[t], nil
		}
	}
	for n, t := range tiers {
		switch {
		case rt.active == nil:
			rt.active = t
		case t != nil:
			waiting[n] = t
		}
	}
	if rt.active == nil { // backups do not step in for a drain
		rt.about, waiting = why(all), [4][]*instance{}
	}
	for _, t := range waiting {
		if len(t) > 0 {
			rt.spare = append(rt.spare, t)
		}
	}
	rt.byMember = map[member.ID][]*instance{}
	for _, i := range rt.active {
		rt.byMember[i.Member] = append(rt.byMember[i.Member], i)
	}
	rt.bound = map[string]*instance{}
	for _, i := range all {
		if i.usable() && i.tag != "" && !(i.Backup && primary) {
			rt.bound[i.tag] = i
		}
	}
}

// why says what keeps new clients from all of these.
func why(all []*instance) string {
	var zero, draining, maintenance int
	for _, i := range all {
		switch {
		case i.Maintenance:
			maintenance++
		case i.Health == Critical:
		case i.Draining:
			draining++
		case i.Weight == 0:
			zero++
		}
	}
	switch {
	case len(all) == 0:
		return "the service has no instances"
	case zero == len(all):
		return "every instance of the service has weight 0: none takes new clients"
	case zero+draining == len(all):
		return "every instance of the service drains or has weight 0: none takes new clients"
	case maintenance == len(all):
		return "every instance of the service is in maintenance"
	case zero+draining == 0:
		return "no instance of the service is healthy"
	}
	return "no instance of the service is healthy and takes new clients"
}

// prepare works out what choosing would cost each request anew.
func (rt *route) prepare() {
	if len(rt.active) > 0 {
		switch {
		case rt.Balance == Hash:
			rt.owners = newOwnership(rt.active, rt.turn.owners)
			if rt.HashFallback == WeightedRoundRobin || rt.HashFallback == Random {
				rt.plan = *newPlan(rt.active)
			}
		case rt.Balance == WeightedRoundRobin || rt.Balance == Random:
			rt.plan = *newPlan(rt.active)
		}
	}
	rt.turn.owners = rt.owners
	for _, i := range rt.active {
		if i.MaxConnections > 0 {
			if rt.limited == nil {
				rt.limited = map[*backend]*instance{}
			}
			rt.limited[i.backend] = i
		}
	}
	for _, list := range rt.spare {
		if slices.ContainsFunc(list, func(i *instance) bool { return i.MaxConnections > 0 }) && rt.reserve == nil {
			rt.reserve = map[*backend]*instance{}
			for _, l := range append(rt.spare, rt.active) {
				for _, i := range l {
					rt.reserve[i.backend] = i
				}
			}
		}
	}
}

// closed says why no instance takes the request.
func (rt *route) closed() string {
	if rt.about == "" {
		return "no instance is available"
	}
	return rt.about
}

// match finds the route of a request: the host exactly, by its longest suffix,
// or any; within it the longest path prefix that has whole segments.
func (s *snapshot) match(host, path []byte) *route {
	name := hostname(host)
	if len(s.exact) > 0 {
		if rt := longest(s.exact[string(name)], path); rt != nil {
			return rt
		}
	}
	for i := range s.suffix {
		h := &s.suffix[i]
		if len(name) > len(h.suffix) && string(name[len(name)-len(h.suffix):]) == h.suffix {
			if rt := longest(h.routes, path); rt != nil {
				return rt
			}
		}
	}
	return longest(s.any, path)
}

func longest(routes []*route, path []byte) *route {
	for _, rt := range routes {
		p := rt.Path
		if p == "" || p == "/" {
			return rt
		}
		if len(path) < len(p) || string(path[:len(p)]) != p {
			continue
		}
		if len(path) == len(p) || p[len(p)-1] == '/' || path[len(p)] == '/' {
			return rt
		}
	}
	return nil
}

// hostname returns the host without port and final dot, in lower case. It
// allocates only for hosts that have capitals.
func hostname(host []byte) []byte {
	for i := len(host) - 1; i >= 0; i-- {
		if host[i] == ':' {
			host = host[:i]
			break
		}
		if host[i] == ']' {
			break
		}
	}
	if n := len(host); n > 1 && host[n-1] == '.' {
		host = host[:n-1]
	}
	for i, b := range host {
		if b >= 'A' && b <= 'Z' {
			low := append([]byte(nil), host...)
			for j := i; j < len(low); j++ {
				if low[j] >= 'A' && low[j] <= 'Z' {
					low[j] |= 0x20
				}
			}
			return low
		}
	}
	return host
}
