package proxy

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/cespare/xxhash/v2"
)

// fewEnough is up to how many instances LeastLoad looks at all of; above, two
// random ones are compared, which is nearly as good and costs the same for any number.
const fewEnough = 8

// picker chooses for one request.
type picker struct {
	now      time.Time
	position uint64      // this agent's place in the ring
	tried    []*instance // never again
}

// may reports whether i is still worth a try.
func (k *picker) may(i *instance, suspects bool) bool {
	for _, t := range k.tried {
		if t == i {
			return false
		}
	}
	return suspects || !i.suspected(k.now)
}

// once chooses among list for a client without a session, or returns nil.
// hashKey counts for Hash only.
func (k *picker) once(rt *route, list []*instance, hashKey []byte, suspects bool) *instance {
	if len(list) == 0 {
		return nil
	}
	switch rt.Balance {
	case WeightedRoundRobin:
		return k.weighted(rt, list, suspects)
	case Random:
		return k.from(list, rand.IntN(len(list)), suspects)
	case LeastLoad:
		return k.leastLoad(rt, list, suspects)
	case Hash:
		if len(hashKey) > 0 {
			return k.rendezvous(list, xxhash.Sum64(hashKey), suspects)
		}
	}
	return k.from(list, k.turn(rt, len(list)), suspects)
}

func (k *picker) turn(rt *route, n int) int {
	return int((rt.turn.next.Add(1) - 1 + k.position) % uint64(n))
}

// from takes the first one at or after place.
func (k *picker) from(list []*instance, place int, suspects bool) *instance {
	for n := range list {
		if i := list[(place+n)%len(list)]; k.may(i, suspects) {
			return i
		}
	}
	return nil
}

// weighted is smooth: 5:1:1 gives a a b a c a a, not five in a row.
func (k *picker) weighted(rt *route, list []*instance, suspects bool) *instance {
	rt.turn.mu.Lock()
	defer rt.turn.mu.Unlock()
	cur := rt.turn.current
	var best *instance
	total := 0
	start := int(k.position % uint64(len(list)))
	for n := range list {
		i := list[(start+n)%len(list)]
		if !k.may(i, suspects) {
			continue
		}
		total += i.Weight
		cur[i.backend] += i.Weight
		if best == nil || cur[i.backend] > cur[best.backend] {
			best = i
		}
	}
	if best != nil {
		cur[best.backend] -= total
	}
	return best
}

func (k *picker) leastLoad(rt *route, list []*instance, suspects bool) *instance {
	if len(list) > fewEnough {
		a := rand.IntN(len(list))
		b := rand.IntN(len(list) - 1)
		if b >= a {
			b++
		}
		x, y := list[a], list[b]
		switch {
		case !k.may(x, suspects) && !k.may(y, suspects):
			return k.from(list, a, suspects)
		case !k.may(x, suspects) || k.may(y, suspects) && y.load() < x.load():
			return y
		}
		return x
	}
	var best *instance
	start := k.turn(rt, len(list)) // equals take turns
	for n := range list {
		i := list[(start+n)%len(list)]
		if k.may(i, suspects) && (best == nil || i.load() < best.load()) {
			best = i
		}
	}
	return best
}

// load is what the instance has to do, one more request included, for what it
// can do: its weight, less the share that the application says is taken. A full
// one can still do a little, or nobody would when all are full.
func (i *instance) load() float64 {
	room := max(1-max(i.Load, 0), 0.05)
	return float64(i.inFlight.Load()+1) / (float64(max(i.Weight, 1)) * room)
}

// rendezvous gives every key the instance with the highest score, so that a
// lost instance moves only its own keys, and they return with it.
func (k *picker) rendezvous(list []*instance, hash uint64, suspects bool) *instance {
	var best *instance
	var high float64
	for _, i := range list {
		if !k.may(i, suspects) {
			continue
		}
		h := mix(hash ^ i.hash)
		score := -float64(max(i.Weight, 1)) / math.Log((float64(h>>11)+0.5)/(1<<53))
		if best == nil || score > high {
			best, high = i, score
		}
	}
	return best
}

// mix spreads every bit of x over the whole word.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
