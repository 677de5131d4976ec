package ring

import "github.com/rondel-project/rondel/agent/member"

// The messages between members and the leader about the table. They travel
// over the same connections as the replication messages; a lost one is sent
// again by its sender's timer.

// Renew asks the leader for a lease and tells it how the sender fares. A
// member that has no number yet sends 0: the answer's table tells it.
type Renew struct {
	From  Holder
	ID    member.ID
	Sent  int64 // the sender's own clock, handed back in the Grant
	Epoch Epoch // of the sender's table, so that the answer carries only what is new
	Store Store
	Owned []SlotLoad
}

// SlotLoad is what an owner tells of one slot.
type SlotLoad struct {
	Slot     Slot
	Open     bool   // activated under the present Re
	Sessions uint32 // living sessions
	Idle     bool   // no request for the last minute
}

// Grant answers a Renew: the lease runs from Sent, on the table given.
type Grant struct {
	To     Holder
	Sent   int64
	Leader member.Number
	Term   uint64
	Table  *Delta
}

// NotLeader answers a Renew, or anything else meant for a leader, that reached
// another member. Hint is the leader as that one knows it, or "".
type NotLeader struct {
	Hint member.ID
}

// TableUpdate brings a member's table forward without granting anything.
type TableUpdate struct {
	Table *Delta
}

// AddInSync asks the leader to count candidates as in sync; each has all
// records of its slot and acknowledges every write.
type AddInSync struct {
	From  Holder
	Slots []Candidate
}

// Candidate is a member to be counted in sync for a slot at Re. Changed is the
// slot's in the table from which its owner asks: a request that comes late, when
// the slot's state is another one, is never granted.
type Candidate struct {
	Slot    Slot
	Re      uint64
	Changed Epoch
	Cand    Holder
}

// AddInSyncNo tells the owner which of its candidates are never taken on what it
// asked so far. Yes is the table itself.
type AddInSyncNo struct {
	Slots []Candidate
}

// Report tells the leader of members that the sender cannot use: Slow ones
// hold up its writes, Unreachable ones it cannot reach at all.
type Report struct {
	From        Holder
	Slow        []Holder
	Unreachable []Unreachable
}

// Unreachable is one member that the sender could not reach. Refused means
// that its machine answered that nobody listens there.
type Unreachable struct {
	Who     Holder
	Refused bool
}

// Stop asks the leader to take the sender's slots away before it ends: for a
// while (SIGTERM) or, with Leave, for good.
type Stop struct {
	From  Holder
	Leave bool
	// Done, with Leave, says that nothing is under way at the sender any more
	// for which it needs the others, so that it may be taken out of the table.
	Done bool
}
