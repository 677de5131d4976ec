//go:build !race

package sim

// fewSeeds is how many seeds run by default.
const fewSeeds = 200
