package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

// Lane is the kind of a connection.
type Lane byte

// The lanes. Their numbers are part of the protocol.
const (
	Raft       Lane = 1
	Foreground Lane = 2
	Bulk       Lane = 3
	Call       Lane = 4
)

// String returns the lane's name for logs.
func (l Lane) String() string {
	switch l {
	case Raft:
		return "raft"
	case Foreground:
		return "foreground"
	case Bulk:
		return "bulk"
	case Call:
		return "call"
	}
	return "unknown"
}

// Peer says whom a message is for. Two peers that differ in any field have
// queues and connections of their own; one agent must know a peer by one address
// at a time, since the peer reads each lane of an agent from one connection only.
type Peer struct {
	ID   member.ID
	Boot member.Boot
	Addr string // host:port
}

// Hello is what one end of a connection tells about itself.
type Hello struct {
	Cluster [16]byte // zero before the agent knows its cluster
	ID      member.ID
	Name    string // at most 255 bytes
	Boot    member.Boot
	Wall    time.Time // its clock when it greeted

	// Offset is how far its clock was ahead of ours then, to within the time
	// the greeting travelled. It is measured here and never sent.
	Offset time.Duration
}

// Reason says why a peer could not be reached.
type Reason byte

// The reasons. Refused is the only one that speaks of the process for certain:
// its machine answered that nobody listens. The Wrong ones mean that somebody
// else is at the address.
const (
	NoAnswer Reason = iota
	Refused
	WrongBoot
	WrongMember
	WrongCluster
	WrongVersion
)

// String returns the reason's name for logs.
func (r Reason) String() string {
	switch r {
	case Refused:
		return "refused"
	case WrongBoot:
		return "wrong_boot"
	case WrongMember:
		return "wrong_member"
	case WrongCluster:
		return "wrong_cluster"
	case WrongVersion:
		return "wrong_version"
	}
	return "no_answer"
}

// Unreachable is local evidence that a peer cannot be reached now.
type Unreachable struct {
	Peer   Peer
	Lane   Lane
	Reason Reason
}

var (
	// ErrClosed means that the transport has been closed.
	ErrClosed = errors.New("transport closed")
	// ErrFull means that the peer's queue is at its limit; the message was
	// dropped.
	ErrFull = errors.New("send queue full")
	// ErrTooLarge means that a message exceeds the largest frame allowed.
	ErrTooLarge = errors.New("message exceeds the frame limit")
	// ErrUnreachable means that no connection could be made: what was to be
	// sent did not leave this agent.
	ErrUnreachable = errors.New("peer unreachable")
	// ErrOutcomeUnknown means that the connection broke after a request may
	// have left: the other side may or may not have acted on it.
	ErrOutcomeUnknown = errors.New("connection lost before the answer came")
)

// RefusedError is the answer of an agent that does not talk to us: it is
// another boot, another member, of another cluster or version. It unwraps to
// ErrUnreachable.
type RefusedError struct{ Reason Reason }

func (e *RefusedError) Error() string { return "greeting refused: " + e.Reason.String() }

// Unwrap returns ErrUnreachable.
func (e *RefusedError) Unwrap() error { return ErrUnreachable }

// Codes that the transport itself gives to failed calls.
const (
	CodeInternal      = "internal"
	CodeUnknownMethod = "unknown_method"
	CodeOverloaded    = "overloaded"
	CodeTooLarge      = "too_large"
	CodeDeadline      = "deadline_exceeded"
)

// CodedError is an error that crosses from one agent to another. Callers look
// at Code alone.
type CodedError struct {
	Code    string // at most 255 bytes
	Message string
}

func (e *CodedError) Error() string { return fmt.Sprintf("%s (%s)", e.Message, e.Code) }
