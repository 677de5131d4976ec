// Package demo is the verb that shows Rondel at work on one machine: three
// agents and three shops as processes of their own, for a person to kill.
//
// With a terminal it stays up; without one it plays the story once and ends;
// with -selftest it does so under load and says what was lost. What stands is
// in stage, what clients do and count in load, the application in shop; this
// package decides what happens when, and says it. The shop processes are a mode
// of this verb that its help does not explain.
//
// It uses nothing of Rondel but the command line, the HTTP API and the proxy.
package demo
