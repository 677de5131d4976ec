package leave

import (
	"strings"
	"testing"

	"github.com/rondel-project/rondel/api"
)

// Who waits for a leave sees whether it waits for sessions or for requests.
func TestLeft(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]api.RingMember{
		"web1 serves 3 slots and 7 sessions": {Owned: 3, Sessions: 7},
		"holds copies of 1 slot for others":  {Copies: 1},
		"web1 has handed over everything":    {State: "leaving"},
		"web1 is not in the ring any more":   {Name: "web2"},
	} {
		if m.Name == "" {
			m.Name = "web1"
		}
		if got := left(&api.RingInfo{Members: []api.RingMember{m}}, "web1"); !strings.Contains(got, want) {
			t.Errorf("%+v: %q, want %q", m, got, want)
		}
	}
}
