package proxy

import "time"

// leastShare is what an instance gets of its part when it has just come up: it
// has to get something, or nobody would see that it works.
const leastShare = 0.02

// share is how much of its weight counts now: all of it, unless the instance
// came up less than its SlowStart ago.
func (i *instance) share(now time.Time) float64 {
	if i.SlowStart <= 0 {
		return 1
	}
	since := now.UnixNano() - max(i.up.Load(), i.back.Load())
	if since >= int64(i.SlowStart) {
		return 1
	}
	return max(float64(since)/float64(i.SlowStart), leastShare)
}

// mostShare is the largest share of those in list: where all start slowly, they
// do so relative to one another.
func (k *picker) mostShare(list []*instance) float64 {
	most := leastShare
	for _, i := range list {
		most = max(most, i.share(k.now))
	}
	return most
}

// cameUp notes what became of the instance since the last snapshot. One that is
// seen for the first time has not come up: for all that is known here it has
// been serving for long.
func (i *instance) cameUp(now time.Time) {
	usable := i.usable()
	if usable && i.seen && !i.wasUsable {
		i.up.Store(now.UnixNano())
		i.pardon()
	}
	i.seen, i.wasUsable = true, usable
}
