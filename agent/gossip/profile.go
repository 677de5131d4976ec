package gossip

import (
	"fmt"
	"time"

	"github.com/hashicorp/memberlist"
)

// Profile names a set of timings.
type Profile string

// The profiles. Any pause of a member longer than about five probe intervals
// is taken for its death, so a slower network needs a slower profile.
const (
	LAN   Profile = "lan"   // a death is seen in about 1.3 s, with 3 as with 100 members
	WAN   Profile = "wan"   // about 6 s; tolerates pauses and round trips of a long way
	Local Profile = "local" // one machine: as lan
)

// timings are what differs between profiles.
type timings struct {
	probeInterval, probeTimeout time.Duration
	gossipInterval              time.Duration
	detection                   time.Duration // by then a dead member is Failed, as a rule
}

func (p Profile) timings() (timings, error) {
	switch p {
	case LAN, Local, "":
		return timings{200 * time.Millisecond, 80 * time.Millisecond, 50 * time.Millisecond, 3 * time.Second}, nil
	case WAN:
		return timings{time.Second, 400 * time.Millisecond, 200 * time.Millisecond, 10 * time.Second}, nil
	}
	return timings{}, fmt.Errorf("unknown gossip profile %q: use lan, wan or local", string(p))
}

const (
	dialTimeout = 2 * time.Second

	// reclaimTime is how long the name of a failed member stays bound to its
	// old address, so that a member that only paused keeps it.
	reclaimTime = 5 * time.Second

	// udpBuffer keeps packets, with what memberlist and the tag add, below
	// the smallest common MTU.
	udpBuffer = 1400 - tagSize - 5
)

// config returns memberlist's settings. The probe timeout is below half of the
// interval, since a helper's "no answer either" takes one more timeout and
// would otherwise always come too late and count against the prober's own
// health. SuspicionMaxTimeoutMult is 4, since with 2 a member that was cut off
// for half a second would declare healthy ones dead. RetransmitMult is 8, since
// 4 are all sent in one go to as many: a member of a small cluster that misses
// that hears of a suspicion, or that somebody was told to have left, only much later.
func (t timings) config() *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.ProbeInterval, c.ProbeTimeout = t.probeInterval, t.probeTimeout
	c.SuspicionMult, c.SuspicionMaxTimeoutMult = 4, 4
	c.AwarenessMaxMultiplier = 4
	c.GossipInterval, c.GossipNodes = t.gossipInterval, 4
	c.RetransmitMult = 8
	c.TCPTimeout = dialTimeout
	c.PushPullInterval = 15 * time.Second
	c.GossipToTheDeadTime = 30 * time.Second
	c.DeadNodeReclaimTime = reclaimTime
	c.HandoffQueueDepth = 4096
	c.QueueCheckInterval = 10 * time.Second
	c.UDPBufferSize = udpBuffer
	c.EnableCompression = false
	c.DelegateProtocolMin, c.DelegateProtocolMax, c.DelegateProtocolVersion = 1, 1, 1
	return c
}
