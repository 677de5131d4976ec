package replicate

import (
	"fmt"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/rondel-project/rondel/agent/session"
)

// Two sessions that share a place in the filter must not let each other
// through; a third makes way for the one used last.
func TestTouchFilterPairs(t *testing.T) {
	t.Parallel()
	f := touchFilter{every: time.Minute}
	var same []session.ID
	for i := 0; len(same) < 3; i++ {
		id := session.ID(fmt.Sprint("session ", i))
		if xxhash.Sum64String(string(id))%uint64(len(f.pairs)) == 7 {
			same = append(same, id)
		}
	}
	now := time.UnixMilli(1_000_000_000)
	due := func(id session.ID, want bool) {
		t.Helper()
		now = now.Add(time.Millisecond)
		if got := f.due(id, now); got != want {
			t.Errorf("%s is due: %t, want %t", id, got, want)
		}
	}
	due(same[0], true)
	due(same[1], true)
	for range 10 {
		due(same[0], false)
		due(same[1], false)
	}
	due(same[2], true) // in the place of the older one, the first
	due(same[1], false)
	due(same[2], false)
	now = now.Add(time.Minute)
	due(same[1], true)
	due(same[2], true)
	due(same[1], false)
	due(same[2], false)
}
