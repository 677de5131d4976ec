// Package leader is the work of the one member that Raft made leader, for one
// term: it watches who is there and how the owners fare, plans the next table,
// proposes it, and grants the leases under which owners serve.
//
// Core is the part that decides: a pure step from an event and a time to
// actions, with no clock, goroutine or I/O, so that the simulator runs the very
// code that a cluster runs. Run drives a Core with the real parts around it.
//
// It promises that one entry is in the log at a time, that a lease is granted
// only after a quorum confirmed the leadership since it was asked for, and that
// nobody is marked down on the word of a single member, or of gossip alone.
// It holds no sessions, and nothing of it outlives a term: a new leader starts
// from the table and from what it hears.
package leader
