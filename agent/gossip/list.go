package gossip

import (
	"bytes"
	"fmt"
	"net/netip"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

// Member is an agent as this one sees it.
type Member struct {
	Name       string
	ID         member.ID
	Boot       member.Boot
	Addr       netip.Addr
	GossipPort uint16
	RPCPort    uint16
	HTTPPort   uint16
	ProxyPort  uint16
	Status     member.Status
	Since      time.Time // when Status was last changed, by this agent's clock
	Version    string
	Witness    bool
	Cluster    [16]byte
	Expect     int
	Epoch      uint64
}

// Gossip is the address of the member's gossip port.
func (m Member) Gossip() netip.AddrPort { return netip.AddrPortFrom(m.Addr, m.GossipPort) }

// RPC is the address of the member's port for other agents.
func (m Member) RPC() netip.AddrPort { return netip.AddrPortFrom(m.Addr, m.RPCPort) }

// Here reports whether the member can be spoken to, as far as gossip knows.
func (m Member) Here() bool {
	return m.Status == member.Alive || m.Status == member.Suspect || m.Status == member.Leaving
}

// EventKind is what happened to a member.
type EventKind uint8

// The kinds of events.
const (
	Joined   EventKind = iota + 1 // is here: new, or back after Failed or Left
	Rebooted                      // is here under another boot; nobody saw it go
	Updated                       // something that it tells about itself changed
	Left                          // went politely, or was made to leave
	Failed                        // died, or is cut off
	Removed                       // not listed any more
)

// String returns a word for logs.
func (k EventKind) String() string {
	switch k {
	case Joined:
		return "joined"
	case Rebooted:
		return "rebooted"
	case Updated:
		return "updated"
	case Left:
		return "left"
	case Failed:
		return "failed"
	case Removed:
		return "removed"
	}
	return fmt.Sprintf("event %d", uint8(k))
}

// Event says how a member changed. Events of one member come in order; when
// several changes happen before the receiver takes the first, they become one.
type Event struct {
	Kind   EventKind
	Member Member
	// Before is the boot last told of, zero for none: where it differs from
	// Member.Boot, everything the member held in memory is gone.
	Before member.Boot
}

// how long members that are gone stay in the list.
const (
	keepFailed = 72 * time.Hour
	keepLeft   = 24 * time.Hour
)

// note says that a run of a member has ended for good: it left, or an operator
// said so. A higher seq wins, so that a note about a member that turns out to
// live can be taken back.
type note struct {
	boot  member.Boot
	seq   uint64
	left  bool
	prune bool
	own   bool // the member said so itself
	since time.Time
}

// list is what an agent knows of members. It has no lock of its own.
type list struct {
	byName  map[string]*Member
	notes   map[member.ID]note
	before  map[string]*Member // by name: as last told to the receiver; only those with pending events
	pending []string
}

func newList() *list {
	return &list{byName: map[string]*Member{}, notes: map[member.ID]note{}, before: map[string]*Member{}}
}

// touch remembers how a member was before it changes.
func (l *list) touch(name string) {
	if _, ok := l.before[name]; ok {
		return
	}
	var old *Member
	if m := l.byName[name]; m != nil {
		c := *m
		old = &c
	}
	l.before[name] = old
	l.pending = append(l.pending, name)
}

func memberOf(name string, at netip.AddrPort, meta member.Meta) Member {
	return Member{
		Name: name, ID: meta.ID, Boot: meta.Boot, Addr: at.Addr(), GossipPort: at.Port(),
		RPCPort: meta.RPCPort, HTTPPort: meta.HTTPPort, ProxyPort: meta.ProxyPort,
		Version: meta.Version, Witness: meta.Witness, Cluster: meta.Cluster,
		Expect: int(meta.Expect), Epoch: meta.Epoch,
	}
}

// here takes in that a member is alive and says this about itself.
func (l *list) here(name string, at netip.AddrPort, meta member.Meta, now time.Time) {
	l.touch(name)
	m := memberOf(name, at, meta)
	m.Status, m.Since = member.Alive, now
	if meta.Leaving || meta.Departed {
		m.Status = member.Leaving
	}
	if old := l.byName[name]; old != nil && old.Status == m.Status && old.Boot == m.Boot {
		m.Since = old.Since
	}
	if meta.Departed {
		l.noteDeparture(meta)
	}
	// A member that was given another name keeps only the new one.
	for other, o := range l.byName {
		if other != name && o.ID == m.ID && !o.Here() {
			l.touch(other)
			delete(l.byName, other)
		}
	}
	l.byName[name] = &m
}

func (l *list) noteDeparture(meta member.Meta) {
	n := l.notes[meta.ID]
	if n.boot != meta.Boot || !n.left {
		l.notes[meta.ID] = note{boot: meta.Boot, seq: n.seq + 1, left: true, own: true, since: time.Time{}}
	}
}

// gone takes in that a member does not answer any more.
func (l *list) gone(name string, now time.Time) {
	m := l.byName[name]
	if m == nil || !m.Here() {
		return
	}
	l.touch(name)
	m.Status, m.Since = member.Failed, now
	if other := l.byID(m.ID); other != m && other.Here() {
		delete(l.byName, name) // it goes on under another name
		return
	}
	l.settle(m, now)
}

// absent takes in what another agent tells of a member that is gone.
func (l *list) absent(name string, at netip.AddrPort, meta member.Meta, status member.Status, now time.Time) bool {
	if l.byName[name] != nil {
		return false
	}
	if n, ok := l.notes[meta.ID]; ok && n.boot == meta.Boot && n.left && n.prune {
		return false
	}
	for _, m := range l.byName {
		if m.ID == meta.ID {
			return false
		}
	}
	l.touch(name)
	m := memberOf(name, at, meta)
	m.Status, m.Since = status, now
	l.byName[name] = &m
	l.settle(&m, now)
	return true
}

// settle applies a note to a member that is gone.
func (l *list) settle(m *Member, now time.Time) {
	n, ok := l.notes[m.ID]
	if !ok || n.boot != m.Boot || !n.left || m.Here() {
		return
	}
	l.touch(m.Name)
	if n.prune {
		delete(l.byName, m.Name)
		return
	}
	if m.Status != member.Left {
		m.Status, m.Since = member.Left, now
	}
}

// take accepts a note of another agent. It reports whether it was new.
func (l *list) take(id member.ID, n note, now time.Time) bool {
	if old, ok := l.notes[id]; ok {
		// Equal numbers about two runs: any rule will do that all agents share.
		later := n.seq > old.seq || n.seq == old.seq && bytes.Compare(n.boot[:], old.boot[:]) > 0
		if !later {
			return false
		}
	}
	n.since = now
	l.notes[id] = n
	if m := l.byID(id); m != nil {
		l.settle(m, now)
	}
	return true
}

// barred reports whether gossip about this run of a member is too old to be
// believed, since the run was said to have ended.
func (l *list) barred(id member.ID, boot member.Boot) bool {
	n, ok := l.notes[id]
	return ok && n.left && n.boot == boot
}

func (l *list) byID(id member.ID) *Member {
	var found *Member
	for _, m := range l.byName {
		if m.ID == id && (found == nil || m.Here()) {
			found = m
		}
	}
	return found
}

func (l *list) forget(name string) {
	if l.byName[name] != nil {
		l.touch(name)
		delete(l.byName, name)
	}
}

// expire drops what was kept long enough.
func (l *list) expire(now time.Time) {
	for name, m := range l.byName {
		age := now.Sub(m.Since)
		if m.Status == member.Failed && age > keepFailed || m.Status == member.Left && age > keepLeft {
			l.forget(name)
		}
	}
	for id, n := range l.notes {
		if n.since.IsZero() {
			n.since = now
			l.notes[id] = n
		} else if now.Sub(n.since) > keepFailed+keepLeft {
			delete(l.notes, id)
		}
	}
}

// events returns what changed since the last call.
func (l *list) events() []Event {
	var out []Event
	for _, name := range l.pending {
		before := l.before[name]
		delete(l.before, name)
		after := l.byName[name]
		out = append(out, diff(before, after)...)
	}
	l.pending = nil
	return out
}

func diff(before, after *Member) []Event {
	switch {
	case before == nil && after == nil:
		return nil
	case after == nil:
		return []Event{{Removed, *before, before.Boot}}
	case before != nil && before.ID != after.ID:
		gone := *before
		gone.Status = member.Left
		return append([]Event{{Removed, gone, before.Boot}}, diff(nil, after)...)
	}
	e := Event{Member: *after}
	wasHere := false
	if before != nil {
		e.Before = before.Boot
		wasHere = before.Here()
	}
	switch {
	case after.Here() && !wasHere:
		e.Kind = Joined
	case after.Here() && before.Boot != after.Boot:
		e.Kind = Rebooted
	case after.Here():
		b := *before
		b.Since = after.Since
		if b == *after {
			return nil
		}
		e.Kind = Updated
	case before != nil && before.Status == after.Status:
		return nil
	case after.Status == member.Left:
		e.Kind = Left
	default:
		e.Kind = Failed
	}
	return []Event{e}
}
