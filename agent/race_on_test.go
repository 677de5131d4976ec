//go:build race

package agent_test

// defaultSeeds: the race detector makes a schedule some ten times as long.
const defaultSeeds = 1
