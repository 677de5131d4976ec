package catalog

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Errors of Local.
var (
	ErrUnknownInstance = errors.New("no instance has this id")
	ErrConfigured      = errors.New("the instance comes from the configuration: change it there and reload")
)

// Publisher takes this agent's records to the other members. It must not block
// and not call back.
type Publisher interface {
	SetLocal(key string, value []byte)
	DeleteLocal(key string)
}

// LocalOptions are what Local needs of its surroundings.
type LocalOptions struct {
	Dir       string // where registrations are kept; empty: nowhere
	Publisher Publisher

	// Validate may refuse a registration, beside the checks made here.
	Validate func(Registration) error

	// OnInstance is told, before Register and the like return, of an instance
	// that is there or changed, with the checks it wants run, and of one that
	// is gone. It may call SetCheck.
	OnInstance func(r Registration, gone bool)
}

// Local holds this agent's own instances. Its methods may be used from any
// goroutine.
type Local struct {
	opts LocalOptions

	// writing orders changes that go to disk; mu guards the fields and is
	// never held while writing. Whoever takes both takes writing first.
	writing sync.Mutex
	mu      sync.Mutex
	own     map[string]*owned
}

// owned is one instance of this agent.
type owned struct {
	reg        Registration
	configured bool
	maint      bool
	reason     string
	drain      *Drain // nil: it takes new clients
	moved      bool   // the drain's time is over, and the others know
	set        *set   // a weight that an operator chose
	load       float64
	checks     []CheckState
}

// OpenLocal reads the registrations that were kept. A file that cannot be read
// is an error that names it: forgetting instances silently would be worse.
// Nothing is published before Start.
func OpenLocal(opts LocalOptions) (*Local, error) {
	l := &Local{opts: opts, own: map[string]*owned{}}
	doc, err := readFile(opts.Dir)
	if err != nil {
		return nil, err
	}
	l.own = doc.instances()
	return l, nil
}

// Start publishes what OpenLocal has read, and tells OnInstance.
func (l *Local) Start() {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	var regs []Registration
	for _, o := range l.own {
		if o.reg.Name == "" {
			continue // only flags of a configured one that is still to come
		}
		regs = append(regs, o.reg)
		l.publishLocked(o)
	}
	l.mu.Unlock()
	for _, r := range regs {
		l.told(r, false)
	}
}

func (l *Local) told(r Registration, gone bool) {
	if l.opts.OnInstance != nil {
		l.opts.OnInstance(r, gone)
	}
}

// Register adds an instance, or changes the one of the same id. It is kept
// over restarts.
func (l *Local) Register(r Registration) error {
	r, err := l.check(r)
	if err != nil {
		return err
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.change(r.ID, func(o *owned) (*owned, error) {
		if o != nil && o.configured {
			return nil, ErrConfigured
		}
		return renew(o, r), nil
	}); err != nil {
		return fmt.Errorf("register %s: %w", r.ID, err)
	}
	l.told(r, false)
	return nil
}

func (l *Local) check(r Registration) (Registration, error) {
	r, err := r.Normalize()
	if err == nil && l.opts.Validate != nil {
		if verr := l.opts.Validate(r); verr != nil {
			err = fmt.Errorf("%w: %w", ErrInvalid, verr)
		}
	}
	return r, err
}

// renew is an instance after it was registered anew: what an operator set
// stays, and so do the states of checks that did not change.
func renew(o *owned, r Registration) *owned {
	n := &owned{}
	if o != nil {
		*n = *o
	}
	n.checks = make([]CheckState, len(r.Checks))
	for i := range r.Checks {
		if o != nil && i < len(o.checks) && i < len(o.reg.Checks) && o.reg.Checks[i] == r.Checks[i] && o.reg.Address == r.Address && o.reg.Port == r.Port {
			n.checks[i] = o.checks[i]
			continue
		}
		n.checks[i] = CheckState{Health: Critical, Reason: "not checked yet", Since: time.Now()}
	}
	n.reg = r
	if n.set != nil && n.set.Registered != *r.Weight {
		n.set = nil
	}
	return n
}

// Deregister removes an instance.
func (l *Local) Deregister(id string) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	var gone Registration
	if err := l.change(id, func(o *owned) (*owned, error) {
		switch {
		case o == nil:
			return nil, ErrUnknownInstance
		case o.configured:
			return nil, ErrConfigured
		}
		gone = o.reg
		return nil, nil
	}); err != nil {
		return fmt.Errorf("deregister %s: %w", id, err)
	}
	l.told(gone, true)
	return nil
}

// edit changes an instance that is there.
func (l *Local) edit(id string, f func(*owned)) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.change(id, func(o *owned) (*owned, error) {
		if o == nil {
			return nil, ErrUnknownInstance
		}
		n := *o
		f(&n)
		n.moved = n.over(time.Now())
		return &n, nil
	})
}

// change computes what becomes of an instance, writes the file and only then
// lets it be seen. The caller holds writing.
func (l *Local) change(id string, f func(*owned) (*owned, error)) error {
	l.mu.Lock()
	o := l.own[id]
	if o != nil && o.reg.Name == "" {
		o = nil
	}
	n, err := f(o)
	if err != nil {
		l.mu.Unlock()
		return err
	}
	doc := docOf(l.own, id, n)
	l.mu.Unlock()
	if err := writeFile(l.opts.Dir, doc); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n == nil {
		delete(l.own, id)
		l.opts.Publisher.DeleteLocal(instancePrefix + id)
		return nil
	}
	// Checks and load may have changed while the file was written.
	if cur := l.own[id]; cur != nil && o != nil && slices.Equal(cur.reg.Checks, n.reg.Checks) && cur.reg.Port == n.reg.Port && cur.reg.Address == n.reg.Address {
		n.checks, n.load = cur.checks, cur.load
	}
	l.own[id] = n
	l.publishLocked(n)
	return nil
}

// SetConfigured makes these the instances that come from the configuration;
// earlier ones that are not among them go. It changes all or nothing.
func (l *Local) SetConfigured(regs []Registration) error {
	regs, err := ValidateAll(regs)
	if err != nil {
		return err
	}
	want := map[string]Registration{}
	for _, r := range regs {
		if r, err = l.check(r); err != nil {
			return fmt.Errorf("service %q: %w", r.ID, err)
		}
		want[r.ID] = r
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	for id := range want {
		if o := l.own[id]; o != nil && o.reg.Name != "" && !o.configured {
			l.mu.Unlock()
			return fmt.Errorf("service %q: %w: an instance with this id was registered by API: deregister it, or use another id", id, ErrInvalid)
		}
	}
	var gone []Registration
	for id, o := range l.own {
		if _, ok := want[id]; !ok && o.configured {
			delete(l.own, id)
			l.opts.Publisher.DeleteLocal(instancePrefix + id)
			gone = append(gone, o.reg)
		}
	}
	for id, r := range want {
		n := renew(l.own[id], r)
		n.configured = true
		l.own[id] = n
		l.publishLocked(n)
	}
	l.mu.Unlock()
	for _, r := range gone {
		l.told(r, true)
	}
	for _, r := range regs {
		l.told(r, false)
	}
	return nil
}

// SetLoad takes in what the application itself says of its load: 0 is idle, 1
// is all it can take. It counts until a check fails: who comes back has to say anew.
func (l *Local) SetLoad(id string, v float64) error {
	if math.IsNaN(v) || v < 0 || v > math.MaxFloat32 {
		return fmt.Errorf("load %v of %s: %w: must be 0 or more", v, id, ErrInvalid)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.own[id]
	if o == nil || o.reg.Name == "" {
		return fmt.Errorf("load of %s: %w", id, ErrUnknownInstance)
	}
	if o.load != v {
		o.load = v
		l.publishLocked(o)
	}
	return nil
}

// SetCheck takes in the state of a check, by its index in the registration. It
// reports whether the instance's health changed by it; an index that does not
// exist any more changes nothing.
func (l *Local) SetCheck(id string, index int, health Health, reason string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.own[id]
	if o == nil || index < 0 || index >= len(o.checks) {
		return false
	}
	c := &o.checks[index]
	before := o.instance().Health
	if c.Health != health {
		c.Since = time.Now()
	}
	changed := c.Health != health || c.Reason != reason
	if health == Critical && c.Health != Critical {
		o.load = 0 // it was said by who may not be there any more
	}
	c.Health, c.Reason = health, cut(reason)
	if changed {
		l.publishLocked(o)
	}
	return o.instance().Health != before
}

func (l *Local) publishLocked(o *owned) {
	l.opts.Publisher.SetLocal(instancePrefix+o.reg.ID, encodeInstance(o.instance()))
}

// instance is how the others get to know it; checks are copied.
func (o *owned) instance() Instance {
	i := Instance{
		ID: o.reg.ID, Name: o.reg.Name, Address: o.reg.Address, Port: o.reg.Port,
		Weight: o.weight(), Backup: o.reg.Backup, Tags: o.reg.Tags,
		Protocol: o.reg.Protocol, SendProxy: o.reg.SendProxy,
		MaxConnections: o.reg.MaxConnections, SlowStart: time.Duration(o.reg.SlowStart),
		Checks: slices.Clone(o.checks), Maintenance: o.maint, Load: o.load,
	}
	if o.drain != nil {
		i.Draining, i.Drain, i.Moved = true, *o.drain, o.moved
	}
	i.judge()
	if o.maint {
		i.Health, i.Reason = Critical, o.reason
	}
	return i
}

// Instances returns this agent's instances, sorted by id. Member, MemberName
// and an address that was not given are empty.
func (l *Local) Instances() []Instance {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []Instance{}
	for _, o := range l.own {
		if o.reg.Name != "" {
			out = append(out, o.instance())
		}
	}
	slices.SortFunc(out, func(a, b Instance) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Registration returns what was registered under an id.
func (l *Local) Registration(id string) (r Registration, configured bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.own[id]
	if o == nil || o.reg.Name == "" {
		return Registration{}, false, fmt.Errorf("%s: %w", id, ErrUnknownInstance)
	}
	return o.reg, o.configured, nil
}

func cut(s string) string {
	if len(s) > maxReasonLen {
		return strings.ToValidUTF8(s[:maxReasonLen], "")
	}
	return s
}
