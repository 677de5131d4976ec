//go:build race

package sim

// fewSeeds is how many seeds run by default: the race detector makes each take
// ten times as long, and there is one goroutine in a run.
const fewSeeds = 16
