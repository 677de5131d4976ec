package proxy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/rondel-project/rondel/agent/member"
)

// Health is what the checks say of an instance. Only Critical keeps traffic away.
type Health uint8

// The results of checks; an instance is Critical until a check says otherwise.
const (
	Critical Health = iota
	Warning
	Passing
)

// Instance is one running copy of a service, as the catalog has it.
type Instance struct {
	Service string
	ID      string // unique on its member
	Member  member.ID
	Addr    string // host:port
	Weight  int    // 0: no new clients
	Backup  bool

	Protocol       string        // what it speaks: http1, https, h2 or h2c; "" is http1
	SendProxy      string        // which PROXY header its connections begin with: "", v1 or v2
	MaxConnections int           // requests that this proxy sends it at a time; 0: no limit
	SlowStart      time.Duration // until its whole weight counts after it has come up

	Health      Health
	Maintenance bool    // no traffic at all
	Draining    bool    // no new clients
	Local       bool    // on this agent's machine
	Load        float64 // what the application says of its load: 0 is idle, or it says nothing; 1 is full
	Machine     float64 // the share of its machine's processors in use, 0 where that is not known
}

// usable reports whether clients that are bound to it may still go there.
func (i *Instance) usable() bool { return i.Health != Critical && !i.Maintenance }

// open reports whether new clients may go there.
func (i *Instance) open() bool { return i.usable() && !i.Draining && i.Weight > 0 }

// Counters is what this proxy has sent to one instance.
type Counters struct {
	Service     string
	ID          string
	Member      member.ID
	InFlight    int64 // requests, streams and tunnels now
	Requests    uint64
	NewSessions uint64
	Failures    uint64    // failed connects, reads and writes; never a client's own doing
	Queued      int       // requests of its own clients that wait for room
	Ejected     time.Time // until when real traffic has it out; zero: it is not
}

// key names an instance across snapshots. Another address is another instance,
// and so is another way to speak to it: its connections are of no use then.
type key struct {
	service   string
	member    member.ID
	id        string
	addr      string
	protocol  string
	sendProxy string
}

// plain reports whether the instance speaks HTTP/1.1 over TCP and nothing else,
// so that its connections can be carried in event loops.
func (k *key) plain() bool {
	return k.sendProxy == "" && (k.protocol == "" || k.protocol == "http1")
}

func keyOf(in *Instance) key {
	return key{in.Service, in.Member, in.ID, in.Addr, in.Protocol, in.SendProxy}
}

// backend is an instance as it lives on from snapshot to snapshot: its
// connections and counters.
type backend struct {
	key   key
	hash  uint64 // for rendezvous hashing, the same on every agent
	cfg   func() *Config
	run   func(func()) // runs what reads a connection
	wires              // unless it wants PROXY protocol headers, see conn.wiresTo

	privates privates // if it does

	group *group

	resting [][]*loopInst // of each event loop, whose worker's lock guards it
	gone    atomic.Bool   // deregistered

	suspect  atomic.Int64  // unix nanoseconds until which it is avoided, after a failed connect or while it is ejected
	up       atomic.Int64  // when it came up, in unix nanoseconds; 0: it was up from the start
	back     atomic.Int64  // the end of its last ejection
	row      atomic.Int32  // failures since its last good answer
	out      atomic.Bool   // it was ejected, and nobody said yet that this is over
	queued   atomic.Int32  // clients that are bound to it and wait
	said     atomic.Uint64 // float64: the load that its application reported
	machine  atomic.Uint64 // float64: what the load of its machine counts
	inFlight atomic.Int64
	requests atomic.Uint64
	fresh    atomic.Uint64
	failures atomic.Uint64

	ejections int // guarded by the group's mu

	seen, wasUsable bool // in the latest snapshot; guarded by the proxy's mu
}

// newBackend reads the configuration in force at each use.
func newBackend(k key, g *group, cfg func() *Config, loops int, run func(func())) *backend {
	b := &backend{
		key:     k,
		group:   g,
		hash:    xxhash.Sum64String(string(k.member) + "\x00" + k.id),
		cfg:     cfg,
		run:     run,
		resting: make([][]*loopInst, loops),
	}
	b.wires = b.newWires(nil)
	return b
}

func (b *backend) counters() Counters {
	var ejected time.Time
	if until := b.back.Load(); until > time.Now().UnixNano() {
		ejected = time.Unix(0, until)
	}
	return Counters{
		Service: b.key.service, ID: b.key.id, Member: b.key.member,
		InFlight: b.inFlight.Load(), Requests: b.requests.Load(),
		NewSessions: b.fresh.Load(), Failures: b.failures.Load(),
		Queued: int(b.queued.Load()), Ejected: ejected,
	}
}

// avoid makes others be asked first for a while, so that not each request pays
// for finding out what one did.
func (b *backend) avoid(until time.Time) {
	for {
		old := b.suspect.Load()
		if old >= until.UnixNano() || b.suspect.CompareAndSwap(old, until.UnixNano()) {
			return
		}
	}
}

// report takes in what is known of the load there.
func (b *backend) report(in *Instance) {
	b.said.Store(math.Float64bits(in.Load))
	b.machine.Store(math.Float64bits(strain(in.Machine)))
}

// strain is what a machine's load counts, in large steps: up to the middle it
// slows nobody down, and small differences are noise.
func strain(processors float64) float64 {
	switch {
	case processors < 0.5:
		return 0
	case processors < 0.75:
		return 0.25
	case processors < 0.9:
		return 0.5
	}
	return 0.75
}

// busy is the larger of both loads: 0 is idle, 1 is full.
func (b *backend) busy() float64 {
	return max(math.Float64frombits(b.said.Load()), math.Float64frombits(b.machine.Load()), 0)
}

func (b *backend) suspected(now time.Time) bool {
	until := b.suspect.Load()
	return until != 0 && until > now.UnixNano()
}

// instance is a backend with what one snapshot knows about it.
type instance struct {
	*backend
	Instance
	tag string // in the cookie; empty without a tag key
}

// tagFor is a keyed hash over the names of an instance, cut to 11 characters:
// the same on all agents, telling nothing to who lacks the key.
func tagFor(tagKey []byte, m member.ID, id string) string {
	if len(tagKey) == 0 {
		return ""
	}
	h := hmac.New(sha256.New, tagKey)
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(m)))
	h.Write(n[:])
	h.Write([]byte(m))
	h.Write([]byte(id))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:8])
}
