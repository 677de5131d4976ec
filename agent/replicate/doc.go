// Package replicate keeps the copies of each session right: the protocol by
// which an owner and its successors agree, as a pure step core (Node), and the
// Engine that runs it among goroutines, connections and clocks.
//
// The core promises that its next state and what it sends depend only on its
// state and the event: no clock, no goroutine, no map order. The simulation in
// the tests runs this same core through drops, pauses, crashes and partitions.
// DESIGN.md states the rules and their guarantees.
//
// It does not decide who owns what (agent/leader does), and it does not know
// connections: messages leave as values, addressed to one run of one member.
package replicate
