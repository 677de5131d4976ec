package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
	"github.com/rondel-project/rondel/api"
)

// Errors that the parts behind the interfaces below wrap, so that the answer
// gets the right status. An *api.Error is answered as it is; any other error is
// a fault of the agent's, 500.
var (
	// ErrInvalid means that the request can never succeed as it is.
	ErrInvalid = errors.New("invalid")
	// ErrNotFound means that what the request names does not exist.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that the present state forbids the request.
	ErrConflict = errors.New("conflict")
	// ErrUnavailable means that it cannot be told or done now.
	ErrUnavailable = errors.New("not available now")
)

// All interfaces are called by many goroutines at once.

// Sessions is the session engine.
type Sessions interface {
	// Do runs one operation, wherever its owner is, within the engine's own
	// time budget or until ctx ends. It verifies the id. The answer to a Create
	// holds Record and Left, as that to a Get does; the names of owner and
	// replicas are always filled in.
	Do(ctx context.Context, req *session.Request) *session.Response
	// Start begins one operation as Do does, and hands the answer to w, once:
	// before it returns, or later, in any goroutine. What it sends to other
	// agents may wait until Flush.
	Start(req *session.Request, w Waiter)
	Flush()
	// Mint makes an id for a new session in a slot of this agent's choice.
	// It wraps ErrUnavailable while there is no table.
	Mint() (session.ID, error)
	// MintBeside makes an id in the slot of id. It returns
	// session.ErrForeignID for an id that the cluster did not issue.
	MintBeside(id session.ID) (session.ID, error)
	// List returns the sessions after o.After, sorted by id, at most o.Limit.
	List(ctx context.Context, o ListOptions) ([]ListEntry, error)
}

// Waiter takes an answer. It does not block.
type Waiter interface{ Answered(*session.Response) }

// ListOptions says which sessions to list; empty strings mean any.
type ListOptions struct {
	Prefix    string
	Group     string
	Principal string
	After     string
	Limit     int
}

// ListEntry is one line of a listing.
type ListEntry struct {
	ID        session.ID
	Size      int
	Version   uint64
	Group     string
	Principal string
}

// Watcher tells of changes. The channel is closed when the index has grown
// beyond the one returned with it; the index never falls.
type Watcher interface {
	Watch() (index uint64, changed <-chan struct{})
}

// Members is the list of members and what changes it.
type Members interface {
	Watcher
	// Members returns all members known, in any order. It does not block.
	Members() []api.Member
	// Join blocks until the cluster at addr has answered.
	Join(ctx context.Context, addr string) error
	// ForceLeave marks a failed member as left. ErrNotFound: no such member;
	// ErrConflict: it is alive.
	ForceLeave(ctx context.Context, name string, prune bool) error
}

// Ring is the table as this agent knows it. Its index is the epoch.
type Ring interface {
	Watcher
	// Table returns the present table, never nil, to be read only.
	Table() *ring.Table
	// Leader returns the leader's name, "" when there is none.
	Leader() string
	// Locate returns the slot of a session id or of any other key.
	Locate(key string) (ring.Slot, error)
}

// Moves is what operators do with the places of sessions. All of it returns when
// the cluster has agreed, and before sessions have moved. ErrNotFound: no such
// member; ErrConflict: the state of the cluster forbids it.
type Moves interface {
	// Drain makes a member hand over its sessions and take no new ones, or ends
	// that; an empty name is this agent's.
	Drain(ctx context.Context, node string, on bool) (api.DrainResult, error)
	// Rebalance gives every member its share of slots, busy ones included.
	Rebalance(ctx context.Context) (api.MoveResult, error)
	// Move gives slots of one member to another.
	Move(ctx context.Context, slots int, from, to string) (api.MoveResult, error)
}

// Services are the instances beside this agent.
type Services interface {
	// Services returns them in any order.
	Services() []api.Service
	// Register adds an instance, or replaces the one with its ID. ErrInvalid
	// says what is wrong with it.
	Register(api.ServiceRegistration) error
	Deregister(id string) error
	SetMaintenance(id string, m Maintenance) error
	ReportLoad(id string, load float64) error
	SetWeight(id string, weight int) error
}

// Maintenance is a change of an instance's part in the traffic.
type Maintenance struct {
	Enable bool
	Drain  bool // only no new sessions, instead of nothing at all
	Reason string

	Deadline time.Duration // of a drain: after it the clients that are there are moved; 0: never
}

// Checks takes the heart-beats of TTL checks.
type Checks interface {
	// Report sets a check to passing, warning or critical.
	Report(id, status, note string) error
}

// Catalog is all members' instances.
type Catalog interface {
	Watcher
	// Instances returns them in any order.
	Instances() []api.CatalogInstance
}

// Raft is the consensus of the voters.
type Raft interface {
	// Configuration answers without a leader too.
	Configuration(ctx context.Context) (api.RaftConfiguration, error)
}

// Process is the agent as a whole.
type Process interface {
	// Self returns the configuration with secrets masked, and figures.
	Self() api.Self
	// Unready says why another agent must not be restarted now, Unserving why
	// this one serves nothing; empty means all is well.
	Unready() []string
	Unserving() []string
	// Leave hands over and leaves the cluster; the process ends some time after
	// it has returned, so that the answer gets out.
	Leave(ctx context.Context, force bool) error
	Reload(ctx context.Context) (api.ReloadResult, error)
}

// Logs is the agent's logger, as far as a listener needs it:
// hclog.InterceptLogger is one.
type Logs interface {
	RegisterSink(hclog.SinkAdapter)
	DeregisterSink(hclog.SinkAdapter)
}
