package agent

import (
	"testing"

	"github.com/rondel-project/rondel/agent/catalog"
	"github.com/rondel-project/rondel/agent/member"
)

// An agent that drains takes its instances' new clients away only where they can
// go: not where backups are all that is left, which wait for the last of the others.
func TestFeed_whoDrainsWithItsMember(t *testing.T) {
	t.Parallel()
	at := func(m string, change ...func(*catalog.Instance)) catalog.Instance {
		i := catalog.Instance{Member: member.ID(m), Weight: 100, Health: catalog.Passing}
		for _, f := range change {
			f(&i)
		}
		return i
	}
	backup := func(i *catalog.Instance) { i.Backup = true }
	down := func(i *catalog.Instance) { i.Health = catalog.Critical }
	for name, c := range map[string]struct {
		list []catalog.Instance // m1 and m2 drain
		want string             // of each: - takes no new clients
	}{
		"another is elsewhere":        {[]catalog.Instance{at("m1"), at("m3")}, "-+"},
		"all of it is there":          {[]catalog.Instance{at("m1"), at("m2")}, "++"},
		"the other is down":           {[]catalog.Instance{at("m1"), at("m3", down)}, "++"},
		"a backup is elsewhere":       {[]catalog.Instance{at("m1"), at("m3", backup)}, "++"},
		"backups here and there":      {[]catalog.Instance{at("m1"), at("m2", backup), at("m3", backup)}, "+-+"},
		"a backup drains, others not": {[]catalog.Instance{at("m1", backup), at("m3")}, "-+"},
	} {
		leaves := leaving(c.list, map[member.ID]bool{"m1": true, "m2": true})
		got := ""
		for _, i := range c.list {
			if leaves(i) {
				got += "-"
			} else {
				got += "+"
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
