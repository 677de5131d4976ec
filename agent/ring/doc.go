// Package ring holds the table that the Raft leader owns: the members in
// order, and for each slot of the session space its home, its owner and the
// members whose copies are in sync.
//
// It is pure: no clock, no goroutine, no I/O. It promises that equal input
// gives equal output on every machine, that a Table is never changed once it
// is shared (Apply and Merge make new ones), and that a plan only says what to
// change; proposing it to Raft is the leader's work.
//
// It does not know sessions, connections or gossip.
package ring
