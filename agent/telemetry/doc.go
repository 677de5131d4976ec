// Package telemetry names every figure that an agent publishes, in one place,
// and keeps those that are counted rather than read.
//
// Each agent has a registry of its own, since several may run in one process.
// Counting is safe from anywhere, takes no lock and allocates nothing. What
// another part keeps anyway (sessions held, the ring's epoch) is read from it
// when somebody asks, through Sources.
//
// Names begin with rondel_; times are in seconds; labels take few values, all
// known beforehand or set by the operator: never a session, a client or a path.
//
// It does not serve anything: the HTTP API reads the registry. The figures that
// memberlist and raft would send to go-metrics' global sink go nowhere, as that
// sink's default is; several agents would mix in it.
package telemetry
