package session

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rondel-project/rondel/agent/internal/codec"
	"github.com/rondel-project/rondel/agent/member"
)

type fataler interface{ Fatalf(string, ...any) }

func recode(t fataler, u *Update) *Update {
	const shift = 5_000_000
	r := codec.NewReader(AppendUpdate(nil, u, testNow))
	got := ReadUpdate(r, testNow+shift)
	if err := r.Done(); err != nil {
		t.Fatalf("update: %v", err)
	}
	unshift(got, shift)
	return got
}

// unshift takes back the difference between two holders' clocks.
func unshift(u *Update, by int64) {
	if u.Op != nil {
		u.Op.At -= by
	}
	if u.Full != nil {
		for i := range u.Full.Ops {
			u.Full.Ops[i].At -= by
		}
	}
}

// plain is an attribute as a request carries it.
func plain(a *Attr) Attr {
	p := Attr{Name: a.Name, Value: a.Value, Type: a.Type, Dead: a.Dead, Stamp: a.Stamp}
	if len(p.Value) == 0 {
		p.Value = nil
	}
	return p
}

// tidy makes nil of empty slices, which the wire does not tell apart.
func tidy(r *Record) *Record {
	if r == nil {
		return nil
	}
	n := *r
	n.Attrs, n.Ops = nil, nil
	for _, a := range r.Attrs {
		x := *a
		if len(x.Value) == 0 {
			x.Value = nil
		}
		n.Attrs = append(n.Attrs, &x)
	}
	for _, o := range r.Ops {
		if len(o.Value) == 0 {
			o.Value = nil
		}
		n.Ops = append(n.Ops, o)
	}
	return &n
}

func TestRecord_roundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rec := genRecord("s").Draw(t, "record")
		u := &Update{
			ID: "s", Full: rec, Left: time.Duration(rapid.Int64().Draw(t, "left")),
			Age: time.Duration(rapid.Int64().Draw(t, "age")),
		}
		got := recode(t, u)
		if !reflect.DeepEqual(tidy(got.Full), tidy(rec)) || got.Left != u.Left || got.Age != u.Age || got.ID != "s" {
			t.Fatalf("got  %+v\nwant %+v", tidy(got.Full), tidy(rec))
		}
		if got.Full.Sum() != rec.Sum() || got.Full.Size() != rec.Size() {
			t.Fatal("derived values differ")
		}
	})
}

func TestUpdate_roundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		u := &Update{ID: "s", Base: genVersion.Draw(t, "base"), Next: genVersion.Draw(t, "next"), Set: genAttrs.Draw(t, "set")}
		if rapid.Bool().Draw(t, "hasOp") {
			op := genOp.Draw(t, "op")
			u.Op = &op
		}
		got := recode(t, u)
		a, b := tidy(&Record{Attrs: got.Set}), tidy(&Record{Attrs: u.Set})
		if !reflect.DeepEqual(a, b) || got.Base != u.Base || got.Next != u.Next || got.Version() != u.Version() || (got.Op == nil) != (u.Op == nil) {
			t.Fatalf("got  %+v\nwant %+v", got, u)
		}
		if u.Op != nil && !reflect.DeepEqual(tidy(&Record{Ops: []Op{*got.Op}}), tidy(&Record{Ops: []Op{*u.Op}})) {
			t.Fatalf("got  %+v\nwant %+v", got.Op, u.Op)
		}
	})
}

// TestOp_agesTravel: the time of an operation is a duration on the wire, cut
// at the longest time that one is remembered.
func TestOp_agesTravel(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]time.Duration{0: 0, time.Second: time.Second, -time.Second: 0, time.Hour: OpsAtMost} {
		r := codec.NewReader(appendOp(nil, &Op{At: 1000 - int64(age)}, 1000))
		if got := readOp(r, 77); 77-got.At != int64(want) || r.Done() != nil {
			t.Errorf("age %v came back as %v, %v", age, time.Duration(77-got.At), r.Err())
		}
	}
}

var genRequest = rapid.Custom(func(t *rapid.T) *Request {
	q := &Request{
		Kind: Kind(rapid.IntRange(int(Get), int(Rotate)).Draw(t, "kind")),
		ID:   ID(rapid.String().Draw(t, "id")), NewID: ID(rapid.String().Draw(t, "newID")), Name: rapid.String().Draw(t, "name"),
		TTL: time.Duration(rapid.Int64Min(0).Draw(t, "ttl")), MaxAge: time.Duration(rapid.Int64Min(0).Draw(t, "maxAge")),
		Group: rapid.String().Draw(t, "group"), Principal: rapid.String().Draw(t, "principal"),
		IfMatchAny: rapid.Bool().Draw(t, "any"), AutoOp: rapid.Bool().Draw(t, "auto"),
		Acks: int8(rapid.IntRange(-1, 2).Draw(t, "acks")), Stale: rapid.Bool().Draw(t, "stale"), Touch: rapid.Bool().Draw(t, "touch"),
	}
	if v := genValue.Draw(t, "value"); len(v) > 0 {
		q.Value = v
	}
	for range rapid.IntRange(0, 3).Draw(t, "ifMatch") {
		q.IfMatch = append(q.IfMatch, genVersion.Draw(t, "version"))
	}
	if rapid.Bool().Draw(t, "hasOp") {
		q.Op, q.Body = opID(rapid.IntRange(0, 9).Draw(t, "op")), rapid.Uint64().Draw(t, "body")
	}
	for _, a := range rapid.SliceOfN(genAttr, 0, 4).Draw(t, "attrs") {
		q.Attrs = append(q.Attrs, plain(a))
	}
	return q
})

func TestRequest_roundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := genRequest.Draw(t, "request")
		r := codec.NewReader(AppendRequest(nil, q))
		got := ReadRequest(r)
		if err := r.Done(); err != nil {
			t.Fatal(err)
		}
		if len(got.Value) == 0 {
			got.Value = nil
		}
		for i := range got.Attrs {
			got.Attrs[i] = plain(&got.Attrs[i])
		}
		if !reflect.DeepEqual(got, q) {
			t.Fatalf("got  %+v\nwant %+v", got, q)
		}
	})
}

var genResponse = rapid.Custom(func(t *rapid.T) *Response {
	p := &Response{
		Status: Status(rapid.IntRange(int(OK), int(Retry)).Draw(t, "status")),
		Code:   rapid.String().Draw(t, "code"), Error: rapid.String().Draw(t, "error"),
		ID: ID(rapid.String().Draw(t, "id")), NewID: ID(rapid.String().Draw(t, "newID")), Version: genVersion.Draw(t, "version"),
		Length: rapid.Int().Draw(t, "length"), Limit: rapid.Int().Draw(t, "limit"), CurrentLength: rapid.Int().Draw(t, "current"),
		LargestAttr: rapid.String().Draw(t, "largest"), Owner: genNum.Draw(t, "owner"),
		Stale: rapid.Bool().Draw(t, "stale"), Replay: rapid.Bool().Draw(t, "replay"),
	}
	for _, d := range []*time.Duration{&p.Left, &p.Age, &p.Idle, &p.RetryAfter} {
		*d = time.Duration(rapid.Int64().Draw(t, "duration"))
	}
	for range rapid.IntRange(0, 3).Draw(t, "replicas") {
		p.Replicas = append(p.Replicas, genNum.Draw(t, "replica"))
	}
	if v := genValue.Draw(t, "value"); len(v) > 0 {
		p.Value = v
	}
	if rapid.Bool().Draw(t, "hasAttr") {
		p.Attr = tidy(&Record{Attrs: []*Attr{genAttr.Draw(t, "attr")}}).Attrs[0]
	}
	if rapid.Bool().Draw(t, "hasRecord") {
		p.Record = tidy(genRecord("s").Draw(t, "record"))
	}
	return p
})

func TestResponse_roundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := genResponse.Draw(t, "response")
		r := codec.NewReader(AppendResponse(nil, p, testNow))
		got := ReadResponse(r, testNow)
		if err := r.Done(); err != nil {
			t.Fatal(err)
		}
		got.Record = tidy(got.Record)
		if len(got.Value) == 0 {
			got.Value = nil
		}
		if got.Attr != nil {
			got.Attr = tidy(&Record{Attrs: []*Attr{got.Attr}}).Attrs[0]
		}
		if p.Record != nil { // what it remembers of resends stays with the owner
			rec := *p.Record
			rec.Ops = nil
			p.Record = &rec
		}
		if !reflect.DeepEqual(got, p) {
			t.Fatalf("got  %+v\nwant %+v", got, p)
		}
	})
}

func TestCodec_brokenRecordsAreRefused(t *testing.T) {
	t.Parallel()
	attr := func(name string) *Attr { return NewAttr(name, nil, "", false, Stamp{}) }
	for name, rec := range map[string]*Record{
		"attributes out of order":   {ID: "s", Attrs: []*Attr{attr("b"), attr("a")}},
		"an attribute twice":        {ID: "s", Attrs: []*Attr{attr("a"), attr("a")}},
		"a tombstone with contents": {ID: "s", Dead: true, Attrs: []*Attr{attr("a")}},
		"no id":                     {},
		"a negative TTL":            {ID: "s", TTL: -1},
		"an id of 5 KiB":            {ID: ID(make([]byte, 5<<10))},
	} {
		r := codec.NewReader(AppendRecord(nil, rec, 0))
		if ReadRecord(r, 0); !errors.Is(r.Done(), codec.ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", name, r.Err())
		}
	}
	big := AppendVersion(nil, Version{Gen: Gen{Re: 1, Detach: 1<<32 - 1, Num: member.Number(1<<32 - 1)}, Ver: 1})
	r := codec.NewReader(big)
	if v := ReadVersion(r); r.Done() != nil || v.Gen.Detach != 1<<32-1 {
		t.Errorf("largest numbers: %v, %v", v, r.Err())
	}
	r = codec.NewReader([]byte{1, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 1})
	if v := ReadVersion(r); !errors.Is(r.Done(), codec.ErrMalformed) {
		t.Errorf("a detach count of 2^32 was cut to %d", v.Gen.Detach)
	}
}
