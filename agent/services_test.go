package agent

import (
	"testing"

	"github.com/rondel-project/rondel/agent/catalog"
	"github.com/rondel-project/rondel/agent/load"
)

func TestServices_whatIsWorthTelling(t *testing.T) {
	t.Parallel()
	told := catalog.MemberRecord{Load: load.Load{CPU: 0.5, InFlight: 3}, Sessions: 7, Role: "voter"}
	for name, c := range map[string]struct {
		change func(*catalog.MemberRecord)
		want   bool
	}{
		"nothing":             {func(*catalog.MemberRecord) {}, false},
		"hardly another load": {func(r *catalog.MemberRecord) { r.Load.CPU = 0.505 }, false},
		"another load":        {func(r *catalog.MemberRecord) { r.Load.CPU = 0.9 }, true},
		"more in flight":      {func(r *catalog.MemberRecord) { r.Load.InFlight = 9 }, true},
		"one session more":    {func(r *catalog.MemberRecord) { r.Sessions++ }, true},
		"another role":        {func(r *catalog.MemberRecord) { r.Role = "leader" }, true},
	} {
		next := told
		c.change(&next)
		if got := worthTelling(told, next); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if !worthTelling(catalog.MemberRecord{}, catalog.MemberRecord{}) {
		t.Error("the first record is not told")
	}
}

func TestServices_checksOfInstancesThatWantAHeader(t *testing.T) {
	t.Parallel()
	s := &services{address: func() string { return "127.0.0.1" }}
	for version, want := range map[string]string{"": "", "v1": "PROXY UNKNOWN\r\n", "v2": "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"} {
		specs, err := s.specs(catalog.Registration{Port: 8080, SendProxy: version, Checks: []catalog.Check{{HTTP: "/health"}, {TCP: ":8080"}, {TCP: ":8081"}}})
		if err != nil {
			t.Fatal(err)
		}
		if specs[0].Preface != want || specs[1].Preface != want || specs[2].Preface != "" {
			t.Errorf("%q: probes begin with %q, %q and %q", version, specs[0].Preface, specs[1].Preface, specs[2].Preface)
		}
	}
}
