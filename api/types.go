package api

import (
	"encoding/json"
	"time"
)

// Member is an agent as the one asked sees it.
type Member struct {
	Name     string            `json:"Name"`
	ID       string            `json:"ID"`
	Addr     string            `json:"Addr"`
	Port     int               `json:"Port"` // of gossip
	Status   string            `json:"Status"`
	Role     string            `json:"Role"` // leader, voter, nonvoter or witness
	Version  string            `json:"Version"`
	Tags     map[string]string `json:"Tags"`
	Load     Load              `json:"Load"`
	Sessions int               `json:"Sessions"`
	Draining bool              `json:"Draining"` // takes no new sessions, hands over those it has
}

// Load is how busy a member is.
type Load struct {
	CPU         float64 `json:"CPU"` // share of all cores, 0 to 1
	InFlight    int     `json:"InFlight"`
	RequestRate float64 `json:"RequestRate"` // requests per second
}

// Self is what an agent tells about itself.
type Self struct {
	Config map[string]any               `json:"Config"` // effective configuration, secrets masked
	Member Member                       `json:"Member"`
	Stats  map[string]map[string]string `json:"Stats"`
}

// ReloadResult says what a reload did.
type ReloadResult struct {
	Changed      []string `json:"Changed"`
	NeedsRestart []string `json:"NeedsRestart"` // changed in the files, not applied
}

// ServiceRegistration is one copy of an application, as it is registered with
// the agent beside it.
type ServiceRegistration struct {
	ID      string `json:"ID,omitempty"` // default: NAME:PORT
	Name    string `json:"Name"`
	Address string `json:"Address,omitempty"` // default: the agent's own
	Port    int    `json:"Port"`
	Weight  *int   `json:"Weight,omitempty"` // default: 100; 0: no new clients
	Backup  bool   `json:"Backup,omitempty"`

	Protocol       string   `json:"Protocol,omitempty"`       // what it speaks: http1 (default), https, h2 or h2c
	SendProxy      string   `json:"SendProxy,omitempty"`      // v1 or v2: connections to it begin with a PROXY header
	MaxConnections int      `json:"MaxConnections,omitempty"` // requests that each proxy sends it at a time; 0: no limit
	SlowStart      Duration `json:"SlowStart,omitempty"`      // until its whole weight counts after it has come up

	Tags   []string       `json:"Tags,omitempty"`
	Checks []ServiceCheck `json:"Checks,omitempty"`
}

// ServiceCheck is one health check of an instance: exactly one of HTTP, TCP
// and TTL is set.
type ServiceCheck struct {
	ID       string   `json:"ID,omitempty"` // default: service:INSTANCE, from the second check on service:INSTANCE:N
	HTTP     string   `json:"HTTP,omitempty"`
	TCP      string   `json:"TCP,omitempty"`
	TTL      Duration `json:"TTL,omitempty"`
	Interval Duration `json:"Interval,omitempty"`
	Timeout  Duration `json:"Timeout,omitempty"`

	Method    string `json:"Method,omitempty"`    // of HTTP; default: GET
	Host      string `json:"Host,omitempty"`      // header; default: the instance's address
	Scheme    string `json:"Scheme,omitempty"`    // of a path: http or https; default: as the instance's Protocol
	Healthy   string `json:"Healthy,omitempty"`   // statuses, as "200-299,401"; default: 200-399
	Warning   string `json:"Warning,omitempty"`   // statuses that are a warning; default: 429
	Contains  string `json:"Contains,omitempty"`  // text that the answer must have
	BodyLimit int64  `json:"BodyLimit,omitempty"` // how many bytes of the answer are looked through; default: 65536
	Rise      int    `json:"Rise,omitempty"`      // successes in a row until it passes; default: 1
	Fall      int    `json:"Fall,omitempty"`      // failures in a row until it is critical; default: 1
}

// Service is an instance of this agent with the state of its checks.
type Service struct {
	ID      string `json:"ID"`
	Name    string `json:"Name"`
	Address string `json:"Address"`
	Port    int    `json:"Port"`
	Weight  int    `json:"Weight"`
	Backup  bool   `json:"Backup"`

	Protocol       string   `json:"Protocol"`
	SendProxy      string   `json:"SendProxy"`
	MaxConnections int      `json:"MaxConnections"`
	SlowStart      Duration `json:"SlowStart"`

	Tags        []string      `json:"Tags"`
	Health      string        `json:"Health"` // passing, warning or critical
	Maintenance bool          `json:"Maintenance"`
	Drain       bool          `json:"Drain"`
	DrainUntil  time.Time     `json:"DrainUntil,omitzero"` // then its clients are moved too
	Reason      string        `json:"Reason,omitempty"`    // of the maintenance or the drain
	Load        float64       `json:"Load"`                // as the application reported it
	Checks      []CheckStatus `json:"Checks"`
}

// CheckStatus is a check and what it last found.
type CheckStatus struct {
	ServiceCheck
	Status string    `json:"Status"` // passing, warning or critical
	Output string    `json:"Output"`
	Since  time.Time `json:"Since,omitzero"` // when Status last changed
}

// LoadReport is what an application tells about its own load.
type LoadReport struct {
	Load float64 `json:"Load"` // 0 idle, 1 full
}

// CatalogService is one service and all its instances on all members.
type CatalogService struct {
	Name      string            `json:"Name"`
	Tags      []string          `json:"Tags"`
	Passing   int               `json:"Passing"` // how many instances are healthy and not in maintenance
	Instances []CatalogInstance `json:"Instances"`
}

// CatalogInstance is one instance as the agent asked sees it.
type CatalogInstance struct {
	ID      string `json:"ID"`
	Name    string `json:"Name"`
	Member  string `json:"Member"`
	Address string `json:"Address"`
	Port    int    `json:"Port"`
	Weight  int    `json:"Weight"`
	Backup  bool   `json:"Backup"`

	Protocol       string `json:"Protocol"`
	MaxConnections int    `json:"MaxConnections"` // 0: no limit

	Tags        []string `json:"Tags"`
	Health      string   `json:"Health"`
	Maintenance bool     `json:"Maintenance"`
	Drain       bool     `json:"Drain"`
	Load        float64  `json:"Load"`
	InFlight    int      `json:"InFlight"`
	NewSessions uint64   `json:"NewSessions"` // sessions that the agent asked gave this instance

	Reason       string    `json:"Reason,omitempty"` // why it has not its whole part in the traffic
	DrainUntil   time.Time `json:"DrainUntil,omitzero"`
	Queued       int       `json:"Queued"`                // requests of its own clients that wait at the agent asked
	Failures     uint64    `json:"Failures"`              // that the agent asked has seen
	EjectedUntil time.Time `json:"EjectedUntil,omitzero"` // the agent asked has it out because of them
}

// RingInfo is the ring in its order.
type RingInfo struct {
	Epoch   uint64       `json:"Epoch"`
	Leader  string       `json:"Leader"` // a member's name; "" when there is none now
	Moving  int          `json:"Moving"` // slots that are on their way to another member
	Short   int          `json:"Short"`  // slots of which a member still lacks the copy it is to have
	Members []RingMember `json:"Members"`
}

// RingMember is one place on the ring.
type RingMember struct {
	Name     string `json:"Name"`
	Position int    `json:"Position"`
	State    string `json:"State"`    // joining, up, down, stopping, leaving, draining or drained
	Draining bool   `json:"Draining"` // asked to drain, whatever its state is
	Slots    int    `json:"Slots"`    // that it is home to
	Owned    int    `json:"Owned"`    // slots that it serves now
	Copies   int    `json:"Copies"`   // slots of others of which it holds a copy that counts
	Sessions int    `json:"Sessions"` // that it serves, as gossip told last
}

// DrainResult is what came of a drain that was asked for: the cluster has agreed
// on it, and sessions begin to move.
type DrainResult struct {
	Node     string `json:"Node"`
	Draining bool   `json:"Draining"`
	Epoch    uint64 `json:"Epoch"` // of the table in which it is so
}

// MoveResult is what came of a rebalance or a move of slots: so many have another
// home, and their sessions begin to move there.
type MoveResult struct {
	Moved   int      `json:"Moved"`
	Epoch   uint64   `json:"Epoch"`   // of the table in which it is so
	Joining []string `json:"Joining"` // members that get their share when they are up
}

// RingLocate says who holds a key. The names are members.
type RingLocate struct {
	Slot       int      `json:"Slot"`
	Home       string   `json:"Home"`
	Owner      string   `json:"Owner"`
	Successors []string `json:"Successors"`
}

// RaftConfiguration is who may vote for a leader.
type RaftConfiguration struct {
	Servers []RaftServer `json:"Servers"`
	Index   uint64       `json:"Index"`
	Leader  string       `json:"Leader"` // a member's name; "" when there is none now
}

// RaftServer is one member as raft knows it.
type RaftServer struct {
	ID      string `json:"ID"`
	Node    string `json:"Node"`
	Address string `json:"Address"`
	Leader  bool   `json:"Leader"`
	Voter   bool   `json:"Voter"`
	Status  string `json:"Status,omitempty"` // of the member: alive, failed, left; "" when gossip does not know it
}

// AgentHealth is the answer of /v1/health/agent.
type AgentHealth struct {
	Healthy bool     `json:"Healthy"`
	Reasons []string `json:"Reasons"` // why not
}

// Event is one change that /v1/event/stream tells of.
type Event struct {
	Type string          `json:"Type"` // member, ring, service or sessions
	Data json.RawMessage `json:"Data"`
}

// Session is a session as it stands. A value that nests almost 10,000 deep, the
// most that an agent takes, is too deep for encoding/json within a session:
// read it with [Sessions.Attribute].
type Session struct {
	ID         string                     `json:"ID"`
	Version    uint64                     `json:"Version"`
	Created    time.Time                  `json:"Created"`
	Accessed   time.Time                  `json:"Accessed"`
	Expires    time.Time                  `json:"Expires"`
	TTL        Duration                   `json:"TTL"`
	MaxAge     Duration                   `json:"MaxAge"`
	Group      string                     `json:"Group"`
	Principal  string                     `json:"Principal"`
	Attributes map[string]json.RawMessage `json:"Attributes"` // JSON text as it was sent; see [Binary]
	Owner      string                     `json:"Owner"`
	Replicas   []string                   `json:"Replicas"`
	Stale      bool                       `json:"Stale,omitempty"` // answered by a holder that may be behind
	ETag       string                     `json:"-"`               // of the header: for [WithIfMatch] and [WithIfNoneMatch]
}

// SessionCreate is what a new session may be given. All of it is optional.
type SessionCreate struct {
	TTL        Duration       `json:"TTL,omitempty"`
	MaxAge     Duration       `json:"MaxAge,omitempty"`
	Group      string         `json:"Group,omitempty"`
	Principal  string         `json:"Principal,omitempty"`
	Attributes map[string]any `json:"Attributes,omitempty"`
}

// SessionListEntry is one line of a listing: never contents.
type SessionListEntry struct {
	ID        string `json:"ID"`
	Size      int    `json:"Size"` // bytes that count against session.max_size
	Version   uint64 `json:"Version"`
	Group     string `json:"Group"`
	Principal string `json:"Principal"`
}

// Mutation is the answer to a change.
type Mutation struct {
	ID       string      `json:"ID"`
	Version  uint64      `json:"Version"`
	Owner    string      `json:"Owner"`
	Replicas []string    `json:"Replicas"`         // members beside the owner that hold this version
	Value    json.Number `json:"Value,omitempty"`  // of incr
	Length   *int        `json:"Length,omitempty"` // of append
	ETag     string      `json:"-"`
}

// Binary is how the JSON form of a session shows an attribute that is not
// JSON. Sent as an attribute's value it makes a binary attribute.
type Binary struct {
	Base64      []byte `json:"Base64"`
	ContentType string `json:"ContentType"`
}
