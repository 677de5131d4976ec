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
