package leader

import (
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

// Event is something that happened: Renewed, AddAsked, Reported, StopAsked,
// DrainAsked, RebalanceAsked, MoveAsked, StayAsked, ViewChanged, Refused,
// Probed, Opinion, Verified, Proposed, Committed or Tick.
type Event interface{ event() }

// Renewed is a member's request for a lease.
type Renewed struct{ *ring.Renew }

// AddAsked is an owner's request to count copies as in sync.
type AddAsked struct{ *ring.AddInSync }

// Reported is a member's word on others that it cannot use.
type Reported struct{ *ring.Report }

// StopAsked is a member's word that it is about to end.
type StopAsked struct{ *ring.Stop }

// DrainAsked is an operator's wish that a member hands over its slots, or no
// longer does. Where Op is not 0 an Answer says what came of it; so it is with
// the other wishes.
type DrainAsked struct {
	Num member.Number
	On  bool
	Op  uint64
}

// RebalanceAsked is an operator's wish that homes become even now, busy slots
// included.
type RebalanceAsked struct{ Op uint64 }

// MoveAsked is an operator's wish to give slots another home. The planner
// leaves homes as they then are until members come or go.
type MoveAsked struct {
	Slots    int
	From, To member.Number
	Op       uint64
}

// StayAsked is the wish of a member that was leaving to remain after all.
type StayAsked struct {
	From ring.Holder
	Op   uint64
}

// Seen is a member as gossip shows it.
type Seen struct {
	ring.Candidacy
	Status member.Status
}

// ViewChanged is the whole member list, whenever it changed and once at the
// start of the term.
type ViewChanged struct{ Members []Seen }

// Refused means that a connection of this agent to a member's address was
// refused: nobody listens there.
type Refused struct{ Who ring.Holder }

// Reach is what trying to reach a member showed.
type Reach uint8

// What trying to reach a member can show. NoAnswer is for a second opinion that
// never came.
const (
	Reached Reach = iota + 1
	Unreached
	RefusedThere
	NoAnswer
)

// Probed is the outcome of a Probe.
type Probed struct {
	Who    ring.Holder
	Result Reach
}

// Opinion is the outcome of an Ask.
type Opinion struct {
	Who    ring.Holder
	Via    member.Number
	Result Reach
}

// Verified is the outcome of a Verify.
type Verified struct {
	Batch uint64
	OK    bool
}

// Proposed is the outcome of a Propose that is known: the table as it is now,
// with the change in it or certainly without. An outcome that is not known
// ends the term instead.
type Proposed struct {
	OK    bool
	Table *ring.Table
}

// Committed is a table that came into being without a Propose of this core.
type Committed struct{ Table *ring.Table }

// Tick lets time pass. The driver sends one every 50 ms.
type Tick struct{}

func (Renewed) event()        {}
func (AddAsked) event()       {}
func (Reported) event()       {}
func (StopAsked) event()      {}
func (DrainAsked) event()     {}
func (RebalanceAsked) event() {}
func (MoveAsked) event()      {}
func (StayAsked) event()      {}
func (ViewChanged) event()    {}
func (Refused) event()        {}
func (Probed) event()         {}
func (Opinion) event()        {}
func (Verified) event()       {}
func (Proposed) event()       {}
func (Committed) event()      {}
func (Tick) event()           {}

// Action is something to be done: Propose, Verify, Send, Probe, Ask, Answer or
// Note.
type Action interface{ action() }

// Propose asks for one entry in the log. Its outcome is a Proposed; until then
// there is no other.
type Propose struct{ Change *ring.Change }

// Verify asks a quorum whether this member still leads. The round must start
// after the action was given; its outcome is a Verified with the same batch.
type Verify struct{ Batch uint64 }

// Peer says where to reach a run of a member. Addr may be empty where only
// gossip knows it.
type Peer struct {
	ring.Holder
	ID   member.ID
	Addr string
}

// Send is a control message to a member, which may get lost.
type Send struct {
	To      Peer
	Message ring.Message
}

// Probe asks this agent to try to reach a member; the outcome is a Probed.
type Probe struct{ Who Peer }

// Ask asks another member to try to reach one; the outcome is an Opinion.
type Ask struct {
	Via Peer
	Who Peer
}

// Answer tells what came of a wish, once that is committed.
type Answer struct {
	Op    uint64
	Moved int        // slots that got another home
	Epoch ring.Epoch // of the table in which it is done
	Err   error      // wraps ErrRefused where the state of the cluster forbids it
}

// NoteKind says what a Note is about.
type NoteKind uint8

// What a Note can be about.
const (
	NoteDown     NoteKind = iota + 1 // a member is being marked down
	NoteConflict                     // a member is refused: its name or id is taken
	NoteReset                        // slots give up their last copy
	NoteSlow                         // a member leaves the sets of a slow owner's slots
)

// Note is for the log: something happened that an operator wants to know.
type Note struct {
	Kind  NoteKind
	Num   member.Number
	Name  string
	Count int
	Why   string
}

func (Propose) action() {}
func (Verify) action()  {}
func (Send) action()    {}
func (Probe) action()   {}
func (Ask) action()     {}
func (Answer) action()  {}
func (Note) action()    {}
