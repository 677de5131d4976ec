package catalog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rondel-project/rondel/agent/member"
)

// Catalog is what is known of all members' instances. Its methods may be used
// from any goroutine.
type Catalog struct {
	current atomic.Pointer[Snapshot]
	stale   atomic.Bool

	mu      sync.Mutex
	index   uint64
	changed chan struct{} // closed at the next change
	members map[member.ID]*known
	dirty   map[string]struct{} // services to be built anew
}

type known struct {
	name, addr string
	status     member.Status
	record     MemberRecord
	instances  map[string]Instance // by record key
}

// Snapshot is the catalog at one moment. It never changes; neither must what
// it returns be changed.
type Snapshot struct {
	Index    uint64
	services map[string][]Instance
	members  map[member.ID]MemberRecord
}

// New returns an empty catalog.
func New() *Catalog {
	c := &Catalog{changed: make(chan struct{}), members: map[member.ID]*known{}, dirty: map[string]struct{}{}}
	c.current.Store(&Snapshot{services: map[string][]Instance{}, members: map[member.ID]MemberRecord{}})
	return c
}

func (c *Catalog) memberLocked(id member.ID) *known {
	k := c.members[id]
	if k == nil {
		k = &known{instances: map[string]Instance{}}
		c.members[id] = k
	}
	return k
}

func (c *Catalog) touchLocked(services ...string) {
	for _, s := range services {
		c.dirty[s] = struct{}{}
	}
	c.index++
	c.stale.Store(true)
	close(c.changed)
	c.changed = make(chan struct{})
}

func (k *known) services() []string {
	var out []string
	for _, i := range k.instances {
		out = append(out, i.Name)
	}
	return out
}

// SetMember says where a member is and how it is.
func (c *Catalog) SetMember(id member.ID, name, addr string, status member.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.memberLocked(id)
	if k.name == name && k.addr == addr && k.status == status {
		return
	}
	k.name, k.addr, k.status = name, addr, status
	c.touchLocked(k.services()...)
}

// RemoveMember forgets a member and its instances.
func (c *Catalog) RemoveMember(id member.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.members[id]; k != nil {
		delete(c.members, id)
		c.touchLocked(k.services()...)
	}
}

// SetRecord takes in a record of a member; a nil value removes it. Records of
// kinds that are not known are ignored, a malformed one is ErrMalformed and
// counts as absent.
func (c *Catalog) SetRecord(id member.ID, key string, value []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case key == MemberKey:
		return c.setMemberRecordLocked(id, value)
	case strings.HasPrefix(key, instancePrefix):
		return c.setInstanceLocked(id, key, value)
	}
	return nil
}

func (c *Catalog) setMemberRecordLocked(id member.ID, value []byte) error {
	var m MemberRecord
	var err error
	if value != nil {
		m, err = DecodeMember(value)
	}
	k := c.memberLocked(id)
	if k.record != m {
		k.record = m
		c.touchLocked()
	}
	return err
}

func (c *Catalog) setInstanceLocked(id member.ID, key string, value []byte) error {
	k := c.memberLocked(id)
	if old, ok := k.instances[key]; ok {
		delete(k.instances, key)
		c.touchLocked(old.Name)
	}
	if value == nil {
		return nil
	}
	i, err := decodeInstance(value)
	if err != nil {
		return err
	}
	i.Member = id
	k.instances[key] = i
	c.touchLocked(i.Name)
	return nil
}

// Snapshot returns the catalog as it is now.
func (c *Catalog) Snapshot() *Snapshot {
	if !c.stale.Load() {
		return c.current.Load()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.current.Load()
	if !c.stale.Load() {
		return old
	}
	s := &Snapshot{Index: c.index, services: old.services, members: make(map[member.ID]MemberRecord, len(c.members))}
	if len(c.dirty) > 0 {
		s.services = maps.Clone(old.services)
		c.rebuildLocked(s.services)
	}
	for id, k := range c.members {
		s.members[id] = k.record
	}
	c.current.Store(s)
	c.stale.Store(false)
	return s
}

// rebuildLocked builds the lists of the services that changed.
func (c *Catalog) rebuildLocked(services map[string][]Instance) {
	fresh := map[string][]Instance{}
	for _, k := range c.members {
		for _, i := range k.instances {
			if _, ok := c.dirty[i.Name]; ok {
				fresh[i.Name] = append(fresh[i.Name], k.see(i))
			}
		}
	}
	for name := range c.dirty {
		list := fresh[name]
		if len(list) == 0 {
			delete(services, name)
			continue
		}
		slices.SortFunc(list, func(a, b Instance) int {
			return cmp.Or(strings.Compare(a.MemberName, b.MemberName), strings.Compare(string(a.Member), string(b.Member)), strings.Compare(a.ID, b.ID))
		})
		services[name] = list
	}
	clear(c.dirty)
}

// see is an instance in the light of what is known of its member.
func (k *known) see(i Instance) Instance {
	i.MemberName = k.name
	i.Beside = i.Address == "" || i.Address == k.addr || loopback(i.Address)
	if i.Address == "" {
		i.Address = k.addr
	}
	switch k.status {
	case member.Alive, member.Suspect:
	case member.Leaving:
		i.Draining = true
	case member.Unknown:
		i.Health, i.Reason = Critical, "its member is not known yet"
	default:
		i.Health, i.Reason = Critical, fmt.Sprintf("its member %s is %s", k.name, k.status)
	}
	return i
}

func loopback(addr string) bool {
	a, err := netip.ParseAddr(addr)
	return err == nil && a.IsLoopback() || addr == "localhost"
}

// Changed returns a channel that is closed at the next change. Take it before
// the Snapshot, and no change is missed.
func (c *Catalog) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Wait returns the snapshot as soon as its index is above index, or when ctx
// ends.
func (c *Catalog) Wait(ctx context.Context, index uint64) *Snapshot {
	for {
		changed := c.Changed()
		s := c.Snapshot()
		if s.Index > index {
			return s
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return s
		}
	}
}

// Service sums up the instances of one name.
type Service struct {
	Name      string
	Instances int
	Passing   int // that may get traffic: passing or warning
	Tags      []string
}

// Services returns all services, sorted by name.
func (s *Snapshot) Services() []Service {
	out := make([]Service, 0, len(s.services))
	for name, list := range s.services {
		v := Service{Name: name, Instances: len(list)}
		for _, i := range list {
			if i.Health != Critical {
				v.Passing++
			}
			v.Tags = append(v.Tags, i.Tags...)
		}
		slices.Sort(v.Tags)
		v.Tags = slices.Compact(v.Tags)
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b Service) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Instances returns the instances of a service, sorted by member and id.
func (s *Snapshot) Instances(service string) []Instance { return s.services[service] }

// Passing returns those instances of a service that may get traffic: passing
// or warning. Draining ones are among them, for the clients they have.
func (s *Snapshot) Passing(service string) []Instance {
	var out []Instance
	for _, i := range s.services[service] {
		if i.Health != Critical {
			out = append(out, i)
		}
	}
	return out
}

// Member returns what a member told about itself.
func (s *Snapshot) Member(id member.ID) (MemberRecord, bool) {
	m, ok := s.members[id]
	return m, ok
}

// Tee is a Publisher that also lets this agent's own catalog have the records,
// which gossip brings only to the others.
type Tee struct {
	Self    member.ID
	Catalog *Catalog
	Next    Publisher
}

// SetLocal passes a record on.
func (t Tee) SetLocal(key string, value []byte) {
	if err := t.Catalog.SetRecord(t.Self, key, value); err != nil {
		panic(err) // this agent has just encoded it
	}
	t.Next.SetLocal(key, value)
}

// DeleteLocal passes on that a record is gone.
func (t Tee) DeleteLocal(key string) {
	if err := t.Catalog.SetRecord(t.Self, key, nil); err != nil {
		panic(err) // removing cannot fail
	}
	t.Next.DeleteLocal(key)
}
