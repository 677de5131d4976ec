package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rondel-project/rondel/agent/session"
	"github.com/rondel-project/rondel/api"
)

func TestSessions_createShowsWhatWasSent(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	w := h.want(h.do("POST", "/v1/sessions", `{"TTL":"20m","Group":"g","Principal":"ann","Attributes":{"cart":[1.0, 1e400 ],"n":9007199254740993}}`), 201)
	var s api.Session
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if s.TTL.String() != "20m" || s.MaxAge.String() != "24h" || s.Group != "g" || s.Principal != "ann" || s.Version != 1 || s.Owner != "m1" {
		t.Errorf("session %+v", s)
	}
	if got := string(s.Attributes["cart"]); got != `[1.0, 1e400 ]` {
		t.Errorf("cart = %s", got)
	}
	if w.Header().Get("Location") != "/v1/sessions/"+s.ID || w.Header().Get("ETag") != `"7-1"` {
		t.Errorf("headers %v", w.Header())
	}
	got := h.want(h.do("GET", "/v1/sessions/"+s.ID, ""), 200)
	var again api.Session
	if err := json.Unmarshal(got.Body.Bytes(), &again); err != nil {
		t.Fatal(err)
	}
	if string(again.Attributes["n"]) != "9007199254740993" || got.Header().Get("ETag") != `"7-1"` {
		t.Errorf("read again: %s", got.Body)
	}
}

func TestSessions_mutationsAnswerVersionAndCopies(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := h.newSession("")
	id := strings.TrimPrefix(at, "/v1/sessions/")
	head := func(n int) string {
		return fmt.Sprintf(`{"ID":"%s","Version":%d,"Owner":"m1","Replicas":["m2","m3"]`, id, n)
	}
	h.want(h.do("PATCH", at, `{"Attributes":{"a":1,"b":"x"}}`), 200, head(2)+"}")
	h.want(h.do("PATCH", at, `{"Attributes":{"b":null}}`), 200, head(3)+"}")
	h.want(h.do("POST", at+"/attributes/a/incr", `{"By":41}`), 200, head(4)+`,"Value":42}`)
	h.want(h.do("POST", at+"/attributes/c/incr", ""), 200, head(5)+`,"Value":1}`)
	h.want(h.do("POST", at+"/attributes/l/append", `{"Value":{"x":1.0}}`), 200, head(6)+`,"Length":1}`)
	h.want(h.do("GET", at+"/attributes/l", ""), 200, `[{"x":1.0}]`)
	h.want(h.do("DELETE", at+"/attributes/l", ""), 200, head(7)+"}")
	h.want(h.do("GET", at+"/attributes/l", ""), 404)
	h.want(h.do("PUT", at, `{"Attributes":{"only":null}}`), 200, head(8)+"}")
	if body := h.do("GET", at, "").Body.String(); !strings.Contains(body, `"Attributes":{"only":null},`) {
		t.Errorf("after put: %s", body)
	}
	h.want(h.do("POST", at+"/attributes/only/incr", ""), 409)
	w := h.want(h.do("POST", at+"/rotate", ""), 200)
	var m api.Mutation
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil || m.ID == id || len(m.ID) != session.IDLen {
		t.Fatalf("rotate: %s, %v", w.Body, err)
	}
	h.want(h.do("GET", at, ""), 404)
	h.want(h.do("GET", "/v1/sessions/"+m.ID, ""), 200)
	h.want(h.do("DELETE", "/v1/sessions/"+m.ID, ""), 200)
	h.want(h.do("PATCH", "/v1/sessions/"+m.ID, `{"Attributes":{"a":1}}`), 404)
}

// D-19: a change on a condition, and reads that know what they have.
func TestSessions_conditions(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := h.newSession(`{"Attributes":{"n":0}}`)
	put := func(ifMatch string) int {
		return h.do("PUT", at, `{"Attributes":{"n":0}}`, "If-Match", ifMatch).Code
	}
	for _, step := range []struct {
		header string
		want   int
	}{
		{`"7-1"`, 200}, {`"7-1"`, 412}, {`"7-2"`, 200}, {`*`, 200}, {`"6-4"`, 412}, {`"1-1", "7-4"`, 200},
		{`W/"7-5"`, 412}, {`"nonsense"`, 412}, {`"nonsense" ,, "7-5"`, 200}, {`"7-06"`, 412}, {`7-6`, 400}, {`"7-6`, 400}, {``, 400}, {`"a" "b"`, 400},
	} {
		if got := put(step.header); got != step.want {
			t.Errorf("If-Match %s: %d, want %d", step.header, got, step.want)
		}
	}
	h.want(h.do("PATCH", at, `{"Attributes":{}}`, "If-None-Match", "*"), 400)

	for header, want := range map[string]int{
		`"7-6"`: 304, `W/"7-6"`: 304, `"1-1", "7-6"`: 304, `*`: 304, `"7-5"`: 200, `"x"`: 200, `broken`: 400,
	} {
		for _, path := range []string{at, at + "/attributes/n"} {
			w := h.do("GET", path, "", "If-None-Match", header)
			if w.Code != want {
				t.Errorf("GET with If-None-Match %s: %d, want %d", header, w.Code, want)
			}
			if want == 304 && (w.Body.Len() != 0 || w.Header().Get("ETag") != `"7-6"`) {
				t.Errorf("304 with body %q and ETag %q", w.Body, w.Header().Get("ETag"))
			}
		}
	}
}

// D-19: increments by read and conditional write lose nothing.
func TestSessions_compareAndSetLosesNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := h.newSession(`{"Attributes":{"n":0}}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for done := 0; done < 20; {
				r := h.do("GET", at+"/attributes/n", "")
				var n int
				fmt.Sscan(r.Body.String(), &n)
				w := h.do("PATCH", at, fmt.Sprintf(`{"Attributes":{"n":%d}}`, n+1), "If-Match", r.Header().Get("ETag"))
				switch w.Code {
				case 200:
					done++
				case 412:
				default:
					t.Errorf("status %d: %s", w.Code, w.Body)
					return
				}
			}
		})
	}
	wg.Wait()
	h.want(h.do("GET", at+"/attributes/n", ""), 200, "160")
}

func TestSessions_optionsReachTheEngine(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := h.newSession("")
	h.want(h.do("GET", at+"?consistency=stale&touch", ""), 200)
	if r := h.engine.lastRequest(); !r.Stale || !r.Touch {
		t.Errorf("request %+v", r)
	}
	for acks, want := range map[string]int8{"": session.AcksDefault, "?acks=0": 0, "?acks=1": 1, "?acks=2": 2} {
		h.want(h.do("PATCH", at+acks, `{"Attributes":{}}`), 200)
		if r := h.engine.lastRequest(); r.Acks != want {
			t.Errorf("%s: acks %d", acks, r.Acks)
		}
	}
	for _, bad := range []string{"?acks=3", "?acks=", "?acks=-1", "?consistency=strong", "?touch=maybe", "?a=%zz"} {
		h.want(h.do("PATCH", at+bad, `{"Attributes":{}}`), 400)
	}
	h.want(h.do("GET", at+"?consistency=stale", ""), 200)
	if body := h.do("GET", at+"?consistency=stale", "").Body.String(); !strings.Contains(body, `"Stale":true`) {
		t.Errorf("stale answer: %s", body)
	}
}

func TestSessions_idempotencyKey(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := h.newSession("")
	key := []string{"Idempotency-Key", "k1"}
	first := h.want(h.do("POST", at+"/attributes/n/incr", `{"By":5}`, key...), 200)
	h.want(h.do("POST", at+"/attributes/n/incr", `{"By":5}`, key...), 200, first.Body.String())
	w := h.want(h.do("POST", at+"/attributes/n/incr", `{"By":6}`, key...), 409)
	if !strings.Contains(w.Body.String(), `"idempotency_key_reused"`) {
		t.Errorf("body %s", w.Body)
	}
	h.want(h.do("POST", at+"/attributes/m/incr", `{"By":6}`, key...), 200) // another path
	h.want(h.do("GET", at+"/attributes/n", ""), 200, "5")
	h.want(h.do("PUT", at+"/attributes/n", `1`, append(key, "Content-Type", "text/plain")...), 200)
	h.want(h.do("PUT", at+"/attributes/n", `1`, append(key, "Content-Type", "application/json")...), 409)
	for _, bad := range []string{"", strings.Repeat("x", 257), "a\x01b", "é"} {
		h.want(h.do("DELETE", at, "", "Idempotency-Key", bad), 400)
	}
	h.want(h.do("DELETE", at, "", "Idempotency-Key", "a", "Idempotency-Key", "b"), 400)
}

// D-21: nothing comes into being under an id that a client made up, and no id
// gets into the log.
func TestSessions_foreignIDs(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	good := h.newSession("")
	gone := h.newSession("")
	h.want(h.do("DELETE", gone, ""), 200)
	ids := map[string]string{
		"made up": "deadbeef", "deleted": strings.TrimPrefix(gone, "/v1/sessions/"), "dots": "%2E%2E%2Fx", "empty": "", "long": strings.Repeat("a", 10<<10),
		"upper case": strings.ToUpper(strings.TrimPrefix(good, "/v1/sessions/")), "right length": strings.Repeat("A", session.IDLen), "binary": "%ff%00",
	}
	for name, id := range ids {
		at := "/v1/sessions/" + id
		for _, w := range []int{
			h.do("GET", at, "").Code,
			h.do("PUT", at, `{"Attributes":{"a":1}}`).Code,
			h.do("PATCH", at, `{"Attributes":{"a":1}}`).Code,
			h.do("DELETE", at, "").Code,
			h.do("POST", at+"/touch", "").Code,
			h.do("POST", at+"/rotate", "").Code,
			h.do("PUT", at+"/attributes/a", "x").Code,
			h.do("GET", at+"/attributes/a", "").Code,
			h.do("POST", at+"/attributes/a/incr", "").Code,
			h.do("POST", at+"/attributes/a/append", `{"Value":1}`).Code,
		} {
			if w != 404 {
				t.Errorf("%s: status %d, want 404", name, w)
			}
		}
	}
	if n := len(h.engine.recs); n != 2 {
		t.Errorf("%d records, want 2", n)
	}
	for _, at := range []string{good, gone} {
		if strings.Contains(h.logText.String(), strings.TrimPrefix(at, "/v1/sessions/")) {
			t.Error("the log names a session id")
		}
	}
}

// D-22: what goes in comes out.
func TestSessions_losslessValues(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := h.newSession("")
	for _, v := range []string{
		`"\ud800"`, `"\ud83d\ude00"`, `"😀"`, `9007199254740993`, `1.0`, `1e400`, `-0`, `{"b":1,"a":2,"b":3}`, `[ 1 ,2]`, `""`, `null`, `"<&>\u2028"`, `"a\/b"`,
		strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth), strings.Repeat(`{"a":`, maxDepth) + "1" + strings.Repeat("}", maxDepth),
	} {
		h.want(h.do("PATCH", at, `{"Attributes":{"v": `+v+` ,"w":0}}`), 200)
		if v == "null" {
			continue // removes
		}
		h.want(h.do("GET", at+"/attributes/v", ""), 200, v)
		if body := h.do("GET", at, "").Body.String(); !strings.Contains(body, `"Attributes":{"v":`+v+`,"w":0}`) {
			t.Errorf("%.40s: shown as %.300s", v, body)
		}
		h.want(h.do("PUT", at+"/attributes/v", v, "Content-Type", "application/json; charset=utf-8"), 200)
		w := h.want(h.do("GET", at+"/attributes/v", ""), 200, v)
		if w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("content type %q", w.Header().Get("Content-Type"))
		}
	}
}

// D-22: one limit of nesting holds for a value, whatever it comes in.
func TestSessions_depth(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, n := range []int{maxDepth, maxDepth + 1} {
		want := 200
		if n > maxDepth {
			want = 400
		}
		at := h.newSession("")
		h.want(h.do("PUT", at, `{"Attributes":{"v":`+nested(n)+`}}`), want)
		h.want(h.do("PATCH", at, `{"Attributes":{"w":`+nested(n)+`}}`), want)
		h.want(h.do("PUT", at+"/attributes/x", nested(n), "Content-Type", "application/json"), want)
		h.want(h.do("POST", at+"/attributes/y/append", `{"Value":`+nested(n-1)+`}`), want)
		created := h.do("POST", "/v1/sessions", `{"Attributes":{"v":`+nested(n)+`}}`)
		if created.Code/100 != want/100 {
			t.Errorf("created with a value of depth %d: %d", n, created.Code)
		}
		if want == 400 && !strings.Contains(created.Body.String(), "a value nests deeper than 10000") {
			t.Errorf("the reason: %s", created.Body)
		}
	}
}

func TestSessions_losslessBytes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := h.newSession("")
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, v := range []string{string(all), "\xff\xfe", "", `{"a":1}`, "\x00"} {
		for given, want := range map[string]string{"": "application/octet-stream", "image/png": "image/png", "application/ld+json": "application/ld+json"} {
			headers := []string{"Content-Type", given}
			if given == "" {
				headers = nil
			}
			h.want(h.do("PUT", at+"/attributes/v", v, headers...), 200)
			w := h.want(h.do("GET", at+"/attributes/v", ""), 200, v)
			if w.Header().Get("Content-Type") != want {
				t.Errorf("content type %q, want %q", w.Header().Get("Content-Type"), want)
			}
			// What a read shows can be written back.
			var s struct{ Attributes json.RawMessage }
			if err := json.Unmarshal(h.do("GET", at, "").Body.Bytes(), &s); err != nil {
				t.Fatal(err)
			}
			h.want(h.do("PUT", at, `{"Attributes":`+string(s.Attributes)+`}`), 200)
			w = h.want(h.do("GET", at+"/attributes/v", ""), 200, v)
			if w.Header().Get("Content-Type") != want {
				t.Errorf("written back: content type %q, want %q", w.Header().Get("Content-Type"), want)
			}
		}
	}
	h.want(h.do("PATCH", at, `{"Attributes":{"v":{"Base64":"/w==","ContentType":"a/b","More":1}}}`), 200)
	h.want(h.do("GET", at+"/attributes/v", ""), 200, `{"Base64":"/w==","ContentType":"a/b","More":1}`)
	h.want(h.do("PATCH", at, `{"Attributes":{"v":{"Base64":"/w==","ContentType":"a\nb"}}}`), 400)
}

func TestSessions_sizes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.engine.maxSize = 1000
	h.server.Reload(nil, 1000)
	at := h.newSession(`{"Attributes":{"keep":1}}`)
	room := 1000 - len("keep1") - len("v")
	h.want(h.do("PATCH", at, `{"Attributes":{"v":"`+strings.Repeat("x", room-2)+`"}}`), 200)
	for body, wants := range map[string][]string{
		`{"Attributes":{"v":"` + strings.Repeat("x", room-1) + `"}}`:                     {"session_too_large", "1000", `\"v\"`},
		`{"Attributes":{"s":"x","v":"` + strings.Repeat("x", h.server.maxBody()) + `"}}`: {"too_large", "1000", `\"v\"`},
	} {
		w := h.want(h.do("PATCH", at, body), 413)
		for _, want := range wants {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("answer %s does not name %s", w.Body, want)
			}
		}
	}
	w := h.want(h.do("PUT", at+"/attributes/raw", strings.Repeat("x", h.server.maxBody()+1)), 413)
	if !strings.Contains(w.Body.String(), `\"raw\"`) {
		t.Errorf("answer %s", w.Body)
	}
	if got := h.do("GET", at+"/attributes/v", "").Body.Len(); got != room {
		t.Errorf("after refusals: %d bytes, want %d", got, room)
	}
}

// D-23: each name is what its escaped form says, once.
func TestSessions_oddNames(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := h.newSession("")
	names := []string{"a/b", "a%2Fb", "a%b", "a+b", "a b", "//", ".", "..", "é", "\x00", strings.Repeat("n", 300), "@:?#&=", "attributes", "incr", `"`, "\u2028"}
	for _, name := range names {
		escaped := url.PathEscape(name)
		for _, form := range []string{escaped, everyByte(name)} {
			h.want(h.do("PUT", at+"/attributes/"+form, name, "Content-Type", "text/plain"), 200)
			h.want(h.do("GET", at+"/attributes/"+form, ""), 200, name)
		}
		body, _ := json.Marshal(map[string]any{"Attributes": map[string]string{name: "patched"}})
		h.want(h.do("PATCH", at, string(body)), 200)
		h.want(h.do("GET", at+"/attributes/"+escaped, ""), 200, `"patched"`)
	}
	var s api.Session
	if err := json.Unmarshal(h.do("GET", at, "").Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if s.Attributes[name] == nil {
			t.Errorf("the session does not show %q", name)
		}
		h.want(h.do("DELETE", at+"/attributes/"+url.PathEscape(name), ""), 200)
	}
	for _, bad := range []string{"", "%FF", "%C3%28", strings.Repeat("n", maxNameLen+1)} {
		w := h.want(h.do("PUT", at+"/attributes/"+bad, "x"), 400)
		if !strings.Contains(w.Body.String(), `"bad_name"`) {
			t.Errorf("%q: %s", bad, w.Body)
		}
	}
	h.want(h.do("PATCH", at, `{"Attributes":{"":1}}`), 400)
	h.want(h.do("PATCH", at, `{"Attributes":{"\ud800":1}}`), 400)
	h.want(h.do("PATCH", at, `{"Attributes":{"a":1,"\u0061":2}}`), 400)
}

// everyByte escapes all bytes of a name.
func everyByte(name string) string {
	var b strings.Builder
	for i := range len(name) {
		fmt.Fprintf(&b, "%%%02x", name[i])
	}
	return b.String()
}

func TestSessions_badBodies(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := h.newSession(`{"Attributes":{"keep":1}}`)
	calls := h.engine.count()
	for _, c := range []struct{ method, path, body, code string }{
		{"PATCH", at, ``, "bad_request"},
		{"PATCH", at, `{}`, "bad_request"},
		{"PUT", at, `{}`, "bad_request"},
		{"PUT", at, `[]`, "bad_request"},
		{"PATCH", at, `{"Attributes":[]}`, "bad_request"},
		{"PATCH", at, `{"Attributes":null}`, "bad_request"},
		{"PATCH", at, `{"attributes":{}}`, "unknown_key"},
		{"PATCH", at, `{"Attributes":{},"TTL":"1h"}`, "unknown_key"},
		{"PATCH", at, `{"Attributes":{}} x`, "bad_request"},
		{"PATCH", at, `{"Attributes":{"a":`, "bad_request"},
		{"PATCH", at, "{\"Attributes\":{\"a\":\"\xff\"}}", "bad_request"},
		{"PATCH", at, `{"Attributes":{"a":NaN}}`, "bad_request"},
		{"PATCH", at, `{"Attributes":{"a":01}}`, "bad_request"},
		{"PATCH", at, `{"Attributes":{"a":` + strings.Repeat("[", 200_000) + `}}`, "bad_request"},
		{"POST", "/v1/sessions", `{"TTL":30}`, "bad_duration"},
		{"POST", "/v1/sessions", `{"TTL":"30"}`, "bad_duration"},
		{"POST", "/v1/sessions", `{"TTL":"0s"}`, "bad_duration"},
		{"POST", "/v1/sessions", `{"TTL":"-1s"}`, "bad_duration"},
		{"POST", "/v1/sessions", `{"TTL":null}`, "bad_duration"},
		{"POST", "/v1/sessions", `{"MaxAge":1e9}`, "bad_duration"},
		{"POST", "/v1/sessions", `{"Group":1}`, "bad_request"},
		{"POST", "/v1/sessions", `{"ID":"x"}`, "unknown_key"},
		{"POST", at + "/attributes/n/incr", `{"By":"1"}`, "bad_request"},
		{"POST", at + "/attributes/n/incr", `{"By":1,"Max":2}`, "unknown_key"},
		{"POST", at + "/attributes/n/append", ``, "bad_request"},
		{"POST", at + "/attributes/n/append", `{}`, "bad_request"},
		{"POST", at + "/touch", `{"TTL":"1h"}`, "unknown_key"},
		{"PUT", at + "/attributes/n", `{`, ""}, // binary: fine
	} {
		w := h.do(c.method, c.path, c.body)
		if c.code == "" {
			h.want(w, 200)
			calls++
			continue
		}
		h.want(w, 400)
		var e api.Error
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || string(e.Code) != c.code || e.Message == "" {
			t.Errorf("%s %.60s: answer %s, want code %s", c.method, c.body, w.Body, c.code)
		}
	}
	h.want(h.do("PUT", at+"/attributes/n", `{`, "Content-Type", "application/json"), 400)
	if h.engine.count() != calls {
		t.Errorf("a bad request got to the engine")
	}
}

func TestSessions_engineRefusals(t *testing.T) {
	t.Parallel()
	for status, want := range map[session.Status]int{
		session.NotFound: 404, session.NoAttr: 404, session.Invalid: 400, session.Conflict: 409, session.VersionDiffs: 412,
		session.TooLarge: 413, session.Unavailable: 503, session.UnknownEnd: 504, session.Retry: 503, 0: 500,
	} {
		h := newHarness(t)
		at := h.newSession("")
		h.engine.answer = &session.Response{Status: status}
		w := h.want(h.do("PATCH", at, `{"Attributes":{}}`), want)
		var e api.Error
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Code == "" || e.Message == "" {
			t.Errorf("%d: body %s", want, w.Body)
		}
		if got := w.Header().Get("Retry-After"); (got == "1") != (want == 503) {
			t.Errorf("%d: Retry-After %q", want, got)
		}
		if w.Header().Get("ETag") != "" {
			t.Errorf("%d: an error has an ETag", want)
		}
	}
}

func TestSessions_list(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.want(h.do("GET", "/v1/sessions", ""), 200, "[]")
	var ids []string
	for i := range 5 {
		at := h.newSession(fmt.Sprintf(`{"Group":"g%d","Attributes":{"secret":"contents"}}`, i%2))
		ids = append(ids, strings.TrimPrefix(at, "/v1/sessions/"))
	}
	slices.Sort(ids)
	var got []string
	for after := ""; ; after = got[len(got)-1] {
		w := h.want(h.do("GET", "/v1/sessions?limit=2&after="+after, ""), 200)
		if strings.Contains(w.Body.String(), "contents") {
			t.Fatal("a listing shows contents")
		}
		var page []api.SessionListEntry
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			got = append(got, e.ID)
		}
	}
	if !slices.Equal(got, ids) {
		t.Errorf("listed %v, want %v", got, ids)
	}
	for _, bad := range []string{"0", "-1", "x"} {
		h.want(h.do("GET", "/v1/sessions?limit="+bad, ""), 400)
	}
}

func TestSessions_unreachableIsNotGone(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.engine.mintErr = fmt.Errorf("no table: %w", ErrUnavailable)
	w := h.want(h.do("POST", "/v1/sessions", ""), http.StatusServiceUnavailable)
	if w.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}
