package agent

import (
	"strings"
	"testing"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/store"
)

// A disk that had failed and is whole again counts from when the table has its
// new id: whole clusters that end before that come back without it.
func TestUnkept(t *testing.T) {
	t.Parallel()
	id, earlier := store.ID{1}, store.ID{2}
	for name, c := range map[string]struct {
		state store.State
		named ring.Store
		want  string
	}{
		"whole and named":           {store.State{Whole: true, ID: id}, id, ""},
		"whole, not named yet":      {store.State{Whole: true, ID: id}, ring.Store{}, "yet to note"},
		"whole, another one named":  {store.State{Whole: true, ID: id}, earlier, "yet to note"},
		"not whole":                 {store.State{Reason: "no room"}, ring.Store{}, "not on disk here: no room"},
		"not whole, once was named": {store.State{Reason: "no room"}, earlier, "not on disk here: no room"},
	} {
		got := unkept(c.state, &ring.Member{Store: c.named})
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
