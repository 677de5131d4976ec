package session

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestIncr_verdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, by, want, code string }{
		"absent":                    {"", "1", "1", ""},
		"whole":                     {"41", "1", "42", ""},
		"negative":                  {"1", "-3", "-2", ""},
		"beyond 2^53":               {"9007199254740993", "2", "9007199254740995", ""},
		"to the largest":            {"9223372036854775806", "1", "9223372036854775807", ""},
		"over the largest":          {"9223372036854775807", "1", "", "out_of_range"},
		"under the smallest":        {"-9223372036854775808", "-1", "", "out_of_range"},
		"stored one over 64 bits":   {"18446744073709551615", "1", "", "out_of_range"},
		"back into 64 bits":         {"9223372036854775808", "-1", "9223372036854775807", ""},
		"thirty digits":             {strings.Repeat("9", 30), "1", "", "out_of_range"},
		"a megabyte of digits":      {strings.Repeat("9", 1<<20), "1", "", "out_of_range"},
		"fraction":                  {"1.5", "1", "2.5", ""},
		"whole in float's clothes":  {"1.0", "1", "2", ""},
		"float by float":            {"0.5", "0.25", "0.75", ""},
		"large float, plain digits": {"1000000.5", "1", "1000001.5", ""},
		"exponent":                  {"1e3", "1", "1001", ""},
		"over every float":          {"1e308", "1e308", "", "out_of_range"},
		"sum infinite":              {"1.7e308", "1.7e308", "", "out_of_range"},
		"number no float holds":     {"1e400", "1", "", "out_of_range"},
		"spaces around":             {" 5 ", "1", "6", ""},
		"text":                      {`"5"`, "1", "", "not_a_number"},
		"object":                    {`{"a":1}`, "1", "", "not_a_number"},
		"null":                      {`null`, "1", "", "not_a_number"},
		"inf is no JSON":            {`inf`, "1", "", "not_a_number"},
		"hexadecimal is no JSON":    {`0x10`, "1", "", "not_a_number"},
		"by text":                   {"1", "x", "", "bad_number"},
		"by infinity":               {"1", "Infinity", "", "bad_number"},
		"by nothing":                {"1", "", "", "bad_number"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rec *Record
			if c.old != "" {
				rec, _ = apply(t, nil, &Request{Kind: Create, ID: "s", Attrs: []Attr{jsonAttr("n", c.old)}}, roomy())
			}
			ch, resp := Apply(rec, &Request{Kind: Incr, ID: "s", Name: "n", Value: []byte(c.by)}, roomy())
			if resp.Code != c.code || (ch == nil) != (c.code != "") {
				t.Fatalf("code %q, change %v, want %q", resp.Code, ch != nil, c.code)
			}
			if ch != nil && (string(resp.Value) != c.want || string(ch.Next.Attr("n").Value) != c.want) {
				t.Errorf("%s + %s = %s, stored %s, want %s", c.old, c.by, resp.Value, ch.Next.Attr("n").Value, c.want)
			}
		})
	}
}

func roomy() Env {
	e := testEnv()
	e.MaxSize = 4 << 20
	return e
}

func TestIncr_binaryRefused(t *testing.T) {
	t.Parallel()
	rec, _ := apply(t, nil, &Request{Kind: SetAttr, ID: "s", Attrs: []Attr{{Name: "b", Value: []byte("1"), Type: "text/plain"}}}, testEnv())
	for kind, code := range map[Kind]string{Incr: "not_a_number", Append: "not_an_array"} {
		if c, resp := Apply(rec, &Request{Kind: kind, ID: "s", Name: "b", Value: []byte("1")}, testEnv()); c != nil || resp.Code != code || resp.Status != Conflict {
			t.Errorf("kind %d: %v, want %s", kind, resp, code)
		}
	}
}

// TestIncr_resultIsJSON: whatever two numbers are added, the sum is a JSON
// number that reads back as the sum.
func TestIncr_resultIsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64().Draw(t, "a"), rapid.Float64().Draw(t, "b")
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		rec, _ := apply2(t, nil, &Request{Kind: Create, ID: "s", Attrs: []Attr{jsonAttr("n", string(x))}}, testEnv())
		c, resp := Apply(rec, &Request{Kind: Incr, ID: "s", Name: "n", Value: y}, testEnv())
		if c == nil {
			if resp.Code != "out_of_range" {
				t.Fatalf("%s + %s: %s", x, y, resp.Code)
			}
			return
		}
		var got float64
		if err := json.Unmarshal(resp.Value, &got); err != nil {
			t.Fatalf("%s + %s = %s: %v", x, y, resp.Value, err)
		}
		// Whole numbers are added as they are written, which may be more exact.
		p, _ := new(big.Rat).SetString(string(x))
		q, _ := new(big.Rat).SetString(string(y))
		if exact, _ := new(big.Rat).Add(p, q).Float64(); got != a+b && got != exact {
			t.Fatalf("%s + %s = %s", x, y, resp.Value)
		}
	})
}

func TestAppend_keepsWhatWasSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, value, want string
		length           int
	}{
		"absent":              {"", `1`, `[1]`, 1},
		"empty":               {`[]`, `1`, `[1]`, 1},
		"empty with spaces":   {` [ ] `, `1`, `[1]`, 1},
		"numbers keep text":   {`[9007199254740993, 1.0, 1e400]`, `18446744073709551615`, `[9007199254740993, 1.0, 1e400,18446744073709551615]`, 4},
		"commas in strings":   {`["a,b\",[", "]"]`, `"c"`, `["a,b\",[", "]","c"]`, 3},
		"nested":              {`[[1,2],{"a":[3,4],"a":5}]`, `[]`, `[[1,2],{"a":[3,4],"a":5},[]]`, 3},
		"backslash at end":    {`["\\"]`, `"x"`, `["\\","x"]`, 2},
		"lone surrogate":      {`["\ud800"]`, `"😀"`, `["\ud800","😀"]`, 2},
		"value is an object":  {`[1]`, `{"b":1,"a":2}`, `[1,{"b":1,"a":2}]`, 2},
		"spaces inside stay":  {`[ 1 , 2 ]`, `3`, `[1 , 2,3]`, 3},
		"null is an element":  {`[null]`, `null`, `[null,null]`, 2},
		"string with newline": {`["a\n"]`, `"b"`, `["a\n","b"]`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rec *Record
			if c.old != "" {
				rec, _ = apply(t, nil, &Request{Kind: Create, ID: "s", Attrs: []Attr{jsonAttr("l", c.old)}}, testEnv())
			}
			next, resp := apply(t, rec, &Request{Kind: Append, ID: "s", Name: "l", Value: []byte(c.value)}, testEnv())
			if got := string(next.Attr("l").Value); got != c.want || resp.Length != c.length {
				t.Errorf("%s with %d elements, want %s with %d", got, resp.Length, c.want, c.length)
			}
		})
	}
	for _, old := range []string{`{}`, `"[]"`, `1`, `null`, `"[`} {
		rec, _ := apply(t, nil, &Request{Kind: Create, ID: "s", Attrs: []Attr{jsonAttr("l", old)}}, testEnv())
		if c, resp := Apply(rec, &Request{Kind: Append, ID: "s", Name: "l", Value: []byte("1")}, testEnv()); c != nil || resp.Code != "not_an_array" {
			t.Errorf("append to %s: %v", old, resp.Code)
		}
	}
}

// TestAppend_countsAsADecoderDoes compares with encoding/json on random arrays.
func TestAppend_countsAsADecoderDoes(t *testing.T) {
	t.Parallel()
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		if depth == 0 {
			return rapid.OneOf(rapid.Map(rapid.Int(), func(i int) any { return i }),
				rapid.Map(rapid.String(), func(s string) any { return s }), rapid.Just(any(nil)))
		}
		return rapid.OneOf(value(0), rapid.Map(rapid.SliceOfN(value(depth-1), 0, 3), func(l []any) any { return append([]any{}, l...) }),
			rapid.Map(rapid.MapOfN(rapid.String(), value(depth-1), 0, 3), func(m map[string]any) any { return m }))
	}
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(value(2), 0, 5).Draw(t, "list")
		old, _ := json.Marshal(append([]any{}, list...))
		v, _ := json.Marshal(value(2).Draw(t, "value"))
		rec, _ := apply2(t, nil, &Request{Kind: Create, ID: "s", Attrs: []Attr{jsonAttr("l", string(old))}}, testEnv())
		next, resp := apply2(t, rec, &Request{Kind: Append, ID: "s", Name: "l", Value: v}, testEnv())
		var got []json.RawMessage
		if err := json.Unmarshal(next.Attr("l").Value, &got); err != nil || len(got) != len(list)+1 || resp.Length != len(got) {
			t.Fatalf("%s + %s = %s: %d elements, said %d, %v", old, v, next.Attr("l").Value, len(got), resp.Length, err)
		}
		if string(got[len(got)-1]) != string(v) {
			t.Fatalf("last element %s, want %s", got[len(got)-1], v)
		}
	})
}

// TestApply_writesOfDifferentAttributesAllSurvive is the case of two requests
// that change one session at a time (D-19), as the owner serializes them.
func TestApply_writesOfDifferentAttributesAllSurvive(t *testing.T) {
	t.Parallel()
	var rec *Record
	for i := range 20 {
		for c := range 50 {
			rec, _ = apply(t, rec, &Request{Kind: Patch, ID: "s", Attrs: []Attr{jsonAttr(fmt.Sprintf("c%d-%d", c, i), "1")}}, testEnv())
		}
	}
	if len(rec.Attrs) != 1000 || rec.Ver != 1000 {
		t.Errorf("%d attributes at version %d, want 1000 of both", len(rec.Attrs), rec.Ver)
	}
}

// TestApply_ifMatchCounter counts by get and conditional put: nothing is lost.
func TestApply_ifMatchCounter(t *testing.T) {
	t.Parallel()
	rec, _ := apply(t, nil, &Request{Kind: Create, ID: "s", Attrs: []Attr{jsonAttr("n", "0")}}, testEnv())
	first := rec.Version()
	for i := range 20 {
		next := fmt.Sprint(i + 1)
		rec, _ = apply(t, rec, &Request{Kind: Put, ID: "s", IfMatch: []Version{rec.Version()}, Attrs: []Attr{jsonAttr("n", next)}}, testEnv())
		c, resp := Apply(rec, &Request{Kind: Put, ID: "s", IfMatch: []Version{first}, Attrs: []Attr{jsonAttr("n", "9")}}, testEnv())
		if c != nil || resp.Status != VersionDiffs || resp.Version != rec.Version() {
			t.Fatalf("a stale version was taken: %+v", resp)
		}
	}
	if got := string(rec.Attr("n").Value); got != "20" {
		t.Errorf("n = %s, want 20", got)
	}
}

func TestApply_refusals(t *testing.T) {
	t.Parallel()
	live, _ := apply(t, nil, &Request{Kind: Create, ID: "s", Attrs: []Attr{jsonAttr("a", "1")}}, testEnv())
	dead, _ := apply(t, live, &Request{Kind: Delete, ID: "s"}, testEnv())
	late := testEnv()
	late.MayCreate = false
	small := testEnv()
	small.MaxSize = 10
	big := []Attr{jsonAttr("abc", "12345678"), jsonAttr("d", "1")}
	for name, c := range map[string]struct {
		rec    *Record
		req    Request
		env    Env
		status Status
		code   string
	}{
		"late first write":         {nil, Request{Kind: Patch}, late, NotFound, "unknown_session"},
		"late delete":              {nil, Request{Kind: Delete}, late, NotFound, "unknown_session"},
		"rotate nothing":           {nil, Request{Kind: Rotate, NewID: "t"}, testEnv(), NotFound, "unknown_session"},
		"patch after delete":       {dead, Request{Kind: Patch}, testEnv(), NotFound, "unknown_session"},
		"create after delete":      {dead, Request{Kind: Create}, testEnv(), NotFound, "unknown_session"},
		"incr after delete":        {dead, Request{Kind: Incr, Name: "a", Value: []byte("1")}, testEnv(), NotFound, "unknown_session"},
		"rotate after delete":      {dead, Request{Kind: Rotate, NewID: "t"}, testEnv(), NotFound, "unknown_session"},
		"delete after delete":      {dead, Request{Kind: Delete}, testEnv(), NotFound, "unknown_session"},
		"create twice":             {live, Request{Kind: Create}, testEnv(), Conflict, "session_exists"},
		"any version of nothing":   {nil, Request{Kind: Patch, IfMatchAny: true}, testEnv(), VersionDiffs, "version_mismatch"},
		"some version of nothing":  {nil, Request{Kind: Patch, IfMatch: []Version{{}}}, testEnv(), VersionDiffs, "version_mismatch"},
		"absent attribute removed": {live, Request{Kind: DelAttr, Name: "z"}, testEnv(), NoAttr, "unknown_attribute"},
		"too large":                {nil, Request{Kind: Create, Attrs: big}, small, TooLarge, "session_too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.req.ID = "s"
			ch, resp := Apply(c.rec, &c.req, c.env)
			if ch != nil || resp.Status != c.status || resp.Code != c.code {
				t.Fatalf("change %v, status %d %s, want %d %s", ch != nil, resp.Status, resp.Code, c.status, c.code)
			}
			if c.status == TooLarge && (resp.LargestAttr != "abc" || resp.Limit != 10 || resp.CurrentLength != 13) {
				t.Errorf("largest %q, limit %d, length %d", resp.LargestAttr, resp.Limit, resp.CurrentLength)
			}
		})
	}
}

func TestApply_anOverfullSessionCanBeDeletedAndRotated(t *testing.T) {
	t.Parallel()
	rec, _ := apply(t, nil, &Request{Kind: Create, ID: "s", Attrs: []Attr{jsonAttr("a", `"0123456789"`)}}, testEnv())
	small := testEnv()
	small.MaxSize = 1
	apply(t, rec, &Request{Kind: Delete, ID: "s"}, small)
	apply(t, rec, &Request{Kind: Rotate, ID: "s", NewID: "t"}, small)
}

func TestApply_anOverfullSessionCanBeMadeSmaller(t *testing.T) {
	t.Parallel()
	rec, _ := apply(t, nil, &Request{Kind: Create, ID: "s", Attrs: []Attr{jsonAttr("a", `"0123456789"`), jsonAttr("b", `"0123456789"`)}}, testEnv())
	small := testEnv()
	small.MaxSize = 5
	shrunk, _ := apply(t, rec, &Request{Kind: DelAttr, ID: "s", Name: "a"}, small)
	apply(t, rec, &Request{Kind: Put, ID: "s", Attrs: []Attr{jsonAttr("b", `"01234567"`)}}, small)
	apply(t, rec, &Request{Kind: Patch, ID: "s", Attrs: []Attr{jsonAttr("a", `"9876543210"`)}}, small) // as large as before
	if shrunk.Size() <= small.MaxSize {
		t.Fatal("still over the limit it must be")
	}
	for _, r := range []*Record{rec, shrunk} {
		if ch, resp := Apply(r, &Request{Kind: Patch, ID: "s", Attrs: []Attr{jsonAttr("c", "1")}}, small); ch != nil || resp.Status != TooLarge {
			t.Errorf("it may grow further: %+v", resp)
		}
	}
}

func TestApply_rotateMakesATwinAndATombstone(t *testing.T) {
	t.Parallel()
	rec, _ := apply(t, nil, &Request{Kind: Create, ID: "s", TTL: time.Minute, MaxAge: time.Hour, Group: "g", Principal: "p", Attrs: []Attr{jsonAttr("a", "1")}, Op: opID(1)}, testEnv())
	req := &Request{Kind: Rotate, ID: "s", NewID: "t", Op: opID(2), Body: 5}
	c, resp := Apply(rec, req, testEnv())
	if c == nil || c.Twin == nil || !c.Full {
		t.Fatalf("no twin: %+v", resp)
	}
	if !c.Next.Dead || c.Next.Rotated != "t" || len(c.Next.Attrs) != 0 || c.Next.Size() != 0 || resp.NewID != "t" {
		t.Errorf("tombstone %+v, new id %q", c.Next, resp.NewID)
	}
	w := *rec
	w.ID, w.Ver, w.Ops = "t", rec.Ver+1, nil
	if merged(c.Twin) != merged(&w) || c.Twin.attrSum != rec.attrSum {
		t.Errorf("twin %s\nwant %s", merged(c.Twin), merged(&w))
	}
	again, r := Apply(c.Next, req, testEnv())
	if again != nil || r.Status != OK || r.NewID != "t" || !r.Replay || r.Version.Ver != c.Next.Ver {
		t.Errorf("sent again: %+v", r)
	}
}

// TestApply_sameOperationTwice: any mutation with an op id, sent again,
// changes nothing and gets the first answer; with another body it is refused.
func TestApply_sameOperationTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		env := testEnv()
		env.KeepDead = rapid.Bool().Draw(t, "keepDead")
		rec, _ := apply2(t, nil, &Request{Kind: Create, ID: "s", Attrs: []Attr{jsonAttr("a", "1"), jsonAttr("l", "[]")}}, env)
		req := genMutation.Draw(t, "request")
		req.Op, req.Body = opID(9), 4
		next, first := Apply(rec, req, env)
		if next == nil {
			return
		}
		rec = next.Next
		for range rapid.IntRange(0, 10).Draw(t, "others") {
			if c, _ := Apply(rec, &Request{Kind: Patch, ID: "s", Attrs: []Attr{jsonAttr("b", "2")}, Op: opID(20 + int(rec.Ver))}, env); c != nil {
				rec = c.Next
			}
		}
		c, resp := Apply(rec, req, env)
		if c != nil || resp.Status != OK || !resp.Replay || resp.ID != first.ID || resp.Version.Ver != first.Version.Ver ||
			string(resp.Value) != string(first.Value) && req.Kind != Rotate || resp.Length != first.Length || resp.NewID != first.NewID {
			t.Fatalf("first %+v\nagain %+v", first, resp)
		}
		req.Body++
		if c, resp := Apply(rec, req, env); c != nil || resp.Code != "idempotency_key_reused" {
			t.Fatalf("another body: %+v", resp)
		}
	})
}

var genMutation = rapid.Custom(func(t *rapid.T) *Request {
	req := &Request{ID: "s", Kind: rapid.SampledFrom([]Kind{Patch, Put, Delete, SetAttr, DelAttr, Incr, Append, Rotate}).Draw(t, "kind")}
	switch req.Kind {
	case Incr:
		req.Name, req.Value = "a", []byte("2")
	case Append:
		req.Name, req.Value = "l", []byte(`"x"`)
	case DelAttr:
		req.Name = rapid.SampledFrom([]string{"a", "b", "l"}).Draw(t, "name")
	case Rotate:
		req.NewID = "t"
	case SetAttr:
		req.Attrs = []Attr{jsonAttr(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"), "7")}
	case Patch, Put:
		for range rapid.IntRange(0, 4).Draw(t, "attrs") {
			a := jsonAttr(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name"), fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "value")))
			if req.Kind == Patch && rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
				a.Dead, a.Value = true, nil
			}
			req.Attrs = append(req.Attrs, a)
		}
	}
	return req
})

// TestApply_deltaEqualsFull runs random mutations and keeps one copy by
// deltas, through their encoding, and one by whole records: both are what the
// owner has, and the living attributes are those of a plain map.
func TestApply_deltaEqualsFull(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		env := testEnv()
		env.KeepDead = rapid.Bool().Draw(t, "keepDead")
		env.KeepDeadAt = 5 * time.Second
		model := map[string]string{"a": "1", "l": "[]"}
		rec, _ := apply2(t, nil, &Request{Kind: Create, ID: "s", Attrs: []Attr{jsonAttr("a", "1"), jsonAttr("l", "[]")}}, env)
		copied := rec
		for range rapid.IntRange(1, 12).Draw(t, "writes") {
			env.Now += int64(time.Second)
			env.Wall += 1000
			env.Stamp = Stamp{HLC: uint64(env.Wall) << 16, Num: 1}
			req := genMutation.Draw(t, "request")
			if rapid.Bool().Draw(t, "hasOp") {
				req.Op = opID(rapid.IntRange(0, 3).Draw(t, "op"))
			}
			base := rec.Version()
			before := merged(rec)
			c, resp := Apply(rec, req, env)
			if merged(rec) != before {
				t.Fatal("Apply changed its input")
			}
			if c == nil {
				continue
			}
			if resp.Status != OK || c.Next.Ver != base.Ver+1 || resp.Version != c.Next.Version() {
				t.Fatalf("version %v after %v, answer %+v", c.Next.Version(), base, resp)
			}
			checkDerived(t, c.Next)
			u := &Update{ID: "s", Full: c.Next}
			if !c.Full {
				u = &Update{ID: "s", Base: base, Next: c.Next.Version(), Set: c.Set, Op: c.Op}
			}
			got, err := recode(t, u).ApplyTo(copied, env.KeepDead, env.Now)
			if err != nil || merged(got) != merged(c.Next) || got.Sum() != c.Next.Sum() || got.Size() != c.Next.Size() {
				t.Fatalf("%v\ncopy  %s\nowner %s", err, merged(got), merged(c.Next))
			}
			rec, copied = c.Next, got
			step(model, req)
			alive := map[string]string{}
			for _, a := range rec.Attrs {
				if !a.Dead {
					alive[a.Name] = string(a.Value)
				}
			}
			if !rec.Dead && fmt.Sprint(alive) != fmt.Sprint(model) {
				t.Fatalf("after %+v: %v, want %v", req, alive, model)
			}
			if !env.KeepDead && slices.ContainsFunc(rec.Attrs, func(a *Attr) bool { return a.Dead }) {
				t.Fatal("a removed attribute left a mark")
			}
		}
	})
}

// step does to a plain map what a mutation does to attributes.
func step(m map[string]string, req *Request) {
	switch req.Kind {
	case Put:
		clear(m)
		fallthrough
	case Patch, SetAttr:
		for _, a := range req.Attrs {
			if a.Dead {
				delete(m, a.Name)
			} else {
				m[a.Name] = string(a.Value)
			}
		}
	case DelAttr:
		delete(m, req.Name)
	case Incr:
		var n int
		fmt.Sscan(m[req.Name], &n)
		m[req.Name] = fmt.Sprint(n + 2)
	case Append:
		old := m[req.Name]
		if old == "" || old == "[]" {
			m[req.Name] = `["x"]`
		} else {
			m[req.Name] = old[:len(old)-1] + `,"x"]`
		}
	}
}

func TestUpdate_refusesAnotherBase(t *testing.T) {
	t.Parallel()
	rec, _ := apply(t, nil, &Request{Kind: Create, ID: "s"}, testEnv())
	dead, _ := apply(t, rec, &Request{Kind: Delete, ID: "s"}, testEnv())
	u := &Update{ID: "s", Base: rec.Version(), Next: Version{rec.Gen, 2}}
	for name, r := range map[string]*Record{"nothing": nil, "newer": rec.Restamp(Version{rec.Gen, 5}), "other generation": rec.Restamp(Version{Gen{Re: 2}, 1}), "tombstone": dead.Restamp(rec.Version())} {
		if _, err := u.ApplyTo(r, false, testNow); err != ErrBase {
			t.Errorf("%s: %v, want ErrBase", name, err)
		}
	}
	if _, err := u.ApplyTo(rec, false, testNow); err != nil {
		t.Errorf("its own base: %v", err)
	}
}
