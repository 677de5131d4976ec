package gossip

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/rondel-project/rondel/agent/internal/codec"
	"github.com/rondel-project/rondel/agent/member"
)

// Kinds of broadcast messages.
const (
	msgDelta  = 1 // changes of an entry
	msgNotice = 2 // an entry has a version that did not fit into messages
	msgNote   = 3 // a member has left, or was wrongly said to have
)

const (
	maxDelta     = 1000 // bytes of one delta: fits into a packet beside others
	maxDeltas    = 16   // more changes at once are fetched, not broadcast
	maxHeld      = 64   // deltas kept while an earlier one is missing
	maxKeyLen    = 512
	maxRecordLen = 1 << 20
	entryFormat  = 1
)

// change sets a key, or removes it when value is nil.
type change struct {
	key   string
	value []byte
}

// delta is one step of an entry: from one version to the next. A delta without
// content (full false) only says that the version exists.
type delta struct {
	id       member.ID
	boot     member.Boot
	from, to uint64
	changes  []change
	notice   bool
}

func (d delta) encode() []byte {
	kind := byte(msgDelta)
	if d.notice {
		kind = msgNotice
	}
	id := d.id.Bytes()
	b := append([]byte{kind}, id[:]...)
	b = append(b, d.boot[:]...)
	b = binary.AppendUvarint(b, d.to)
	if d.notice {
		return b
	}
	b = binary.AppendUvarint(b, d.from)
	b = binary.AppendUvarint(b, uint64(len(d.changes)))
	for _, c := range d.changes {
		b = appendChange(b, c)
	}
	return b
}

func appendChange(b []byte, c change) []byte {
	if c.value == nil {
		return codec.AppendBytes(append(b, 0), c.key)
	}
	return codec.AppendBytes(codec.AppendBytes(append(b, 1), c.key), c.value)
}

func (r reader) change() change {
	set := r.Byte()
	c := change{key: r.text()}
	if set == 1 {
		c.value = append([]byte{}, r.bytes()...)
	}
	if set > 1 || len(c.key) > maxKeyLen || len(c.value) > maxRecordLen {
		r.Fail(errMalformed)
	}
	return c
}

// decodeDelta reads a delta or a notice, kind byte included.
func decodeDelta(b []byte) (delta, error) {
	r := newReader(b)
	d := delta{notice: r.Byte() == msgNotice}
	d.id = member.IDFromBytes(r.Array16())
	d.boot = r.Array16()
	d.to = r.Uvarint()
	if !d.notice {
		d.from = r.Uvarint()
		for range r.Count(2) {
			d.changes = append(d.changes, r.change())
		}
		if d.from >= d.to {
			r.Fail(errMalformed)
		}
	}
	return d, r.err()
}

// local is this member's own entry. Changes gather in dirty until the next
// flush makes versions of them.
type local struct {
	id      member.ID
	boot    member.Boot
	version uint64
	records map[string][]byte
	dirty   []string
}

func (l *local) set(key string, value []byte) {
	if old, ok := l.records[key]; ok && value != nil && slices.Equal(old, value) {
		return
	}
	if value == nil {
		if _, ok := l.records[key]; !ok {
			return
		}
		delete(l.records, key)
	} else {
		l.records[key] = slices.Clone(value)
	}
	if !slices.Contains(l.dirty, key) {
		l.dirty = append(l.dirty, key)
	}
}

// flush turns what changed since the last call into messages of at most
// maxDelta bytes, or into one notice when there is too much of it.
func (l *local) flush() [][]byte {
	if len(l.dirty) == 0 {
		return nil
	}
	var out [][]byte
	first, d, size := l.version, delta{id: l.id, boot: l.boot, from: l.version, to: l.version + 1}, 64
	tooMuch := false
	for _, key := range l.dirty {
		c := change{key, l.records[key]}
		n := len(appendChange(nil, c))
		if n > maxDelta-64 {
			tooMuch = true
			break
		}
		if size+n > maxDelta {
			out = append(out, d.encode())
			d = delta{id: l.id, boot: l.boot, from: d.to, to: d.to + 1}
			size = 64
		}
		d.changes = append(d.changes, c)
		size += n
	}
	out = append(out, d.encode())
	l.version = d.to
	l.dirty = nil
	if tooMuch || len(out) > maxDeltas {
		l.version = first + 1
		return [][]byte{delta{id: l.id, boot: l.boot, to: l.version, notice: true}.encode()}
	}
	return out
}

// remote is another member's entry as this agent has it.
type remote struct {
	boot    member.Boot // the run that records are of
	known   bool        // records are of boot, at version; false: nothing yet
	version uint64
	want    uint64 // the newest version heard of
	records map[string][]byte
	held    map[uint64]delta // by from: came before what they build on
}

// restart notes that the member runs under another boot. What it said before
// stands until something of the new run is known, so that a quick restart does
// not look like the loss of all instances.
func (e *remote) restart(boot member.Boot) {
	e.boot, e.known, e.version, e.want, e.held = boot, false, 0, 0, nil
}

// apply takes a delta of the right boot. It returns the keys that changed and
// whether the delta was new; behind tells what is missing afterwards.
func (e *remote) apply(d delta) (keys []string, fresh bool) {
	if d.to <= e.version && e.known {
		return nil, false
	}
	if d.notice {
		fresh = d.to > e.want
		e.want = max(e.want, d.to)
		return nil, fresh
	}
	e.want = max(e.want, d.to)
	if !e.known && d.from == 0 {
		// The first step of a run: all there is.
		keys = e.replace(nil)
	}
	if _, dup := e.held[d.from]; dup {
		return nil, false
	}
	if !e.known || d.from > e.version {
		if len(e.held) < maxHeld {
			if e.held == nil {
				e.held = map[uint64]delta{}
			}
			e.held[d.from] = d
		}
		return nil, true
	}
	keys = append(keys, e.step(d)...)
	return append(keys, e.drain()...), true
}

func (e *remote) step(d delta) (keys []string) {
	for _, c := range d.changes {
		if c.value == nil {
			delete(e.records, c.key)
		} else {
			e.records[c.key] = c.value
		}
		keys = append(keys, c.key)
	}
	e.version = d.to
	return keys
}

func (e *remote) drain() (keys []string) {
	for {
		d, ok := e.held[e.version]
		if !ok {
			break
		}
		delete(e.held, d.from)
		keys = append(keys, e.step(d)...)
	}
	for from, d := range e.held {
		if d.to <= e.version {
			delete(e.held, from)
		}
	}
	return keys
}

// load takes a whole entry of the right boot and returns the keys that differ.
func (e *remote) load(version uint64, records map[string][]byte) (keys []string) {
	if e.known && version < e.version {
		return nil
	}
	keys = e.replace(records)
	e.version = version
	e.want = max(e.want, version)
	return append(keys, e.drain()...)
}

func (e *remote) replace(records map[string][]byte) (keys []string) {
	for key := range e.records {
		if _, ok := records[key]; !ok {
			keys = append(keys, key)
		}
	}
	for key, value := range records {
		if old, ok := e.records[key]; !ok || !slices.Equal(old, value) {
			keys = append(keys, key)
		}
	}
	e.records = maps.Clone(records)
	if e.records == nil {
		e.records = map[string][]byte{}
	}
	e.known = true
	return keys
}

// behind reports whether something is missing that only a fetch can bring, or
// that a late message may still bring.
func (e *remote) behind() bool { return !e.known || e.version < e.want }

// encodeEntry is the form in which a whole entry travels.
func encodeEntry(id member.ID, boot member.Boot, version uint64, records map[string][]byte) []byte {
	id16 := id.Bytes()
	b := append([]byte{entryFormat}, id16[:]...)
	b = append(b, boot[:]...)
	b = binary.AppendUvarint(b, version)
	b = binary.AppendUvarint(b, uint64(len(records)))
	for _, key := range slices.Sorted(maps.Keys(records)) {
		b = appendChange(b, change{key, records[key]})
	}
	return b
}

type wholeEntry struct {
	id      member.ID
	boot    member.Boot
	version uint64
	records map[string][]byte
}

func decodeEntry(b []byte) (wholeEntry, error) {
	r := newReader(b)
	if r.Byte() != entryFormat {
		return wholeEntry{}, errMalformed
	}
	w := wholeEntry{id: member.IDFromBytes(r.Array16()), boot: r.Array16(), version: r.Uvarint(), records: map[string][]byte{}}
	for range r.Count(3) {
		c := r.change()
		if c.value == nil {
			r.Fail(errMalformed)
			break
		}
		w.records[c.key] = c.value
	}
	return w, r.err()
}
