package wire

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/rondel-project/rondel/agent/internal/netloop"
)

// Options are what a Transport is made of. Listener and Self must be given; all
// else has a default.
type Options struct {
	Listener net.Listener
	// Dial makes a connection; it must heed ctx. A refused one must be told by
	// an error that is syscall.ECONNREFUSED.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Self says who this agent is now; Wall and Offset are not looked at. It is
	// called from many goroutines.
	Self func() Hello
	// Loops, if set, read the foreground lanes; else each has a goroutine.
	Loops *netloop.Pool

	MaxFrame         int // bytes, kind included; 64 MiB
	QueueBytes       int // bytes that may wait for one lane of one peer; 16 MiB
	MaxCalls         int // handlers running at once for one connection; 256
	MaxGreetings     int // connections that have not yet said who they are; 256
	DialTimeout      time.Duration
	WriteTimeout     time.Duration // without progress
	PingInterval     time.Duration
	PingTimeout      time.Duration // five times that on the bulk lane
	IdleTimeout      time.Duration // before an unused connection is closed
	QueueAge         time.Duration // how long messages wait for a connection
	BackoffMin       time.Duration
	BackoffMax       time.Duration
	RefusedPause     time.Duration // the shortest time between two refused attempts
	HandshakeTimeout time.Duration
}

const bulkPatience = 5

func (o Options) withDefaults() Options {
	if o.Dial == nil {
		var d net.Dialer
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	orInt := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	orTime := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	orInt(&o.MaxFrame, 64<<20)
	orInt(&o.QueueBytes, 16<<20)
	orInt(&o.MaxCalls, 256)
	orInt(&o.MaxGreetings, 256)
	orTime(&o.DialTimeout, 2*time.Second)
	orTime(&o.HandshakeTimeout, 2*time.Second)
	orTime(&o.WriteTimeout, 2*time.Second)
	orTime(&o.PingInterval, time.Second)
	orTime(&o.PingTimeout, 2*time.Second)
	orTime(&o.IdleTimeout, time.Minute)
	orTime(&o.QueueAge, time.Second)
	orTime(&o.BackoffMin, 50*time.Millisecond)
	orTime(&o.BackoffMax, time.Second)
	orTime(&o.RefusedPause, 20*time.Millisecond)
	return o
}

// Stats counts since the transport was made.
type Stats struct {
	Dropped     uint64 // messages that Send refused
	Unreachable uint64 // failed attempts and lost connections
	Broken      uint64 // connections closed for a broken greeting or frame
	Turned      uint64 // connections turned away: another boot, member, cluster or version
}

type counters struct{ dropped, unreachable, broken, turned atomic.Uint64 }

// Stats returns the counts so far.
func (t *Transport) Stats() Stats {
	return Stats{
		Dropped:     t.stats.dropped.Load(),
		Unreachable: t.stats.unreachable.Load(),
		Broken:      t.stats.broken.Load(),
		Turned:      t.stats.turned.Load(),
	}
}
