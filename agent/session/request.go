package session

import (
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

// Kind says what a request does.
type Kind uint8

// The kinds of request. From Create on they change the session.
const (
	Get Kind = iota + 1
	GetAttr
	Head  // whether there is one, nothing of it
	Touch // new deadline; the version stays
	Create
	Patch
	Put // replaces all attributes
	Delete
	SetAttr
	DelAttr
	Incr
	Append
	Rotate
)

// Mutates reports whether the kind writes a new version.
func (k Kind) Mutates() bool { return k >= Create }

// Request is one operation on one session, as the HTTP API, the Redis protocol
// or the proxy asks for it.
type Request struct {
	Kind  Kind
	ID    ID
	NewID ID     // Rotate: minted by the agent asked, in the same slot
	Name  string // of the attribute: GetAttr, SetAttr, DelAttr, Incr, Append

	// Attrs are what Create, Patch, Put and SetAttr set; in a Patch, Dead
	// removes. Only Name, Value, Type and Dead are read.
	Attrs []Attr
	// Value is Incr's addend as JSON number text ("1"), or Append's JSON value.
	Value []byte

	TTL       time.Duration // Create; 0: the agent's default. Touch: added to the deadline, for uses not told of
	MaxAge    time.Duration // Create; 0: the agent's default
	Group     string        // Create
	Principal string        // Create

	IfMatch    []Version // change only if the session is at one of these
	IfMatchAny bool      // If-Match: *
	Op         OpID      // from Idempotency-Key
	Body       uint64    // hash of the body, goes with Op
	AutoOp     bool      // Op was made by the agent asked, not by a client

	Acks  int8 // AcksDefault, 0, 1 or 2
	Stale bool // Get, GetAttr: any holder may answer
	Touch bool // Get, GetAttr: counts as use
}

// AcksDefault waits for all copies in sync.
const AcksDefault int8 = -1

// Status says how a request ended.
type Status uint8

// The ends of a request; the HTTP status each is answered with in brackets.
const (
	OK           Status = iota + 1
	NotFound            // no such session: certain [404]
	NoAttr              // the session is there, the attribute is not [404]
	Invalid             // bad request, see Error [400]
	Conflict            // see Code [409]
	VersionDiffs        // If-Match does not hold [412]
	TooLarge            // over session.max_size [413]
	Unavailable         // cannot be told or done now; nothing was changed [503]
	UnknownEnd          // may or may not have happened [504]
	// Retry never leaves the engine: the receiver does not own the slot, nothing
	// was changed, ask the owner.
	Retry
)

// Response answers a Request. Owner and Replicas are numbers on the wire; the
// engine fills in their names.
type Response struct {
	Status Status
	Code   string // snake_case, for machines; "" when OK
	Error  string // for people

	ID      ID
	Version Version
	Record  *Record       // Get and Create; only the living attributes count
	Attr    *Attr         // GetAttr
	Left    time.Duration // until it expires if nobody uses it
	Age     time.Duration // since it was created
	Idle    time.Duration // since it was last used

	Value  []byte // Incr: the sum as JSON number text
	Length int    // Append
	NewID  ID     // Rotate
	Stale  bool
	Replay bool // answered from a remembered operation

	Owner         member.Number
	Replicas      []member.Number
	OwnerName     string
	ReplicaNames  []string
	RetryAfter    time.Duration // Unavailable
	Limit         int           // TooLarge: session.max_size
	LargestAttr   string        // TooLarge
	CurrentLength int           // TooLarge: what it would have been
}

func fail(s Status, code, msg string) *Response { return &Response{Status: s, Code: code, Error: msg} }

// Fail returns the response of a request that ended otherwise than well.
func Fail(s Status, code, msg string) *Response { return fail(s, code, msg) }
