package httpapi

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What is written by hand must be what the standard library writes and reads.
func TestViewText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMilli(rapid.Int64Range(-63e12, 260e12).Draw(t, "ms"))
		want := at.UTC().Format(`"2006-01-02T15:04:05.000Z07:00"`)
		if got := string(appendTime(nil, at)); got != want {
			t.Errorf("time %s, want %s", got, want)
		}
		s := rapid.String().Draw(t, "string")
		var back string
		if err := json.Unmarshal(appendString(nil, s), &back); err != nil || back != s {
			t.Errorf("%q came back as %q: %v", s, back, err)
		}
	})
}
