package proxy

// admit counts one more request of the instance, unless it has as many as it
// takes.
func (i *instance) admit() bool {
	if i.MaxConnections <= 0 {
		i.inFlight.Add(1)
		return true
	}
	for {
		n := i.inFlight.Load()
		if n >= int64(i.MaxConnections) {
			return false
		}
		if i.inFlight.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave takes back what admit counted, and lets the next one in that waits.
func (i *instance) leave() {
	i.inFlight.Add(-1)
	if i.group.waiting.Load() > 0 { // looked at after the subtraction, as group.join adds before it looks
		i.group.serve()
	}
}

// pick chooses the next instance to try and counts the request there. It never
// blocks. It returns nil where there is none, and then choose.full says that
// there would be one if the request waited: see park.
func (x *exchange) pick() *instance {
	for {
		x.choose.full = false
		i := x.choose.propose()
		if i == nil || i.admit() {
			return i
		}
		// Others took its last place between the two.
		x.choose.tried = x.choose.tried[:len(x.choose.tried)-1]
	}
}
