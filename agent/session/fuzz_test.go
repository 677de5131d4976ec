package session

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/internal/codec"
)

func seedRecords() []*Record {
	live := &Record{
		ID: "s", Gen: Gen{Re: 300, Detach: 1, Num: 2}, Ver: 9, Created: 1_700_000_000_000, TTL: time.Minute, MaxAge: time.Hour,
		Group: "g", Principal: "p",
		Attrs: []*Attr{NewAttr("a", []byte("1"), "", false, Stamp{HLC: 1 << 40, Num: 3}), NewAttr("b", nil, "", true, Stamp{HLC: 2}), NewAttr("c", []byte{0, 255}, "image/png", false, Stamp{})},
		Ops:   []Op{{ID: opID(1), Body: 7, Ver: 8, At: testNow - 5, Value: []byte("3"), Auto: true}},
	}
	live.seal()
	return []*Record{live, {ID: "t", Dead: true, Rotated: "u"}}
}

// FuzzReadRecord: whatever is read without an error is a whole record, and is
// written and read again as the same.
func FuzzReadRecord(f *testing.F) {
	for _, r := range seedRecords() {
		f.Add(AppendRecord(nil, r, testNow))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := codec.NewReader(b)
		rec := ReadRecord(r, testNow)
		if r.Done() != nil {
			return
		}
		if rec.Dead && len(rec.Attrs) > 0 || rec.ID == "" {
			t.Fatalf("a broken record was read: %+v", rec)
		}
		again := AppendRecord(nil, rec, testNow)
		r = codec.NewReader(again)
		got := ReadRecord(r, testNow)
		if r.Done() != nil || got.Sum() != rec.Sum() || !bytes.Equal(AppendRecord(nil, got, testNow), again) {
			t.Fatalf("not the same again: %v", r.Err())
		}
		if m, n := Merge(rec, got); n != 0 || m.Sum() != rec.Sum() {
			t.Fatal("merging with itself changed it")
		}
	})
}

func FuzzReadUpdate(f *testing.F) {
	for _, rec := range seedRecords() {
		f.Add(AppendUpdate(nil, &Update{ID: rec.ID, Full: rec, Left: time.Second, Age: time.Hour}, testNow))
		if !rec.Dead {
			f.Add(AppendUpdate(nil, &Update{ID: rec.ID, Base: rec.Version(), Next: Version{rec.Gen, 10}, Set: rec.Attrs, Op: &rec.Ops[0]}, testNow))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := codec.NewReader(b)
		u := ReadUpdate(r, testNow)
		if r.Done() != nil {
			return
		}
		again := AppendUpdate(nil, u, testNow)
		r = codec.NewReader(again)
		if got := ReadUpdate(r, testNow); r.Done() != nil || !bytes.Equal(AppendUpdate(nil, got, testNow), again) {
			t.Fatalf("not the same again: %v", r.Err())
		}
		base := &Record{ID: u.ID, Gen: u.Base.Gen, Ver: u.Base.Ver}
		if n, err := u.ApplyTo(base, true, testNow); err == nil {
			s := *n
			if s.seal(); s.Sum() != n.Sum() || s.size != n.size {
				t.Fatal("derived values are off")
			}
		}
	})
}

func FuzzReadRequest(f *testing.F) {
	f.Add(AppendRequest(nil, &Request{Kind: Get, ID: "s", Stale: true}))
	f.Add(AppendRequest(nil, &Request{
		Kind: Patch, ID: "s", Attrs: []Attr{*seedRecords()[0].Attrs[0]}, IfMatch: []Version{{Ver: 3}}, Op: opID(3), Body: 8,
		Acks: AcksDefault, AutoOp: true, TTL: time.Minute,
	}))
	f.Add(AppendRequest(nil, &Request{Kind: Rotate, ID: "s", NewID: "t"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := codec.NewReader(b)
		q := ReadRequest(r)
		if r.Done() != nil {
			return
		}
		again := AppendRequest(nil, q)
		r = codec.NewReader(again)
		if got := ReadRequest(r); r.Done() != nil || !bytes.Equal(AppendRequest(nil, got), again) {
			t.Fatalf("not the same again: %v", r.Err())
		}
		// The owner applies what it reads: nothing may break it.
		for _, rec := range append(seedRecords(), nil) {
			if c, resp := Apply(rec, q, testEnv()); q.Kind.Mutates() && (c == nil) == (resp.Status == OK && !resp.Replay) {
				t.Fatalf("kind %d: change %v, answer %+v", q.Kind, c != nil, resp)
			}
		}
	})
}

func FuzzReadResponse(f *testing.F) {
	rec := seedRecords()[0]
	f.Add(AppendResponse(nil, &Response{Status: OK, ID: "s", Record: rec, Attr: rec.Attrs[0], Left: time.Minute, Replicas: nil, Owner: 1}, testNow))
	f.Add(AppendResponse(nil, fail(Unavailable, "no_leader", "later"), testNow))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := codec.NewReader(b)
		p := ReadResponse(r, testNow)
		if r.Done() != nil {
			return
		}
		again := AppendResponse(nil, p, testNow)
		r = codec.NewReader(again)
		if got := ReadResponse(r, testNow); r.Done() != nil || !bytes.Equal(AppendResponse(nil, got, testNow), again) {
			t.Fatalf("not the same again: %v", r.Err())
		}
	})
}

// FuzzParse: an id is accepted only as the very text that was issued.
func FuzzParse(f *testing.F) {
	k := NewKeyring(testKeys(2))
	good := k.Mint(17, time.Unix(1_800_000_000, 0))
	f.Add(string(good))
	f.Add(string(NewKeyring(testKeys(1)).Mint(0, time.Unix(0, 0))))
	for _, bad := range []string{"", "deadbeef", "../x", strings.Repeat("A", IDLen), strings.ToUpper(string(good)), string(good) + "\n", "\n" + string(good[1:])} {
		f.Add(bad)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := k.Parse(s)
		if err == nil && (len(s) != IDLen || p.Slot >= 1024) {
			t.Fatalf("accepted %q as %+v", s, p)
		}
		if q := string(good); err == nil && s != q && (strings.HasPrefix(s, q[:32]) || strings.HasSuffix(s, q[32:])) {
			t.Fatalf("accepted %q", s)
		}
	})
}

func FuzzParseVersion(f *testing.F) {
	f.Add("1-2")
	f.Add("1.2.3-4")
	f.Add("01-02")
	f.Add("-")
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseVersion(s)
		if err != nil {
			return
		}
		if w, err := ParseVersion(v.String()); err != nil || w != v {
			t.Fatalf("%q is %v, which comes back as %v, %v", s, v, w, err)
		}
	})
}
