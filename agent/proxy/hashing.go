package proxy

import (
	"math"
	"slices"
)

const (
	bucketBits = 13
	buckets    = 1 << bucketBits

	neverBusy = 4 // requests in flight
)

// ownership says which instance owns each bucket of keys: the one with the
// highest score. So a lost instance moves only its own keys, and they return
// with it. What is worked out here saves each request from asking all of many
// instances.
type ownership struct {
	list    []*instance
	weights []int
	owner   []uint16
}

// newOwnership works out who owns what, or takes the answer of old if that is
// for the same instances.
func newOwnership(list []*instance, old *ownership) *ownership {
	o := &ownership{list: list, weights: make([]int, len(list))}
	for n, i := range list {
		o.weights[n] = i.Weight
	}
	if old != nil && slices.Equal(o.weights, old.weights) && slices.EqualFunc(list, old.list, func(a, b *instance) bool { return a.hash == b.hash }) {
		o.owner = old.owner
		return o
	}
	o.owner = make([]uint16, buckets)
	same := len(list) > 0 && slices.Max(o.weights) == slices.Min(o.weights)
	for b := range o.owner {
		hash, best, high, highest := bucketHash(b), 0, 0.0, uint64(0)
		for n, i := range list {
			if same { // then the scores' order is that of the hashes
				if h := mix(hash^i.hash) >> 11; n == 0 || h > highest {
					best, highest = n, h
				}
			} else if s := score(hash, i.hash, float64(o.weights[n])); n == 0 || s > high {
				best, high = n, s
			}
		}
		o.owner[b] = uint16(best)
	}
	return o
}

// of reports whether o is about these very instances.
func (o *ownership) of(list []*instance) bool {
	return len(o.list) == len(list) && len(list) > 0 && &o.list[0] == &list[0]
}

func bucketOf(hash uint64) int { return int(mix(hash) >> (64 - bucketBits)) }

func bucketHash(bucket int) uint64 { return mix(uint64(bucket) + golden) }

// score is that of rendezvous hashing with weights.
func score(key, instance uint64, weight float64) float64 {
	return -max(weight, 1e-9) / math.Log((float64(mix(key^instance)>>11)+0.5)/(1<<53))
}

// hashed gives a key the owner of its bucket, and where that may not be used,
// has more than its part to do, or is starting slowly, the next one.
func (k *picker) hashed(rt *route, list []*instance, hash uint64, suspects bool) *instance {
	bucket := bucketOf(hash)
	var b bound
	if rt.HashBalance > 0 {
		b = k.bound(list, rt.HashBalance)
	}
	if o := rt.owners; o != nil && !k.slow && o.of(list) {
		if i := list[o.owner[bucket]]; k.may(rt, i, suspects) && b.allows(k, i) {
			return i
		}
	}
	var best, any *instance
	var high, anyHigh float64
	key := bucketHash(bucket)
	for _, i := range list {
		if !k.may(rt, i, suspects) {
			continue
		}
		s := score(key, i.hash, k.weight(i))
		if any == nil || s > anyHigh {
			any, anyHigh = i, s
		}
		if (best == nil || s > high) && b.allows(k, i) {
			best, high = i, s
		}
	}
	if best == nil {
		return any // all that are left are busy
	}
	return best
}

// bound is how many requests an instance may have for each unit of weight; none
// where it is 0.
type bound float64

// bound shares what there is to do, one more request included, among all by
// their weights, and allows percent of each one's part.
func (k *picker) bound(list []*instance, percent int) bound {
	sum, weights := 1.0, 0.0
	for _, i := range list {
		sum += float64(i.inFlight.Load())
		weights += k.weight(i)
	}
	return bound(sum / weights * float64(percent) / 100)
}

// allows reports whether i can have one more: its part is rounded up, since all
// parts together have to hold every request. One with as little to do as any
// machine can is never too busy, or keys would move about without need.
func (b bound) allows(k *picker, i *instance) bool {
	if b == 0 {
		return true
	}
	busy := i.inFlight.Load()
	return busy < neverBusy || float64(busy) < math.Ceil(float64(b)*k.weight(i))
}

func (k *picker) weight(i *instance) float64 {
	w := float64(max(i.Weight, 1))
	if k.slow {
		w *= i.share(k.now)
	}
	return w
}

// rendezvous chooses for a session: whoever asks for the same one gets the same
// answer, whatever there is to do.
func (k *picker) rendezvous(rt *route, list []*instance, hash uint64, suspects bool) *instance {
	var best *instance
	var high float64
	for _, i := range list {
		if !k.may(rt, i, suspects) {
			continue
		}
		if s := score(hash, i.hash, float64(max(i.Weight, 1))); best == nil || s > high {
			best, high = i, s
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
