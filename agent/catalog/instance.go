package catalog

import (
	"net"
	"strconv"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

// Health is the verdict on an instance or on one of its checks.
type Health string

// The verdicts. A warning lets traffic through.
const (
	Passing  Health = "passing"
	Warning  Health = "warning"
	Critical Health = "critical"
)

// What instances speak.
const (
	HTTP1 = "http1" // HTTP/1.1, in the clear
	HTTPS = "https" // HTTP/1.1 over TLS
	H2    = "h2"    // HTTP/2 over TLS
	H2C   = "h2c"   // HTTP/2 in the clear, without an upgrade
)

var protocols = []string{HTTP1, HTTPS, H2, H2C}

func worse(a, b Health) bool { return rank(a) > rank(b) }

func rank(h Health) byte {
	switch h {
	case Passing:
		return 0
	case Warning:
		return 1
	}
	return 2
}

func healthOf(rank byte) Health {
	switch rank {
	case 0:
		return Passing
	case 1:
		return Warning
	}
	return Critical
}

// CheckState is the state of one check.
type CheckState struct {
	Health Health
	Reason string
	Since  time.Time // zero for other members' instances
}

// Instance is one running copy of an application, as it is known to all.
type Instance struct {
	Member     member.ID
	MemberName string
	ID         string
	Name       string // of the service
	Address    string // never empty in a Snapshot
	Port       int
	Weight     int
	Backup     bool

	Protocol       string        // what it speaks: one of the protocols below
	SendProxy      string        // which PROXY header its connections begin with: "", v1 or v2
	MaxConnections int           // requests that each proxy sends it at a time; 0: no limit
	SlowStart      time.Duration // until its whole weight counts after it has come up

	Tags   []string
	Checks []CheckState

	Maintenance bool
	Draining    bool    // takes no new clients; also while its member leaves
	Drain       Drain   // why, and for how long, if an operator said so
	Moved       bool    // the time of its drain is over: no clients at all
	Load        float64 // as its application reported it
	Beside      bool    // it runs on its member's machine, as far as its address tells

	Health Health // the worst of its checks, maintenance and its member
	Reason string // why Health is not passing
}

// Addr is where the instance listens.
func (i Instance) Addr() string { return net.JoinHostPort(i.Address, strconv.Itoa(i.Port)) }

// judge sets Health and Reason by checks and maintenance alone.
func (i *Instance) judge() {
	i.Health, i.Reason = Passing, ""
	for _, c := range i.Checks {
		if worse(c.Health, i.Health) {
			i.Health, i.Reason = c.Health, c.Reason
		}
	}
}
