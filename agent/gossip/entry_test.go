package gossip

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rondel-project/rondel/agent/member"
)

func equalRecords(a, b map[string][]byte) bool {
	return maps.EqualFunc(a, b, func(x, y []byte) bool { return slices.Equal(x, y) })
}

// However messages are lost, doubled and reordered, a reader that fetches what
// it misses ends with what was written, and never goes backwards.
func TestEntry_convergesUnderLossAndReorder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l := local{id: member.NewID(), boot: member.NewBoot(), records: map[string][]byte{}}
		r := &remote{records: map[string][]byte{}}
		r.restart(l.boot)
		var air [][]byte
		told := map[string]string{}
		tell := func(keys []string) {
			for _, k := range keys {
				if v, ok := r.records[k]; ok {
					told[k] = string(v)
				} else {
					delete(told, k)
				}
			}
		}
		version := uint64(0)
		deliver := func(b []byte) {
			d, err := decodeDelta(b)
			if err != nil {
				rt.Fatal(err)
			}
			keys, _ := r.apply(d)
			tell(keys)
		}
		fetch := func() {
			e, err := decodeEntry(encodeEntry(l.id, l.boot, l.version, l.records))
			if err != nil {
				rt.Fatal(err)
			}
			tell(r.load(e.version, e.records))
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0, 1:
				for range rapid.IntRange(1, 8).Draw(rt, "changes") {
					key := fmt.Sprint("k", rapid.IntRange(0, 9).Draw(rt, "key"))
					if rapid.Bool().Draw(rt, "delete") {
						l.set(key, nil)
					} else {
						l.set(key, make([]byte, rapid.SampledFrom([]int{0, 1, 300, 800, 2000}).Draw(rt, "size")))
					}
				}
				air = append(air, l.flush()...)
			case 2, 3:
				if len(air) > 0 {
					i := rapid.IntRange(0, len(air)-1).Draw(rt, "which")
					deliver(air[i])
					if rapid.Bool().Draw(rt, "once") {
						air = slices.Delete(air, i, i+1)
					}
				}
			case 4:
				if len(air) > 0 {
					air = air[1:]
				}
			case 5:
				fetch()
			}
			if r.known && r.version < version {
				rt.Fatalf("version went from %d to %d", version, r.version)
			}
			version = r.version
		}
		air = append(air, l.flush()...)
		for _, b := range air {
			deliver(b)
		}
		deliver(delta{id: l.id, boot: l.boot, to: l.version, notice: true}.encode())
		if r.behind() {
			fetch()
		}
		if r.behind() || !equalRecords(r.records, l.records) {
			rt.Fatalf("at %d of %d: %d records, want %d", r.version, l.version, len(r.records), len(l.records))
		}
		if len(told) != len(l.records) {
			rt.Fatalf("told of %d records, want %d", len(told), len(l.records))
		}
		for k, v := range told {
			if v != string(l.records[k]) {
				rt.Fatalf("told the wrong value of %s", k)
			}
		}
	})
}

func TestLocal_messagesAreSmall(t *testing.T) {
	t.Parallel()
	l := local{id: member.NewID(), boot: member.NewBoot(), records: map[string][]byte{}}
	for i := range 500 {
		l.set(fmt.Sprint("i/", i), make([]byte, 120))
	}
	if msgs := l.flush(); len(msgs) != 1 || len(msgs[0]) > 64 {
		t.Fatalf("500 new records make %d messages", len(msgs))
	}
	l.set("i/7", []byte("changed"))
	if msgs := l.flush(); len(msgs) != 1 || len(msgs[0]) > 80 {
		t.Fatalf("one change of 500 makes %d messages of %d bytes", len(msgs), len(msgs[0]))
	}
	l.set("i/7", []byte("changed"))
	if msgs := l.flush(); msgs != nil {
		t.Fatal("no change makes a message")
	}
	for i := range 50 {
		l.set(fmt.Sprint("i/", i), make([]byte, 150))
	}
	for _, m := range l.flush() {
		if len(m) > maxDelta+64 {
			t.Fatalf("%d bytes", len(m))
		}
	}
}

func TestRemote_keepsOldRecordsUntilTheNewRunSpeaks(t *testing.T) {
	t.Parallel()
	r := &remote{records: map[string][]byte{}}
	r.restart(member.NewBoot())
	r.load(3, map[string][]byte{"a": {1}, "b": {2}})
	r.restart(member.NewBoot())
	if len(r.records) != 2 || !r.behind() {
		t.Fatal("records were dropped too early")
	}
	keys := r.load(0, map[string][]byte{"b": {2}})
	if !slices.Equal(keys, []string{"a"}) || r.behind() {
		t.Fatalf("changed: %v", keys)
	}
}

func FuzzMessages(f *testing.F) {
	id, boot := member.NewID(), member.NewBoot()
	f.Add(delta{id: id, boot: boot, to: 3, notice: true}.encode())
	f.Add(delta{id: id, boot: boot, from: 2, to: 3, changes: []change{{"k", []byte("v")}, {"gone", nil}}}.encode())
	f.Add(encodeEntry(id, boot, 7, map[string][]byte{"k": []byte("v")}))
	f.Add(note{boot: boot, seq: 2, left: true}.encode(id))
	g := &Gossip{own: local{id: id, boot: boot}, list: newList()}
	g.list.notes[id] = note{boot: boot, seq: 1, left: true}
	f.Add(g.encodeState(true))
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, err := decodeDelta(b); err == nil && !d.notice {
			again, err := decodeDelta(d.encode())
			if err != nil || len(again.changes) != len(d.changes) || again.to != d.to {
				t.Fatalf("%v: %+v became %+v", err, d, again)
			}
		}
		if e, err := decodeEntry(b); err == nil {
			if again, err := decodeEntry(encodeEntry(e.id, e.boot, e.version, e.records)); err != nil || !equalRecords(again.records, e.records) {
				t.Fatal("entry changed", err)
			}
		}
		r := newReader(b)
		r.note()
		_, _ = decodeState(b)
	})
}

func FuzzHello(f *testing.F) {
	h := hello{kind: helloAsk, name: "m1", meta: member.Meta{ID: member.NewID(), Boot: member.NewBoot()}}
	h.addr = mustAddr("10.0.0.1:8701")
	b, err := h.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(byte(helloAsk), b)
	f.Add(byte(0), reply{detail: "x", entry: []byte("y")}.encode())
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		if h, err := decodeHello(kind, b); err == nil {
			b2, err := h.encode()
			if err != nil {
				t.Fatal(err)
			}
			if again, err := decodeHello(kind, b2); err != nil || again != h {
				t.Fatalf("%v: %+v became %+v", err, h, again)
			}
		}
		_, _ = decodeReply(b)
	})
}

func FuzzFrame(f *testing.F) {
	s := seals{func() [][]byte { return nil }}
	var w writer
	if err := s.writeFrame(&w, helloAsk, false, []byte("body")); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(w))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := writer(b)
		fr, err := readFrame(&r, maxHello)
		if err == nil && len(fr.body) > maxHello {
			t.Fatal("too long")
		}
	})
}

func FuzzPeers(f *testing.F) {
	f.Add([]byte(`{"Peers":[{"Name":"a","ID":"x","Addr":"10.0.0.1:8701","Seen":"2026-01-01T00:00:00Z"}]}`))
	f.Add([]byte(`{"Peers":[{}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		doc, err := parsePeers(b)
		if err != nil {
			return
		}
		for _, p := range doc.Peers {
			if !p.Addr.IsValid() || p.Addr.Port() == 0 {
				t.Fatalf("%+v", p)
			}
		}
	})
}
