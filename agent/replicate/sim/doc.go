// Package sim runs the cores of a whole cluster (replicate.Node on each
// member, leader.Core on the one that leads) through faults, in one goroutine
// and in simulated time, and checks what clients saw.
//
// It has nothing but tests. The same seed gives the same run:
//
//	go test ./agent/replicate/sim -run TestSim -seeds=5000 -seed=1
//
// TestMutations breaks single rules in copies of the source and wants each to
// be noticed; -mutate=N gives it N seeds for each.
//
// It promises that the members' code is the product's own; Raft is one object
// here that commits in order, can be cut off from and can change hands; a disk is
// a list of what a core logs, kept by the rules of agent/store. It does not try
// connections, files or gossip.
package sim
