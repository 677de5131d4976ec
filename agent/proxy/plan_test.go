package proxy

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// D-15: one round is exact, and no instance is ever far from its part.
func TestPlan_roundsAreExactAndSmooth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 40), 1, 20).Draw(t, "weights")
		p := newPlan(routeOver(WeightedRoundRobin, weights...).active)
		if len(p.round) == 0 {
			t.Fatal("no round")
		}
		sum := 0
		for _, w := range weights {
			sum += w
		}
		common := sum / len(p.round)
		count := make([]int, len(weights))
		for n := range p.round {
			count[p.turn(uint64(n))]++
			for i, w := range weights {
				due := float64(w) * float64(n+1) / float64(sum)
				if math.Abs(float64(count[i])-due) > float64(len(weights)) {
					t.Fatalf("after %d turns instance %d has %d, %.1f are due", n+1, i, count[i], due)
				}
			}
		}
		for i, w := range weights {
			if count[i]*common != w {
				t.Fatalf("instance %d of %v has %d of a round of %d", i, weights, count[i], len(p.round))
			}
		}
	})
}

// Weights too many to be dealt exactly are within 2 % from wherever one begins,
// and never far from what is due on the way.
func TestPlan_longRounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 65535), 2, 30).Draw(t, "weights")
		weights[0], weights[1] = 65535, 65534 // nothing in common
		p := newPlan(routeOver(WeightedRoundRobin, weights...).active)
		if len(p.round) != 0 {
			t.Fatal("a round of 65535 and 65534")
		}
		sum := 0
		for _, w := range weights {
			sum += w
		}
		start := rapid.Uint64().Draw(t, "start")
		count := make([]int, len(weights))
		const turns = 10_000
		for n := range uint64(turns) {
			count[p.turn(start+n)]++
			for i, w := range weights {
				if due := float64(w) * float64(n+1) / float64(sum); math.Abs(float64(count[i])-due) > 20 {
					t.Fatalf("after %d turns instance %d has %d, %.1f are due", n+1, i, count[i], due)
				}
			}
		}
	})
}

// No run of five where interleaving is possible, across rounds too.
func TestPlan_interleaves(t *testing.T) {
	t.Parallel()
	p := newPlan(routeOver(WeightedRoundRobin, 5, 1, 1).active)
	run, prev := 0, -1
	for n := range uint64(1000) {
		at := p.turn(n)
		if at == prev {
			run++
		} else {
			run = 1
		}
		if prev = at; run >= 5 {
			t.Fatalf("%d in a row in %v", run, p.round)
		}
	}
}

func TestPlan_placesAreWeights(t *testing.T) {
	t.Parallel()
	p := newPlan(routeOver(Random, 1, 3, 4).active)
	for place, want := range map[uint64]int{0: 0, 1<<61 - 1: 0, 1 << 61: 1, 1<<63 - 1: 1, 1 << 63: 2, math.MaxUint64: 2} {
		if got := p.at(place); got != want {
			t.Errorf("%x belongs to %d, not %d", place, want, got)
		}
	}
}

// D-15: whatever the way, weights hold within 2 % over 10,000 new clients, and
// the weightless get none.
func TestBalance_weightsHold(t *testing.T) {
	t.Parallel()
	for _, how := range []Balance{WeightedRoundRobin, Random} {
		for _, weights := range [][]int{{5, 1, 1}, {1, 0, 1}, {65535, 32768, 0, 1}, {100, 100, 50, 33}} {
			sum := 0
			for _, w := range weights {
				sum += w
			}
			rt := routeOver(how, weights...)
			clients := 10_000
			if how == Random {
				clients *= 10 // among so few chance is off by so much, once in a while
			}
			count := rt.pickN(clients, 12345)
			for n, w := range weights {
				id := rt.group.members[n].ID
				want := clients * w / sum
				if d, most := count[id]-want, clients/50; d < -most || d > most || w == 0 && count[id] > 0 {
					t.Errorf("%d: of %v instance %d got %d, want %d", how, weights, n, count[id], want)
				}
			}
		}
	}
}

// D-15: with all weights 0 nobody is chosen, and it is said why.
func TestBalance_allWeightsZero(t *testing.T) {
	t.Parallel()
	for _, how := range []Balance{RoundRobin, WeightedRoundRobin, Random, LeastLoad, Hash} {
		rt := routeOver(how, 0, 0, 0)
		k := picker{now: time.Now()}
		if i := k.once(rt, rt.active, []byte("k"), true); i != nil {
			t.Errorf("%d chose %s", how, i.ID)
		}
		if got := rt.closed(); got != "every instance of the service has weight 0: none takes new clients" {
			t.Error(got)
		}
	}
}

// Rounds of one agent begin where its start says.
func TestBalance_startsDiffer(t *testing.T) {
	t.Parallel()
	for _, how := range []Balance{RoundRobin, WeightedRoundRobin, LeastLoad} {
		var first []string
		for start := range uint64(30) {
			for id := range routeOver(how, 1, 1, 1).pickN(1, start*golden) {
				first = append(first, id)
			}
		}
		slices.Sort(first)
		if got := slices.Compact(first); len(got) != 3 {
			t.Errorf("%d: all began at %v", how, got)
		}
	}
}

// Choosing allocates nothing, however many there are to choose from.
func TestBalance_allocatesNothing(t *testing.T) {
	for _, how := range []Balance{RoundRobin, WeightedRoundRobin, Random, LeastLoad, Hash} {
		rt := routeOver(how, make1(100)...)
		k := picker{now: time.Now()}
		hashKey := []byte("some key")
		if n := testing.AllocsPerRun(100, func() { k.once(rt, rt.active, hashKey, false) }); n != 0 {
			t.Errorf("%d allocates %v times", how, n)
		}
	}
}

func BenchmarkPick(b *testing.B) {
	for name, how := range map[string]Balance{"round_robin": RoundRobin, "weighted": WeightedRoundRobin, "random": Random, "least_load": LeastLoad, "hash": Hash} {
		for size, n := range map[string]int{"3": 3, "100": 100} {
			b.Run(name+"/"+size, func(b *testing.B) {
				weights := make1(n)
				weights[0] = 7
				rt := routeOver(how, weights...)
				for _, i := range rt.active {
					i.inFlight.Add(5)
				}
				now := time.Now()
				hashKey := []byte("a key of usual length")
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					k := picker{now: now}
					for pb.Next() {
						k.once(rt, rt.active, hashKey, false)
					}
				})
			})
		}
	}
}
