package member

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
)

// ErrInvalidID means that a text is not the id of a member.
var ErrInvalidID = errors.New("not a member id")

// ID names a member for as long as its data directory exists: 32 lower-case
// hexadecimal digits. Raft knows servers by it, so an id is never used again
// with an empty disk.
type ID string

// NewID returns a random id.
func NewID() ID {
	var b [16]byte
	rand.Read(b[:])
	return ID(hex.EncodeToString(b[:]))
}

// ParseID checks the text form of an id. It returns ErrInvalidID for anything
// that is not 32 lower-case hexadecimal digits.
func ParseID(s string) (ID, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 16 || hex.EncodeToString(b) != s {
		return "", fmt.Errorf("%q: %w", s, ErrInvalidID)
	}
	return ID(s), nil
}

// Bytes returns the 16 bytes that the id spells; zeros for an invalid one.
func (id ID) Bytes() (b [16]byte) {
	if len(id) == 32 {
		hex.Decode(b[:], []byte(id))
	}
	return b
}

// IDFromBytes is the inverse of Bytes.
func IDFromBytes(b [16]byte) ID { return ID(hex.EncodeToString(b[:])) }

// Number is the short name that the leader gives a member. Numbers start at 1
// and are never used again, not even for the same member under a new id.
type Number uint32

// Boot names one run of an agent's process. A member that comes back under the
// same name has another boot, so nobody mistakes its empty memory for what the
// last run held.
type Boot [16]byte

// NewBoot returns a random boot.
func NewBoot() (b Boot) {
	rand.Read(b[:])
	return b
}

// String returns the first 8 hexadecimal digits, enough to tell runs apart in
// a log.
func (b Boot) String() string { return hex.EncodeToString(b[:4]) }

// IsZero reports whether b names no run at all.
func (b Boot) IsZero() bool { return b == Boot{} }

// Status is a member's state as gossip sees it.
type Status uint8

// The states of a member. Failed and Left members are kept in the list for a
// while, so that an operator sees them.
const (
	Unknown Status = iota
	Alive
	Suspect
	Failed
	Leaving
	Left
)

// String returns the word that commands and the HTTP API show.
func (s Status) String() string {
	switch s {
	case Alive:
		return "alive"
	case Suspect:
		return "suspect"
	case Failed:
		return "failed"
	case Leaving:
		return "leaving"
	case Left:
		return "left"
	}
	return "unknown"
}
