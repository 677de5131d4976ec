package gossip

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/internal/codec"
	"github.com/rondel-project/rondel/agent/member"
)

// SetLocal sets a record of this agent's entry; all members get it. Values of
// up to about 900 bytes travel as broadcasts, longer ones are fetched. It
// never blocks. The value is copied.
func (g *Gossip) SetLocal(key string, value []byte) {
	if value == nil {
		value = []byte{}
	}
	g.change(key, value)
}

// DeleteLocal removes a record of this agent's entry.
func (g *Gossip) DeleteLocal(key string) { g.change(key, nil) }

func (g *Gossip) change(key string, value []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own.set(key, value)
}

// flush queues what changed in this agent's entry.
func (g *Gossip) flush() {
	g.mu.Lock()
	msgs := g.own.flush()
	g.mu.Unlock()
	for _, m := range msgs {
		g.queue.QueueBroadcast(broadcast(m))
	}
}

// Records returns a copy of what a member has told, nil when nothing is known.
// The values must not be changed.
func (g *Gossip) Records(id member.ID) map[string][]byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	if id == g.own.id {
		return maps.Clone(g.own.records)
	}
	if r := g.remotes[id]; r != nil {
		return maps.Clone(r.records)
	}
	return nil
}

// Entry returns the entry of a member as this agent knows it, in the form that
// Options.Fetch returns; an empty id means this agent's own.
func (g *Gossip) Entry(id member.ID) ([]byte, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.entryLocked(id)
}

func (g *Gossip) entryLocked(id member.ID) ([]byte, bool) {
	if id == g.own.id || id == "" {
		return encodeEntry(g.own.id, g.own.boot, g.own.version, g.own.records), true
	}
	if r := g.remotes[id]; r != nil && r.known {
		return encodeEntry(id, r.boot, r.version, r.records), true
	}
	return nil, false
}

// followLocked makes sure that the entry of a run of a member will be known.
func (g *Gossip) followLocked(id member.ID, boot member.Boot) {
	if id == g.own.id {
		return
	}
	r := g.remotes[id]
	if r == nil {
		r = &remote{records: map[string][]byte{}}
		g.remotes[id] = r
	}
	if r.boot != boot {
		r.restart(boot)
	}
	if r.behind() {
		g.needLocked(id, 0)
	}
}

// reorder is how long a missing message may still come by itself.
func (g *Gossip) reorder() time.Duration { return 2 * g.times.gossipInterval }

func (g *Gossip) takeDelta(b []byte) {
	d, err := decodeDelta(b)
	if err != nil {
		g.log.Debug("ignored a malformed broadcast", "error", err)
		return
	}
	g.mu.Lock()
	r := g.remotes[d.id]
	if d.id == g.own.id || r == nil || r.boot != d.boot {
		// Unknown here so far: its entry is fetched once it is known.
		g.mu.Unlock()
		return
	}
	keys, fresh := r.apply(d)
	g.noteRecordsLocked(d.id, keys)
	if r.behind() {
		wait := g.reorder()
		if d.notice {
			wait = 0
		}
		g.needLocked(d.id, wait)
	}
	g.mu.Unlock()
	if fresh {
		g.queue.QueueBroadcast(broadcast(b))
	}
	wake(g.wakeEvents)
	wake(g.wakeFetch)
}

func (g *Gossip) noteRecordsLocked(id member.ID, keys []string) {
	for _, key := range keys {
		k := recordKey{id, key}
		if _, ok := g.queued[k]; !ok {
			g.queued[k] = struct{}{}
			g.changed = append(g.changed, k)
		}
	}
}

func (n note) encode(id member.ID) []byte {
	id16 := id.Bytes()
	b := append([]byte{msgNote}, id16[:]...)
	b = append(b, n.boot[:]...)
	b = binary.AppendUvarint(b, n.seq)
	var flags byte
	for i, on := range []bool{n.left, n.prune, n.own} {
		if on {
			flags |= 1 << i
		}
	}
	return append(b, flags)
}

func (r reader) note() (member.ID, note) {
	if r.Byte() != msgNote {
		r.Fail(errMalformed)
	}
	id := member.IDFromBytes(r.Array16())
	n := note{boot: r.Array16(), seq: r.Uvarint()}
	flags := r.Byte()
	n.left, n.prune, n.own = flags&1 != 0, flags&2 != 0, flags&4 != 0
	return id, n
}

func (g *Gossip) takeNote(b []byte) {
	r := newReader(b)
	id, n := r.note()
	if r.Err() != nil {
		g.log.Debug("ignored a malformed broadcast", "error", errMalformed)
		return
	}
	g.mu.Lock()
	fresh := id != g.meta.ID && g.list.take(id, n, time.Now())
	g.mu.Unlock()
	if fresh {
		g.queue.QueueBroadcast(broadcast(b))
		wake(g.wakeEvents)
	}
}

const (
	stateFormat = 1
	maxOnJoin   = 256 << 10 // bytes of entries that go along with a join
)

// encodeState is what push/pull carries: which versions this agent has, who is
// gone, and to one who joins the entries themselves while they are small.
func (g *Gossip) encodeState(join bool) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := []byte{stateFormat}
	digests := [][]byte{delta{id: g.own.id, boot: g.own.boot, to: g.own.version, notice: true}.encode()}
	for id, r := range g.remotes {
		if r.known {
			digests = append(digests, delta{id: id, boot: r.boot, to: r.version, notice: true}.encode())
		}
	}
	b = appendAll(b, digests)
	var notes, absent, entries [][]byte
	for id, n := range g.list.notes {
		notes = append(notes, n.encode(id))
	}
	b = appendAll(b, notes)
	for _, m := range g.list.byName {
		if !m.Here() {
			absent = append(absent, encodeAbsent(*m))
		}
	}
	b = appendAll(b, absent)
	if join {
		size := 0
		for _, id := range append([]member.ID{g.own.id}, slices.Collect(maps.Keys(g.remotes))...) {
			if e, ok := g.entryLocked(id); ok && size+len(e) <= maxOnJoin {
				size += len(e)
				entries = append(entries, e)
			}
		}
	}
	return appendAll(b, entries)
}

func appendAll(b []byte, items [][]byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(items)))
	for _, i := range items {
		b = codec.AppendBytes(b, i)
	}
	return b
}

func encodeAbsent(m Member) []byte {
	meta := member.Meta{
		Cluster: m.Cluster, ID: m.ID, Boot: m.Boot, RPCPort: m.RPCPort, HTTPPort: m.HTTPPort, ProxyPort: m.ProxyPort,
		Expect: uint16(m.Expect), Witness: m.Witness, Epoch: m.Epoch, Version: m.Version,
	}
	mb, err := meta.MarshalBinary()
	if err != nil {
		panic(err) // it came out of one
	}
	b := codec.AppendBytes(nil, m.Name)
	b = appendAddrPort(b, m.Gossip())
	b = append(b, byte(m.Status))
	return codec.AppendBytes(b, mb)
}

type absentee struct {
	name   string
	addr   netip.AddrPort
	status member.Status
	meta   member.Meta
}

func (r reader) absentee() absentee {
	a := absentee{name: r.text(), addr: r.addrPort(), status: member.Status(r.Byte())}
	if a.meta.UnmarshalBinary(r.bytes()) != nil || checkName(a.name) != nil || a.status != member.Failed && a.status != member.Left {
		r.Fail(errMalformed)
	}
	return a
}

// pulled is what the other side of a push/pull has told.
type pulled struct {
	digests []delta
	notes   map[member.ID]note
	absent  []absentee
	entries []wholeEntry
}

func decodeState(b []byte) (pulled, error) {
	r := newReader(b)
	p := pulled{notes: map[member.ID]note{}}
	if r.Byte() != stateFormat {
		return p, errMalformed
	}
	for range r.Count(1) {
		d, err := decodeDelta(r.bytes())
		if err != nil || !d.notice {
			return p, errMalformed
		}
		p.digests = append(p.digests, d)
	}
	for range r.Count(1) {
		sub := newReader(r.bytes())
		id, n := sub.note()
		if sub.Err() != nil {
			return p, errMalformed
		}
		p.notes[id] = n
	}
	for range r.Count(1) {
		sub := newReader(r.bytes())
		a := sub.absentee()
		if sub.Err() != nil {
			return p, errMalformed
		}
		p.absent = append(p.absent, a)
	}
	for range r.Count(1) {
		e, err := decodeEntry(r.bytes())
		if err != nil {
			return p, err
		}
		p.entries = append(p.entries, e)
	}
	return p, r.err()
}

func (g *Gossip) mergeState(b []byte) {
	p, err := decodeState(b)
	if err != nil {
		g.log.Debug("ignored malformed state of another agent", "error", err)
		return
	}
	now := time.Now()
	g.mu.Lock()
	for id, n := range p.notes {
		if id != g.meta.ID {
			g.list.take(id, n, now)
		}
	}
	for _, a := range p.absent {
		if a.name != g.opts.Name && a.meta.ID != g.meta.ID && !foreign(a.meta.Cluster, g.clusterLocked()) {
			g.list.absent(a.name, a.addr, a.meta, a.status, now)
		}
	}
	for _, e := range p.entries {
		g.loadLocked(e)
	}
	for _, d := range p.digests {
		if r := g.remotes[d.id]; r != nil && r.boot == d.boot {
			r.apply(d)
			if r.behind() {
				g.needLocked(d.id, 0)
			}
		}
	}
	g.mu.Unlock()
	g.wakeAll()
}

// loadLocked takes a whole entry, if it is of the run that the member is in.
func (g *Gossip) loadLocked(e wholeEntry) bool {
	r := g.remotes[e.id]
	if r == nil || r.boot != e.boot {
		return false
	}
	g.noteRecordsLocked(e.id, r.load(e.version, e.records))
	return true
}
