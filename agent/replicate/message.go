package replicate

import (
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// Message is what one core sends another. The names are those of the protocol;
// rule numbers in comments are its sections (DESIGN.md).
type Message interface{ message() }

// SlotRe names a slot under one configuration.
type SlotRe struct {
	Slot ring.Slot
	Re   uint64
}

// Seal asks for what the receiver holds of the slots, and makes it refuse
// everything from an older configuration (N3).
type Seal struct{ Slots []SlotRe }

// SealAck answers with one checksum a slot.
type SealAck struct{ Slots []SlotSum }

// SlotSum is a slot's checksum under one configuration.
type SlotSum struct {
	SlotRe
	Sum uint64
}

// Replicate carries a new state of a session to a copy (W3). A rotation
// carries two, to be stored together.
type Replicate struct {
	SlotRe
	Updates []*session.Update
}

// Ack answers that the receiver holds the first update's version or a later
// one; with NeedFull, that it lacks the base and needs the whole record (W4).
type Ack struct {
	SlotRe
	ID       session.ID
	Version  session.Version
	NeedFull bool
}

// Purpose says why two copies are compared.
type Purpose uint8

// Why copies are compared.
const (
	ForActivation Purpose = iota + 1 // a new owner looks for the latest state (N3)
	ForSync                          // a learner is filled (N9)
	ForRepair                        // anti-entropy (E5)
)

// Compare asks for a listing of the buckets that differ from the sender's.
type Compare struct {
	SlotRe
	Purpose Purpose
	Tag     uint64
	Buckets [session.Buckets]uint64
}

// Listing answers a Compare: what the receiver holds in the buckets of Mask.
type Listing struct {
	SlotRe
	Purpose Purpose
	Tag     uint64
	Mask    uint32
	Items   []Item
}

// Item is one record of a listing.
type Item struct {
	ID      session.ID
	Version session.Version
	Sum     uint64
	Dead    bool
	// Apart marks, in a listing for repair, what was acknowledged without the
	// owner or without all copies, and has not come together yet (S6).
	Apart bool
}

// Fetch asks for whole records; Records answers. An id without a record is left
// out of the answer's updates, and named in Asked all the same.
type Fetch struct {
	SlotRe
	Tag uint64
	IDs []session.ID
}

// Records answers a Fetch.
type Records struct {
	SlotRe
	Tag     uint64
	Asked   []session.ID
	Updates []*session.Update
}

// Discard tells a copy to forget records that are exactly at these versions
// (N9, and tombstones whose time is over).
type Discard struct {
	SlotRe
	Items []Item
}

// Forward carries a client's request to the owner (P1); with Relay, to a member
// that can reach the owner when the sender cannot (P2). It may have been under
// way for as long as a partition lasts: Re tells.
type Forward struct {
	SlotRe
	Handle uint64
	Hop    uint8
	Relay  bool
	Budget time.Duration
	Req    *session.Request
}

// Reply answers a Forward.
type Reply struct {
	Handle uint64
	Resp   *session.Response
}

// TableUpdate brings the receiver's table forward before anything else is
// looked at (the attached table of section 3).
type TableUpdate struct{ Table *ring.Delta }

// Stale answers a message under an older configuration than the receiver's, or
// asks, with Want, for the sender's newer table.
type Stale struct{ Want bool }

// Touch tells copies how long sessions have left after their use (E4).
type Touch struct {
	Seq   uint64
	Items []TouchItem
}

// TouchItem is one used session.
type TouchItem struct {
	Slot ring.Slot
	ID   session.ID
	Left time.Duration
}

// TouchAck answers a Touch.
type TouchAck struct{ Seq uint64 }

// DropAsk asks the owner whether the sender, in whose care these slots are no
// longer, may forget them; DropOK says yes (E6).
type DropAsk struct{ Slots []SlotRe }

// DropOK allows to forget the slots.
type DropOK struct{ Slots []SlotRe }

// Offer hands the owner what the sender acknowledged without it (S6).
type Offer struct {
	SlotRe
	Update *session.Update
}

// OfferAck says that the owner has the offered version in its record. Without a Re
// other copies have still to hear of it.
type OfferAck struct {
	SlotRe
	ID      session.ID
	Version session.Version
}

// Ping asks whether the receiver knows of a newer table; a woken owner sends it
// before it serves (S1b). Pong answers.
type Ping struct{ Nonce uint64 }

// Pong answers a Ping.
type Pong struct{ Nonce uint64 }

func (*Seal) message()        {}
func (*SealAck) message()     {}
func (*Replicate) message()   {}
func (*Ack) message()         {}
func (*Compare) message()     {}
func (*Listing) message()     {}
func (*Fetch) message()       {}
func (*Records) message()     {}
func (*Discard) message()     {}
func (*Forward) message()     {}
func (*Reply) message()       {}
func (*TableUpdate) message() {}
func (*Stale) message()       {}
func (*Touch) message()       {}
func (*TouchAck) message()    {}
func (*DropAsk) message()     {}
func (*DropOK) message()      {}
func (*Offer) message()       {}
func (*OfferAck) message()    {}
func (*Ping) message()        {}
func (*Pong) message()        {}

// Send is a message on its way. To names one run of a member: a connection to
// another run must drop it. Bulk messages may wait for others.
type Send struct {
	To    ring.Holder
	Bulk  bool
	Msg   Message
	After uint64 // the log record that must be on disk before; 0: none
}

// Reply to a local request.
type Answer struct {
	Handle  uint64
	Resp    *session.Response
	After   uint64 // as Send's
	Mutates bool   // what was asked changes something
}

// Out collects what a step wants done. The driver empties it after each step.
type Out struct {
	Sends   []Send
	Answers []Answer
	Leader  []ring.Message // for whoever leads
	Table   *ring.Table    // adopted in this step
	Log     []byte         // records to be written to disk, where the core has one
	Logged  uint64         // number of the last of them
}

// Reset empties o for the next step, keeping its memory.
func (o *Out) Reset() {
	clear(o.Sends)
	clear(o.Answers)
	clear(o.Leader)
	o.Sends, o.Answers, o.Leader, o.Table = o.Sends[:0], o.Answers[:0], o.Leader[:0], nil
	o.Log, o.Logged = o.Log[:0], 0
}

// Time is a moment as one member sees it.
type Time struct {
	Mono int64 // nanoseconds on a clock that never steps
	Wall int64 // Unix milliseconds; only for stamps and for what people read
}

// sinceMono returns how long ago at was.
func (t Time) since(at int64) time.Duration { return time.Duration(t.Mono - at) }

// number is short for the many maps by member.
type number = member.Number
