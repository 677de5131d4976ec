package proxy

import (
	"net/netip"
	"time"
)

// Balance is the way in which a new client's instance is chosen.
type Balance uint8

// The ways to choose.
const (
	RoundRobin Balance = iota
	WeightedRoundRobin
	Random
	LeastLoad
	Hash
)

// HashOn is what Hash looks at.
type HashOn uint8

// The keys to hash. A request without the key, or with an empty one, goes by
// HashFallback.
const (
	HashNothing HashOn = iota
	HashHeader
	HashQuery // the raw value of the first such parameter, not decoded
	HashCookie
	HashPath // the raw path, without the query
	HashClientIP
)

// Follow says what a client does when its session's owner has changed.
type Follow uint8

// With FollowOwner it goes, once, to an instance on the new owner; with
// FollowInstance it stays where it is.
const (
	FollowOwner Follow = iota
	FollowInstance
)

// Secure says when the cookie carries the Secure attribute.
type Secure uint8

// SecureAuto sets it where the client came by https.
const (
	SecureAuto Secure = iota
	SecureOn
	SecureOff
)

// Sticky is a route's sticky block. With no Cookie the route has no sessions.
type Sticky struct {
	Cookie string
	Follow Follow
	Strict bool // rather no answer than one from where the session is not
	// Where the application's own session id is, for clients that bring only that;
	// "" for nowhere: in a cookie, a parameter of the path (";name=value"), one of
	// the query, a header (in lower case).
	Learn, LearnPath, LearnQuery, LearnHeader string

	SameSite string // "Lax", "Strict", "None", or "" for no such attribute
	Secure   Secure
	HTTPOnly bool
	Path     string        // always said, since a browser would take the page's directory
	Domain   string        // "": the host that was asked, and no other
	MaxAge   time.Duration // from when it was set, in whole seconds; 0: as long as the browser runs
}

// Retry is a route's retry block.
type Retry struct {
	Attempts       int           // tries that got a connection; at least 1
	Connect        bool          // go elsewhere when there is no connection
	Idempotent     bool          // repeat requests of idempotent methods
	IdempotencyKey bool          // repeat requests with an Idempotency-Key, which the application honours
	Statuses       []int         // answers after which what may be repeated is tried elsewhere
	Body           int           // how much of a body is kept to be sent again
	Within         time.Duration // no try begins later than this
}

// Route says which requests go to which service, and how.
type Route struct {
	Name     string
	Host     string // exact, "*.suffix", or "" for any; lower case, without port
	Path     string // prefix of the raw path, whole segments; "" and "/" are any
	Service  string
	Balance  Balance
	HashOn   HashOn
	HashName string // of the header, parameter or cookie

	HashFallback Balance // for requests without a key; not Hash
	HashBalance  int     // percent of its part of the requests in flight that an instance gets before keys go to the next; 0: no bound

	Queue    Queue
	Outlier  Outlier
	Local    bool // this machine's instances first, the others as backup
	Redirect bool // send clients to the member that has their instance
	// RedirectTo is where to: a scheme and a host, with {member}, {address} and
	// {port} for those of the member; "": DefaultRedirectTo.
	RedirectTo string
	Sticky     Sticky
	Retry      Retry

	Timeouts RouteTimeouts
	MaxBody  int64 // instead of Limits.RequestBody, unless 0
}

// Limits bound what is kept in memory for one message.
type Limits struct {
	RequestHead  int
	ResponseHead int
	IdlePerHost  int // idle connections kept for each instance
	Streams      int // requests at a time on one HTTP/2 connection of a client

	RequestBody int64 // 0: as long as they like
	MinRate     int64 // bytes a second that a client has to send of a body, over Timeouts.Body; 0: any
	Connections int   // of clients, in all; 0: as many as there are descriptors
	PerClient   int   // of clients of one address that is no trusted proxy's; 0: any
}

// Timeouts bound how long anybody is waited for.
type Timeouts struct {
	Handshake time.Duration // a client's PROXY protocol header and TLS handshake together
	Header    time.Duration // a client's whole request head, from its first byte
	Idle      time.Duration // a client between two requests
	Body      time.Duration // a client's next piece of a body, to send or to take
	Connect   time.Duration // an instance to accept
	Response  time.Duration // an instance's response head, after it has the whole request
	Send      time.Duration // an instance to take the next piece of a body
	Upstream  time.Duration // an unused connection to an instance
	Tunnel    time.Duration // both sides of an upgraded connection, or the next piece of an answer
	Continue  time.Duration // an instance's answer to an expectation
	Drain     time.Duration // requests to end when the proxy stops
}

// Config is what can be reloaded, as plain values; it is never changed after
// it was handed over.
type Config struct {
	Routes         []Route
	Trusted        []netip.Prefix // proxies whose forwarded headers are believed
	PeerHeader     PeerHeader
	RedirectHTTPS  bool           // requests that did not come by https are sent there
	HTTPSPort      uint16         // where that is; 0: where it is as a rule
	PeerHeaderFrom []netip.Prefix // balancers that begin with a PROXY protocol header
	H2C            bool           // clients may speak HTTP/2 without TLS
	Upgrades       []string       // protocols passed on, lower case
	InstanceTLS    InstanceTLS    // how instances are reached that speak TLS
	SessionTTL     time.Duration
	Limits         Limits
	Timeouts       Timeouts
}

// DefaultConfig returns the defaults, without any route.
func DefaultConfig() Config {
	return Config{
		Upgrades:   []string{"websocket"},
		SessionTTL: 30 * time.Minute,
		Limits:     Limits{RequestHead: 64 << 10, ResponseHead: 256 << 10, IdlePerHost: 256, Streams: 250},
		Timeouts: Timeouts{
			Handshake: 10 * time.Second,
			Header:    10 * time.Second,
			Idle:      75 * time.Second,
			Body:      60 * time.Second,
			Connect:   time.Second,
			Response:  60 * time.Second,
			Send:      60 * time.Second,
			Upstream:  30 * time.Second,
			Tunnel:    time.Hour,
			Continue:  time.Second,
			Drain:     30 * time.Second,
		},
	}
}

// DefaultRoute returns a route that sends everything to a service, with the
// defaults of the contract.
func DefaultRoute(service string) Route {
	return Route{
		Name:        service,
		Path:        "/",
		Service:     service,
		Sticky:      Sticky{Cookie: "RONDEL", SameSite: "Lax", HTTPOnly: true, Path: "/"},
		HashBalance: 125,
		Queue:       Queue{Length: 100, Timeout: 5 * time.Second},
		Outlier:     Outlier{Failures: 5, For: 10 * time.Second, AtMost: 5 * time.Minute, Percent: 50},
		Retry:       Retry{Attempts: 3, Connect: true, Idempotent: true, Body: 64 << 10, Within: 5 * time.Second},
	}
}
