package proxy

import (
	"sync"
	"sync/atomic"
)

// group is what the instances of one service share. It outlives snapshots.
type group struct {
	slowUntil atomic.Int64 // unix nanoseconds until which one of them starts slowly
	waiting   atomic.Int32 // requests in line

	mu      sync.Mutex // guards the rest; taken only when somebody waits, is ejected or comes back
	line    []*waiter  // in the order in which they came
	came    uint64
	members []*instance // of the latest snapshot
}

// set takes in the service's instances of a new snapshot. Whoever waits chooses
// again among them.
func (g *group) set(list []*instance) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members = list
	for _, w := range g.line {
		g.dropLocked(w)
		w.ready <- nil
	}
	g.line = g.line[:0]
}
