package ring

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rondel-project/rondel/agent/member"
)

func genHolder(t *rapid.T) Holder {
	return Holder{member.Number(rapid.Uint32().Draw(t, "num")), genBoot(t)}
}

func genBoot(t *rapid.T) (b member.Boot) {
	b[0], b[15] = rapid.Byte().Draw(t, "boot"), 1
	return b
}

func genSlot(t *rapid.T) Slot { return Slot(rapid.IntRange(0, Slots-1).Draw(t, "slot")) }

func list[T any](t *rapid.T, gen func(*rapid.T) T) (out []T) {
	for range rapid.IntRange(0, 4).Draw(t, "n") {
		out = append(out, gen(t))
	}
	return out
}

func genCandidate(t *rapid.T) Candidate {
	return Candidate{genSlot(t), rapid.Uint64().Draw(t, "re"), Epoch(rapid.Uint64().Draw(t, "changed")), genHolder(t)}
}

func genDelta(t *rapid.T) *Delta {
	if rapid.Bool().Draw(t, "none") {
		return nil
	}
	d := &Delta{Base: 3, Epoch: Epoch(rapid.Uint64().Draw(t, "epoch"))}
	if rapid.Bool().Draw(t, "meta") {
		d.Meta = &DeltaMeta{
			Cluster: [16]byte{1, 2}, NextNum: 7, Changed: 5,
			Keys:     []Key{{ID: 3, Secret: [32]byte{9}}},
			Settings: Settings{Replicas: 2, Refuse: true, MinCopies: 2, ReapAfter: time.Minute, StallTimeout: time.Second},
		}
	}
	if rapid.Bool().Draw(t, "members") {
		d.Members = []Member{{
			Num: 4, ID: member.ID(rapid.StringN(0, 40, 40).Draw(t, "id")), Name: rapid.String().Draw(t, "name"),
			Addr: "a:1", Boot: genBoot(t), State: Leaving, Witness: true, Drain: rapid.Bool().Draw(t, "drain"), Placed: rapid.Bool().Draw(t, "placed"), Discards: uint32(rapid.IntRange(0, 2).Draw(t, "discards")), Weight: 9, Changed: 4,
			Away: time.Duration(rapid.IntRange(0, 1).Draw(t, "away")) * time.Hour,
		}}
		d.Order = []member.Number{4}
	}
	d.Slots = list(t, func(t *rapid.T) SlotChange {
		return SlotChange{genSlot(t), SlotState{
			Home: 1, Swap: rapid.Bool().Draw(t, "swap"), Re: rapid.Uint64().Draw(t, "re"), PrevRe: 2, Owner: 3,
			InSync: list(t, genHolder), Learners: list(t, genHolder), Lost: rapid.Bool().Draw(t, "lost"), Changed: 8,
		}}
	})
	return d
}

func genMessage(t *rapid.T) Message {
	switch rapid.SampledFrom([]Kind{KindRenew, KindGrant, KindNotLeader, KindTableUpdate, KindAddInSync, KindAddInSyncNo, KindReport, KindStop}).Draw(t, "kind") {
	case KindRenew:
		return &Renew{
			From: genHolder(t), ID: member.NewID(), Sent: rapid.Int64().Draw(t, "sent"), Epoch: 9,
			Owned: list(t, func(t *rapid.T) SlotLoad {
				return SlotLoad{genSlot(t), rapid.Bool().Draw(t, "open"), rapid.Uint32().Draw(t, "sessions"), rapid.Bool().Draw(t, "idle")}
			}),
		}
	case KindGrant:
		return &Grant{To: genHolder(t), Sent: rapid.Int64().Draw(t, "sent"), Leader: 2, Term: 8, Table: genDelta(t)}
	case KindNotLeader:
		return &NotLeader{Hint: member.ID(rapid.SampledFrom([]string{"", string(member.NewID())}).Draw(t, "hint"))}
	case KindTableUpdate:
		return &TableUpdate{Table: genDelta(t)}
	case KindAddInSync:
		return &AddInSync{From: genHolder(t), Slots: list(t, genCandidate)}
	case KindAddInSyncNo:
		return &AddInSyncNo{Slots: list(t, genCandidate)}
	case KindReport:
		return &Report{From: genHolder(t), Slow: list(t, genHolder), Unreachable: list(t, func(t *rapid.T) Unreachable {
			return Unreachable{genHolder(t), rapid.Bool().Draw(t, "refused")}
		})}
	}
	return &Stop{From: genHolder(t), Leave: rapid.Bool().Draw(t, "leave"), Done: rapid.Bool().Draw(t, "done")}
}

func TestMessage_roundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := genMessage(t)
		raw := AppendMessage(nil, m)
		got, err := DecodeMessage(raw)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Fatalf("sent %+v, got %+v", m, got)
		}
		for n := range raw {
			if _, err := DecodeMessage(raw[:n]); !errors.Is(err, ErrMalformed) {
				t.Fatalf("cut to %d of %d bytes: %v", n, len(raw), err)
			}
		}
	})
}

func TestDecode_refusesOtherVersions(t *testing.T) {
	t.Parallel()
	raw := AppendMessage(nil, &NotLeader{})
	raw[0]++
	if _, err := DecodeMessage(raw); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if _, err := DecodeTable(append(AppendTable(nil, &Table{}), 0)); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}

func TestTable_encodedSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5, Settings{Replicas: 2})
	if n := len(AppendTable(nil, w.table)); n > 20<<10 {
		t.Errorf("a table of 5 members takes %d bytes", n)
	}
}

func FuzzDecodeMessage(f *testing.F) {
	for _, m := range []Message{
		&Renew{From: Holder{Num: 1}, Owned: []SlotLoad{{Slot: 5, Sessions: 8}}},
		&Grant{Table: &Delta{Slots: []SlotChange{{Slot: 2, State: SlotState{InSync: []Holder{{Num: 4}}}}}}},
		&NotLeader{Hint: "x"}, &TableUpdate{Table: &Delta{Members: []Member{{State: Up}}}}, &AddInSync{Slots: []Candidate{{Slot: 1}}},
		&AddInSyncNo{}, &Report{Slow: []Holder{{Num: 2}}, Unreachable: []Unreachable{{Refused: true}}}, &Stop{Leave: true}, &Stop{Leave: true, Done: true},
	} {
		f.Add(AppendMessage(nil, m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeMessage(b)
		if err != nil {
			return
		}
		again, err := DecodeMessage(AppendMessage(nil, m))
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("%+v became %+v: %v", m, again, err)
		}
	})
}

func FuzzDecodeTable(f *testing.F) {
	f.Add(AppendTable(nil, &Table{}))
	f.Add(AppendTable(nil, newWorld(f, 3, Settings{Replicas: 2}).table))
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := DecodeTable(b)
		if err != nil {
			return
		}
		raw := AppendTable(nil, table)
		again, err := DecodeTable(raw)
		if err != nil || !bytes.Equal(raw, AppendTable(nil, again)) {
			t.Fatalf("a table changes on the way: %v", err)
		}
	})
}

func FuzzDecodeChange(f *testing.F) {
	f.Add(AppendChange(nil, &Change{}))
	f.Add(AppendChange(nil, &Change{Base: 4, Cluster: &[16]byte{}, Settings: &Settings{}, Members: []Member{{State: Up}}, Removed: []member.Number{3}, Slots: []SlotChange{{}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeChange(b)
		if err != nil {
			return
		}
		if _, err := (&Table{Epoch: c.Base}).Apply(c, c.Base+1); err != nil {
			t.Fatal(err)
		}
		raw := AppendChange(nil, c)
		again, err := DecodeChange(raw)
		if err != nil || !bytes.Equal(raw, AppendChange(nil, again)) {
			t.Fatalf("a change changes on the way: %v", err)
		}
	})
}

func FuzzDecodeDelta(f *testing.F) {
	f.Add(AppendDelta(nil, &Delta{Meta: &DeltaMeta{}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := DecodeDelta(b)
		if err != nil {
			return
		}
		if _, err := (&Table{Epoch: d.Base}).Merge(d); err != nil {
			t.Fatal(err)
		}
		raw := AppendDelta(nil, d)
		again, err := DecodeDelta(raw)
		if err != nil || !bytes.Equal(raw, AppendDelta(nil, again)) {
			t.Fatalf("a delta changes on the way: %v", err)
		}
	})
}
