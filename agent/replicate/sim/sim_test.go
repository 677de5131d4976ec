package sim

import (
	"flag"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
)

var (
	seeds  = flag.Int("seeds", fewSeeds, "how many seeds TestSim runs")
	seed   = flag.Uint64("seed", 1, "the first seed")
	most   = flag.Int("failures", 3, "after how many failing seeds TestSim stops")
	mode   = flag.String("mode", "", "refuse, serve, partitions, disk, memory, hermit or tight: only seeds of that kind")
	length = flag.Duration("length", 15*time.Second, "simulated time with load and faults")
)

// scenarioOf gives each seed its kind of run: half refuse with partitions, a
// quarter serve without, a quarter serve with; a third of each keeps sessions on
// disk.
func scenarioOf(seed uint64) scenario {
	rng := rand.New(rand.NewPCG(seed, 0xca5e))
	one := func(in int) bool { return rng.IntN(in) == 0 }
	s := scenario{seed: seed, length: *length, members: 5, replicas: 2, syncSlots: ring.Slots, downMax: time.Hour}
	if one(4) {
		s.members = 3 + rng.IntN(2)
	}
	if one(10) {
		s.replicas = 1
	}
	if one(3) {
		s.syncSlots = 64
	}
	if one(4) {
		s.downMax = time.Duration(1+rng.IntN(4)) * time.Second
	}
	s.reapAfter = 20 * time.Second
	if one(4) {
		s.reapAfter = time.Duration(1+rng.IntN(4)) * time.Second
	}
	s.whole, s.late, s.hasty = one(8), one(6), one(3)
	s.operator, s.tight, s.hermit = one(3), one(6), one(20)
	if s.hermit {
		s.downMax = 3 * time.Second
	}
	switch seed % 4 {
	case 0, 2:
		s.refuse, s.partitions = true, true
	case 1:
		s.partitions = true
	}
	s.disk = one(3)
	s.lazy = s.disk && one(4)
	return s
}

const restAtMost = 60 * sc

// simulate runs one scenario to its end.
func simulate(s scenario) *world {
	w := newWorld(s)
	w.at(2*sc, -1, w.faults)
	end := int64(s.length)
	w.run(end)
	w.heal()
	w.run(end + 8*sc) // the last tries of clients
	w.homecoming()
	bad := "never looked"
	for t := int64(0); t < restAtMost && !w.check.over(); t += 2 * sc {
		w.raft.undrain()
		w.run(w.now + 2*sc)
		if bad = w.check.atRest(); bad == "" {
			break
		}
	}
	if w.check.lost {
		w.stats["lost"]++
		return w
	}
	if len(w.check.broken) == 0 && bad != "" {
		w.check.fail("V8: %s", bad)
	}
	if len(w.check.broken) == 0 {
		w.check.final()
	}
	return w
}

func TestSim(t *testing.T) {
	t.Parallel()
	var (
		mu     sync.Mutex // guards the following
		stats  = map[string]int{}
		next   = *seed
		left   = *seeds
		broken int
		wait   sync.WaitGroup
	)
	take := func() (s scenario, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		for ; left > 0 && broken < *most; next++ {
			if s = scenarioOf(next); strings.Contains(s.String(), *mode) {
				left--
				next++
				return s, true
			}
		}
		return s, false
	}
	began := time.Now()
	for range min(runtime.GOMAXPROCS(0), *seeds) {
		wait.Go(func() {
			for {
				s, ok := take()
				if !ok {
					return
				}
				w := simulate(s)
				mu.Lock()
				if len(w.check.broken) > 0 {
					broken++
					t.Errorf("%v:\n  %s\nagain with: go test ./agent/replicate/sim -run TestSim -seeds=1 -seed=%d", w.scenario, strings.Join(w.check.broken, "\n  "), s.seed)
				}
				for k, v := range w.stats {
					stats[k] += v
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	var line []string
	for _, k := range slices.Sorted(maps.Keys(stats)) {
		line = append(line, k+"="+strconv.Itoa(stats[k]))
	}
	t.Logf("%d seeds up to %d in %v: %s", *seeds-left, next-1, time.Since(began).Round(time.Millisecond), strings.Join(line, " "))
}

// TestSim_sameSeedSameRun: without that no failure could be looked into.
func TestSim_sameSeedSameRun(t *testing.T) {
	t.Parallel()
	for n := range uint64(4) {
		s := scenarioOf(1000 + n)
		s.length = 5 * time.Second
		if a, b := simulate(s), simulate(s); a.trace != b.trace {
			t.Errorf("%v: two runs differ", s)
		}
	}
}
