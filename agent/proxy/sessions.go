package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

// What Parse says about an id that it does not vouch for.
var (
	// ErrForeign means that the cluster did not issue the id: it is as if absent.
	ErrForeign = errors.New("not an id of this cluster")
	// ErrUnknownKey means that the id may be genuine, but the key it was made
	// with is not known here (yet): its cookie must not be replaced.
	ErrUnknownKey = errors.New("id was made with a key unknown here")
)

// Sessions is what the proxy asks about session ids. All methods may be called
// from many goroutines at once; all but Exists and Ended answer from memory.
type Sessions interface {
	// Mint makes an id in a slot that m owns, or, if it owns none or m is
	// empty, in any up member's. ok is false while there is no table.
	Mint(m member.ID) (id string, ok bool)
	// Parse verifies an id. Errors are ErrForeign or ErrUnknownKey.
	Parse(id string) (slot uint16, issued time.Time, err error)
	// Locate tells who owns a slot, who comes next, and for how long that has
	// been so. The owner is empty when that is not known. The proxy only reads
	// successors, which must not change later.
	Locate(slot uint16) (owner member.ID, successors []member.ID, settled time.Duration)
	// Exists tells whether a session of this id exists; known is false when
	// nobody could say in the time that ctx gives.
	Exists(ctx context.Context, id string) (exists, known bool)
	// Ended tells whether a session of this id is known to have ended. It blocks
	// for as long as ctx lasts.
	Ended(ctx context.Context, id string) bool
	// Touch starts the session's idle time anew. It must not block.
	Touch(id string)
}
