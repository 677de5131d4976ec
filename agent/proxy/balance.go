package proxy

import (
	"math/rand/v2"
	"time"

	"github.com/cespare/xxhash/v2"
)

// fewEnough is up to how many instances LeastLoad looks at all of; above, two
// random ones are compared, which is nearly as good and costs the same for any number.
const fewEnough = 8

// keyEnough is how much of a key is hashed: a longer one costs no more.
const keyEnough = 1 << 10

// picker chooses for one request. It blocks on nothing and takes no lock.
type picker struct {
	now      time.Time
	position uint64      // where this agent's rounds begin
	tried    []*instance // never again

	slow bool // some instance is still starting slowly
	full bool // an instance was passed over only because it has as much as it takes
}

// may reports whether i is still worth a try. Suspects are those that refused
// a connection a moment ago, or were ejected.
func (k *picker) may(rt *route, i *instance, suspects bool) bool {
	for _, t := range k.tried {
		if t.backend == i.backend { // they may be of two snapshots
			return false
		}
	}
	if !suspects && i.suspected(k.now) {
		return false
	}
	if i.MaxConnections > 0 && (i.inFlight.Load() >= int64(i.MaxConnections) || rt.turn.queued.Load() > 0 || i.queued.Load() > 0) {
		k.full = true
		return false
	}
	return true
}

// once chooses among list for a client without a session, or returns nil.
// hashKey counts for Hash only.
func (k *picker) once(rt *route, list []*instance, hashKey []byte, suspects bool) *instance {
	if len(list) == 0 {
		return nil
	}
	k.slow = rt.group.slowUntil.Load() > k.now.UnixNano()
	how := rt.Balance
	if how == Hash {
		if len(hashKey) > 0 {
			return k.hashed(rt, list, hashOf(hashKey), suspects)
		}
		how = rt.HashFallback
	}
	if how == LeastLoad {
		return k.leastLoad(rt, list, suspects)
	}
	return k.round(rt, list, how, suspects)
}

// hashOf is the same on every agent.
func hashOf(key []byte) uint64 {
	if len(key) > keyEnough {
		return mix(xxhash.Sum64(key[:keyEnough]) + uint64(len(key)))
	}
	return xxhash.Sum64(key)
}

// round draws by turns, weights or chance until something can be used. Who may
// not be used gives its turn to the one that is drawn next, so that its part is
// spread over all others; who starts slowly gives some of its turns.
func (k *picker) round(rt *route, list []*instance, how Balance, suspects bool) *instance {
	tries, most := len(list), 1.0
	if k.slow {
		tries, most = min(4*len(list)+16, 256), k.mostShare(list)
	}
	plan := &rt.plan
	if how != RoundRobin && !plan.of(list) {
		plan = newPlan(list)
	}
	var at int
	for range tries {
		switch how {
		case WeightedRoundRobin:
			at = plan.turn(rt.turn.next.Add(1) - 1 + k.position)
		case Random:
			at = plan.at(rand.Uint64())
		default:
			at = int((rt.turn.next.Add(1) - 1 + k.position) % uint64(len(list)))
		}
		if i := list[at]; k.may(rt, i, suspects) && (!k.slow || rand.Float64()*most < i.share(k.now)) {
			return i
		}
	}
	for n := range list {
		if i := list[(at+n)%len(list)]; k.may(rt, i, suspects) {
			return i
		}
	}
	return nil
}

// leastLoad takes the one with the least to do, of all or of two that chance
// names. Equals take turns.
func (k *picker) leastLoad(rt *route, list []*instance, suspects bool) *instance {
	if len(list) > fewEnough {
		a := rand.IntN(len(list))
		b := rand.IntN(len(list) - 1)
		if b >= a {
			b++
		}
		x, y := list[a], list[b]
		mayX, mayY := k.may(rt, x, suspects), k.may(rt, y, suspects)
		switch {
		case mayX && (!mayY || x.load(k.now) <= y.load(k.now)):
			return x
		case mayY:
			return y
		}
	}
	var best *instance
	var least float64
	start := int((rt.turn.next.Add(1) - 1 + k.position) % uint64(len(list)))
	for n := range list {
		i := list[(start+n)%len(list)]
		if !k.may(rt, i, suspects) {
			continue
		}
		if l := i.load(k.now); best == nil || l < least {
			best, least = i, l
		}
	}
	return best
}

// load is what the instance has to do, one more request included, for what it
// can do: its weight, less the share that its application says is taken, or
// its machine's processors are busy. A full one can still do a little, or
// nobody would when all are full.
func (i *instance) load(now time.Time) float64 {
	room := max(1-i.busy(), 0.05)
	return float64(i.inFlight.Load()+1) / (float64(max(i.Weight, 1)) * i.share(now) * room)
}
