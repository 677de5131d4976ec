package replicate

import "time"

// Params are the protocol's times and bounds. DefaultParams has the values to
// use; tests make some of them smaller.
type Params struct {
	Lease      time.Duration // how long a grant lasts, from the holder's own send time
	Renew      time.Duration // between renewals
	Rho        float64       // bound of the difference of clock rates
	Resend     time.Duration // until an unanswered message is sent again
	OpBudget   time.Duration // until a request is answered one way or the other
	Degrade    time.Duration // serve: until a write may be answered with fewer copies
	Asleep     time.Duration // serve: silence after which an owner asks before it serves
	AskAwake   time.Duration // serve: how long it waits for that answer
	AskDetach  time.Duration // serve: how long a detached owner waits for other copies
	TouchEvery time.Duration // by how much copies may know of an earlier deadline, at most; a tenth of the TTL where that is less
	Repair     time.Duration // between comparisons of a slot's copies
	Tombstone  time.Duration // how long a deleted session is remembered
	Away       time.Duration // how old a member's log may be for its records to be filled up instead of forgotten (E2)
	NewHolder  time.Duration // how long a slot with two copies waits before another member gets the third
	BulkRate   int64         // bytes a second for filling one peer
	BulkWindow int64         // bytes in flight to one peer while filling it
	SyncSlots  int           // slots that are filled at one time
	MaxWaiting int           // requests that wait for one slot to open
	MaxQueue   int           // writes that wait for one session
}

// DefaultParams returns the values of the protocol's section 1. ttl is the
// configured session.ttl.
func DefaultParams(ttl time.Duration) Params {
	return Params{
		Lease: 1500 * time.Millisecond, Renew: 300 * time.Millisecond, Rho: 0.01,
		Resend: 250 * time.Millisecond, OpBudget: 2 * time.Second, Degrade: 300 * time.Millisecond,
		Asleep: 600 * time.Millisecond, AskAwake: 200 * time.Millisecond, AskDetach: 200 * time.Millisecond,
		TouchEvery: 30 * time.Second, Repair: 30 * time.Second,
		Tombstone: 2*ttl + time.Hour, Away: time.Hour, NewHolder: 10 * time.Second,
		BulkRate: 16 << 20, BulkWindow: 1 << 20, SyncSlots: 64, MaxWaiting: 1024, MaxQueue: 64,
	}
}

// Defaults are what a session gets that does not say otherwise, and how much
// one member keeps.
type Defaults struct {
	TTL      time.Duration
	MaxAge   time.Duration
	MaxSize  int // bytes of one session's attributes
	MaxCount int // sessions owned by this member; 0: no bound
}

// useEvery is how long an agent passes over later uses of a session of which it has
// told, where session.ttl is ttl. That much is added to the session's deadline.
func useEvery(ttl time.Duration) time.Duration { return min(ttl/20, 10*time.Second) }
