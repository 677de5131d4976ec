package proxy

import (
	"math/bits"
	"slices"
)

// longestRound bounds a round that is worked out beforehand.
const longestRound = 4096

// golden is 2^64 divided by the golden ratio. Multiples of it, taken as places
// on a circle, are as evenly spread as any sequence can be, whatever its
// beginning and however long it is.
const golden = 0x9e3779b97f4a7c15

// plan is how turns are dealt out by weight. It never changes, so dealing takes
// no more than one atomic addition whoever else deals at the same time.
type plan struct {
	list  []*instance
	ends  []uint64 // the sums of weights up to and with each instance's
	round []uint16 // whose turn it is, or nothing where a round would be too long
}

func newPlan(list []*instance) *plan {
	p := &plan{list: list, ends: make([]uint64, len(list))}
	weights := make([]int, len(list))
	sum, common := 0, 0
	for n, i := range list {
		weights[n] = max(i.Weight, 1)
		sum += weights[n]
		p.ends[n] = uint64(sum)
		common = divisor(common, weights[n])
	}
	if len(list) > 0 && sum/common <= longestRound {
		p.round = smooth(weights, common)
	}
	return p
}

// of reports whether p deals to these very instances.
func (p *plan) of(list []*instance) bool {
	return len(p.list) == len(list) && len(list) > 0 && &p.list[0] == &list[0]
}

// turn returns whose turn the n-th is. Where weights are too many to be dealt
// exactly, the turns of any stretch differ by a handful from what is due.
func (p *plan) turn(n uint64) int {
	if len(p.round) > 0 {
		return int(p.round[n%uint64(len(p.round))])
	}
	return p.at(n * golden)
}

// at returns who owns a place on the circle of all weights.
func (p *plan) at(place uint64) int {
	hi, _ := bits.Mul64(place, p.ends[len(p.ends)-1])
	at, found := slices.BinarySearch(p.ends, hi)
	if found {
		at++
	}
	return at
}

// smooth deals one round: 5:1:1 gives a a b a c a a, not five in a row.
func smooth(weights []int, common int) []uint16 {
	var round []uint16
	current := make([]int, len(weights))
	sum := 0
	for _, w := range weights {
		sum += w / common
	}
	for range sum {
		best := 0
		for n, w := range weights {
			current[n] += w / common
			if current[n] > current[best] {
				best = n
			}
		}
		current[best] -= sum
		round = append(round, uint16(best))
	}
	return round
}

func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
