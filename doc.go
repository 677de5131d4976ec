// Rondel is one program: the agent that runs on each machine of a cluster, and
// the commands that talk to it.
package main
