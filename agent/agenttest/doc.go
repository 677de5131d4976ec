// Package agenttest runs whole agents as one cluster inside a testing/synctest
// bubble: real agents, real Raft, real gossip and the real HTTP API, on a
// network in memory and in fake time. A death and a failover take milliseconds.
//
// It owns that network, the agents on it and the faults that can be made there:
// Cut, Heal, Slow, Crash, Stop, Restart. It promises that all agents and
// connections have ended when the test has, and prints the end of the agents'
// logs when it failed.
//
// Time is fake and exact, but the order in which goroutines run is not: two
// runs of one test differ. It does not replace the simulation of the session
// protocol, which repeats a seed to the letter. Only tests import it.
package agenttest
