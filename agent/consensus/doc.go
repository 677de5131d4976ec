// Package consensus keeps the ring's table in a Raft log: hashicorp/raft, a
// write-ahead log on disk and a state machine that is one ring.Table.
//
// It promises that a change is applied on every server in the same order and
// only to the table it was planned from, that a table handed out never changes,
// that a log which was damaged or cut short on disk is refused at the start
// rather than voted with, and that a cluster is made only once by the servers
// that were to make it. Leader work runs one term at a time, after a barrier.
//
// It plans nothing, knows no sessions, and does not say who should be a server.
package consensus
