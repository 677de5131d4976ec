package leader

import (
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

// Params are the protocol's constants. Default has the ones to use; tests and
// the simulator set others.
type Params struct {
	Lease     time.Duration // how long a Grant lasts
	Rho       float64       // bound on the difference of clock rates
	Stable    time.Duration // how long owner and home are unchanged before a planned move
	VerifyGap time.Duration // between the starts of two quorum rounds
	Heard     time.Duration // a member heard from within it is in reach
	Evidence  time.Duration // how long a failed probe, an opinion or a refusal counts
	ProbeGap  time.Duration // between two probes of one member
	AskWait   time.Duration // how long a second opinion may take
	Fresh     time.Duration // how long a report of slow or unreachable members counts
	SlowFor   time.Duration // reported for so long, a slow member leaves the sets
	SlowHold  time.Duration // for so long it is not filled again
	DownGap   time.Duration // the window of the rate limit on marking members down
	Replan    time.Duration // the longest time between two plans
	DownMax   time.Duration // who was down for longer forgets what it holds
}

// Default returns the values of the protocol.
func Default() Params {
	return Params{
		Lease:     1500 * time.Millisecond,
		Rho:       0.01,
		Stable:    10 * time.Second,
		VerifyGap: 50 * time.Millisecond,
		Heard:     time.Second,
		Evidence:  3 * time.Second,
		ProbeGap:  500 * time.Millisecond,
		AskWait:   time.Second,
		Fresh:     1500 * time.Millisecond,
		SlowFor:   time.Second,
		SlowHold:  10 * time.Second,
		DownGap:   5 * time.Second,
		Replan:    time.Second,
		DownMax:   time.Hour,
	}
}

// leaseOver is how long after a grant its lease is over by any member's clock.
func (p Params) leaseOver() time.Duration {
	return p.Lease + time.Duration(float64(p.Lease)*p.Rho)
}

// Cluster is what the first table starts from. It is used only where no table
// was ever committed.
type Cluster struct {
	Expect   int // how many members must be alive
	ID       [16]byte
	Settings ring.Settings
	Keys     []ring.Key
}

// Options make a Core.
type Options struct {
	Params  Params
	Self    member.ID
	Term    uint64
	Elected time.Duration // when this member became leader
	Table   *ring.Table   // as it is after the barrier; never nil
	Cluster Cluster
}
