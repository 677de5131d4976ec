package api

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

func TestDuration_json(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]time.Duration{`"30m"`: 30 * time.Minute, `"1h30m"`: 90 * time.Minute, `"0s"`: 0, `"\u0031s"`: time.Second} {
		var d Duration
		if err := json.Unmarshal([]byte(in), &d); err != nil || d.Std() != want {
			t.Errorf("%s: %s, %v", in, d, err)
		}
	}
	for _, in := range []string{`30`, `"30"`, `"30 s"`, `"-1s"`, `"1d"`, `""`, `null`, `1e9`, `"999999h"`, `true`, `{}`, `["1s"]`} {
		var d Duration
		if err := json.Unmarshal([]byte(in), &d); !errors.Is(err, ErrDuration) {
			t.Errorf("%s: %s, %v, want an error", in, d, err)
		}
	}
	for d, want := range map[time.Duration]string{30 * time.Minute: `"30m"`, 24 * time.Hour: `"24h"`, 90 * time.Second: `"1m30s"`, 0: `"0s"`, 10 * time.Hour: `"10h"`, 10 * time.Minute: `"10m"`, time.Hour + time.Second: `"1h0m1s"`} {
		got, err := json.Marshal(Duration(d))
		if err != nil || string(got) != want {
			t.Errorf("%v: %s, %v, want %s", d, got, err, want)
		}
	}
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"30m", "1.5h", "-1s", "", "1e9", "87600h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		d, err := ParseDuration(in)
		if err != nil {
			return
		}
		if again, err := ParseDuration(d.String()); err != nil || again != d {
			t.Fatalf("%q became %s, which reads as %s, %v", in, d, again, err)
		}
	})
}

func TestBinary_json(t *testing.T) {
	t.Parallel()
	b, err := marshal(map[string]any{"b": Binary{Base64: []byte{0xff, 0}, ContentType: "image/png"}, "html": "<&>", "raw": json.RawMessage(`1e400`)})
	if err != nil || string(b) != `{"b":{"Base64":"/wA=","ContentType":"image/png"},"html":"<&>","raw":1e400}` {
		t.Errorf("%s, %v", b, err)
	}
}

func TestPath_escapesEachName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a/b": "/p/a%2Fb", "a%2Fb": "/p/a%252Fb", ".": "/p/%2E", "..": "/p/%2E%2E", "a b+c": "/p/a%20b+c", "é": "/p/%C3%A9", "?#": "/p/%3F%23", "": "/p/",
	} {
		if got := path("/p", name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
