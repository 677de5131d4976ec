package proxy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func (rt *route) hashTo(key []byte) string {
	k := picker{now: time.Now()}
	return k.once(rt, rt.active, key, false).ID
}

// D-16: a lost instance moves its own keys alone, and they return with it;
// every agent has the same map, whatever it went through.
func TestHash_movesLittle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 5), 2, 12).Draw(t, "weights")
		if rapid.Bool().Draw(t, "alike") {
			weights = make1(len(weights))
		}
		rt, other := routeOver(Hash, weights...), routeOver(Hash, weights...)
		all := rt.active
		lost := rapid.IntRange(0, len(all)-1).Draw(t, "lost")
		keys := make([][]byte, 300)
		before := make([]string, len(keys))
		for n := range keys {
			keys[n] = binary.BigEndian.AppendUint64(nil, rapid.Uint64().Draw(t, "key"))
			before[n] = rt.hashTo(keys[n])
		}
		rt.over(slices.Delete(slices.Clone(all), lost, lost+1))
		for n, key := range keys {
			switch got := rt.hashTo(key); {
			case before[n] == all[lost].ID && got == before[n]:
				t.Fatalf("a key stayed with %s, which is gone", got)
			case before[n] != all[lost].ID && got != before[n]:
				t.Fatalf("a key of %s, which lives, moved to %s", before[n], got)
			}
		}
		rt.over(all)
		for n, key := range keys {
			if a, b := rt.hashTo(key), other.hashTo(key); a != before[n] || b != before[n] {
				t.Fatalf("a key of %s came back to %s; another agent sends it to %s", before[n], a, b)
			}
		}
	})
}

// What is asked of a table, of one instance after another, and while one starts
// slowly for the last moment is the same.
func TestHash_tableAndScoresAgree(t *testing.T) {
	t.Parallel()
	for _, weights := range [][]int{{1, 1, 1, 1}, {7, 3, 1}} {
		rt := routeOver(Hash, weights...)
		for n := range 2000 {
			key := []byte(fmt.Sprint(n))
			k := picker{now: time.Now()}
			byTable := k.once(rt, rt.active, key, false)
			owners := rt.owners
			rt.owners = nil
			byScore := k.once(rt, rt.active, key, false)
			rt.owners = owners
			if byTable != byScore {
				t.Fatalf("%s: %s by the table, %s by scores", key, byTable.ID, byScore.ID)
			}
		}
	}
}

// However unevenly keys are used, nobody has more than 1.25 times the mean of
// what is in flight, rounded up.
func TestHash_boundedLoad(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 20).Draw(t, "instances")
		factor := rapid.SampledFrom([]int{101, 125, 200}).Draw(t, "factor")
		rt := routeOver(Hash, make1(n)...)
		rt.HashBalance = factor
		keys := rapid.IntRange(1, 5).Draw(t, "keys")
		var open []*instance
		for step := range rapid.IntRange(1, 600).Draw(t, "requests") {
			if len(open) > 0 && rapid.IntRange(0, 9).Draw(t, "ends") == 0 {
				last := len(open) - 1
				open[last].inFlight.Add(-1)
				open = open[:last]
				continue
			}
			k := picker{now: time.Now()}
			i := k.once(rt, rt.active, []byte{byte(step % keys)}, false)
			most := max(neverBusy, int64(math.Ceil(float64(len(open)+1)/float64(n)*float64(factor)/100)))
			if got := i.inFlight.Add(1); got > most {
				t.Fatalf("%s has %d of %d in flight at %d instances, at most %d are its part", i.ID, got, len(open)+1, n, most)
			}
			open = append(open, i)
		}
	})
	rt := routeOver(Hash, 1, 1, 1)
	rt.HashBalance = 0
	first := rt.hashTo([]byte("k"))
	for range 100 {
		k := picker{now: time.Now()}
		i := k.once(rt, rt.active, []byte("k"), false)
		i.inFlight.Add(1)
		if i.ID != first {
			t.Fatal("a key moved though nothing bounds the load")
		}
	}
}

// D-16: no key, or an empty one, goes by the fallback; nothing of "" is hashed.
func TestHash_withoutKey(t *testing.T) {
	t.Parallel()
	for _, how := range []Balance{RoundRobin, WeightedRoundRobin, Random, LeastLoad} {
		rt := routeOver(Hash, 3, 1)
		rt.HashFallback = how
		rt.over(rt.active)
		a, b := rt.pickN(4000, 0)["i000"], 0
		want := map[Balance]int{RoundRobin: 2000, WeightedRoundRobin: 3000, Random: 3000, LeastLoad: 4000}[how]
		for range 4000 {
			k := picker{now: time.Now()}
			if k.once(rt, rt.active, []byte{}, false).ID == "i000" {
				b++
			}
		}
		if d := a + b - 2*want; d < -200 || d > 200 {
			t.Errorf("%d: %d and %d of 4000, want %d", how, a, b, want)
		}
	}
}

// D-16: the cost of a key is bounded, and long keys still differ by their
// length.
func TestHash_longKeys(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte("x"), 100<<10)
	other := bytes.Clone(long)
	other[len(other)-1] = 'y'
	if hashOf(long) != hashOf(other) {
		t.Error("all of 100 KiB was hashed")
	}
	if hashOf(long) == hashOf(long[:len(long)-1]) || hashOf(long) == hashOf(long[:keyEnough]) {
		t.Error("keys of different length are one")
	}
}

// Buckets and their owners are the same in every version: else the keys of a
// cluster whose agents are renewed one after another would be in two places.
func TestHash_mapIsFixed(t *testing.T) {
	t.Parallel()
	rt := routeOver(Hash, 1, 1, 1, 1)
	got := ""
	for n := range 16 {
		got += rt.hashTo([]byte(fmt.Sprint("key", n)))[3:]
	}
	if want := "1000213322331301"; got != want {
		t.Errorf("keys went to %s, not %s", got, want)
	}
}
