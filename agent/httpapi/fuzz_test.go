package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rondel-project/rondel/agent/internal/unit"
	"github.com/rondel-project/rondel/agent/session"
	"github.com/rondel-project/rondel/api"
)

// The standard decoder is the judge of what JSON is, up to its depth and to
// UTF-8, which it does not insist on.
func FuzzCheckText(f *testing.F) {
	for _, s := range []string{`{"a":[1,-0.5e+3,true,null,"\u00e9\ud800"]}`, `[]`, `{}`, `[1,]`, `{"a":1,}`, `01`, `"\x"`, "\"\n\"", `nul`, `-`, `1.`, `[[[`, `{"a"}`, ` 1 `, "\xff", `1 2`, `1E1000`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := checkText(in)
		if want := json.Valid(in); (err == nil) != want && (err == nil || strings.ToValidUTF8(string(in), "") == string(in)) {
			t.Fatalf("%q: %v, the standard library says %v", in, err, want)
		}
		if err != nil {
			return
		}
		if !json.Valid(indent(got)) {
			t.Fatalf("%q: indented it is no JSON any more: %q", in, indent(got))
		}
		if ms, err := pairs(got, "value"); err == nil {
			var want map[string]json.RawMessage
			if err := json.Unmarshal(got, &want); err != nil || len(want) != len(ms) {
				t.Fatalf("%q: %d pairs, want %d, %v", in, len(ms), len(want), err)
			}
			for _, m := range ms {
				if string(want[m.name]) != string(m.value) {
					t.Fatalf("%q: %q is %q, want %q", in, m.name, m.value, want[m.name])
				}
			}
		}
	})
}

// Whatever is sent, the answer is JSON with a sensible status, and nothing
// panics.
func FuzzServer(f *testing.F) {
	f.Add("POST", "/v1/sessions", `{"TTL":"30m","Attributes":{"a":{"Base64":"AA==","ContentType":"x/y"}}}`, "application/json")
	f.Add("PUT", "/v1/sessions/ID/attributes/a%2Fb", "\x00\xff", "")
	f.Add("PATCH", "/v1/sessions/ID", `{"Attributes":{"a":null}}`, `"7-1"`)
	f.Add("POST", "/v1/sessions/ID/attributes/l/append", `{"Value":[[1]]}`, "*")
	f.Add("PUT", "/v1/agent/service/register", `{"Name":"a","Port":1,"Checks":[{"TTL":"1s"}]}`, "")
	f.Add("GET", "/v1/ring/locate/%2e%2e?pretty", "", `W/"x", "y"`)
	f.Fuzz(func(t *testing.T, method, target, body, header string) {
		h := newHarness(t)
		at := h.newSession(`{"Attributes":{"l":[0],"n":1}}`)
		target = strings.ReplaceAll(target, "/v1/sessions/ID", at)
		r, err := http.NewRequest(method, "http://127.0.0.1"+target, strings.NewReader(body))
		if err != nil || strings.Contains(target, "monitor") || strings.Contains(target, "stream") || strings.Contains(target, "index") {
			return
		}
		r.Header.Set("Content-Type", header)
		r.Header.Set("If-Match", header)
		if method == "GET" {
			r.Header.Set("If-None-Match", header)
		}
		w := httptest.NewRecorder()
		h.server.ServeHTTP(w, r)
		if w.Code >= 500 && w.Code != 503 || w.Code/100 == 3 && w.Code != 304 {
			t.Fatalf("%s %s: status %d, %s", method, target, w.Code, w.Body)
		}
		if w.Header().Get("Content-Type") == "application/json" && method != "HEAD" && w.Code != 304 && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %s: no JSON: %q", method, target, w.Body)
		}
		if strings.Contains(h.logText.String(), "panic") {
			t.Fatalf("%s", h.logText)
		}
	})
}

func FuzzParseEntityTags(f *testing.F) {
	for _, s := range []string{`*`, `"7-1"`, `W/"7-1", "1.2.3-4"`, `"`, `,,`, `"a""b"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		tags, ok := parseEntityTags([]string{in})
		if ok && !tags.any && len(tags.versions()) == 0 {
			t.Fatalf("%q: a condition that asks for nothing", in)
		}
	})
}

func TestEtag_roundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := session.Version{Ver: rapid.Uint64().Draw(t, "ver")}
		v.Gen.Re = rapid.Uint64().Draw(t, "re")
		v.Gen.Detach = rapid.Uint32().Draw(t, "detach")
		tags, ok := parseEntityTags([]string{`"other"`, etag(v)})
		if !ok || len(tags.versions()) != 2 || tags.versions()[1] != v || !tags.has(v) {
			t.Fatalf("%v became %v", v, tags)
		}
	})
}

// D-31: the API takes and refuses the same durations as the configuration.
func TestDuration_sameVerdictAsConfiguration(t *testing.T) {
	t.Parallel()
	check := func(t interface {
		Errorf(string, ...any)
	}, s string,
	) {
		want, errFile := unit.ParseDuration(s)
		got, errAPI := api.ParseDuration(s)
		if (errFile == nil) != (errAPI == nil) || errAPI == nil && got.Std() != want {
			t.Errorf("%q: configuration %v, %v; API %v, %v", s, want, errFile, got, errAPI)
		}
	}
	for _, s := range []string{"30", "30s", "30 s", "-1s", "1d", "", "null", "1e9", "999999h", "1h30m", "+1s", "0", "0s", "NaN", "Inf", "0x10", "1_000", ".5s", "-0s", "87600h", "87600h1s"} {
		check(t, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, rapid.StringMatching(`[-+]?[0-9.]{0,4}(ns|us|ms|s|m|h|d|)([0-9]{1,3}[smh])?`).Draw(t, "text"))
	})
}
