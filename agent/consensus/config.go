package consensus

import (
	"errors"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/rondel-project/rondel/agent/member"
)

var (
	// ErrNotLeader means that another member leads, or none.
	ErrNotLeader = errors.New("not the leader")
	// ErrUnknownOutcome means that a change was handed to the log and may yet be
	// committed, or not.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrNotRunning means that Run has not started Raft yet, or has ended it.
	ErrNotRunning = errors.New("raft is not running")
	// ErrRemoved means that this server is no longer part of the cluster's Raft
	// configuration. Its directory must not be used under the same id again.
	ErrRemoved = errors.New("removed from the raft configuration")
	// ErrDamaged means that the log on disk is not what was written to it.
	ErrDamaged = errors.New("the raft log on disk is damaged")
	// ErrHasState means that there is something to lose: no bootstrap.
	ErrHasState = errors.New("raft state exists already")
)

// Timings are Raft's timeouts. Those that are zero take their default.
type Timings struct {
	Heartbeat   time.Duration // without a leader for so long a follower stands for election
	Election    time.Duration
	Lease       time.Duration // without a quorum for so long a leader steps down
	Commit      time.Duration
	Transport   time.Duration // one RPC
	Enqueue     time.Duration // until a change is taken up
	SnapshotGap time.Duration // between checks whether a snapshot is due
}

// DefaultTimings are for servers in one network: a dead leader is replaced in
// about a second.
func DefaultTimings() Timings {
	return Timings{
		Heartbeat:   500 * time.Millisecond,
		Election:    500 * time.Millisecond,
		Lease:       250 * time.Millisecond,
		Commit:      50 * time.Millisecond,
		Transport:   2 * time.Second,
		Enqueue:     2 * time.Second,
		SnapshotGap: 30 * time.Second,
	}
}

func (t Timings) withDefaults() Timings {
	d := DefaultTimings()
	for _, p := range []struct{ v, d *time.Duration }{
		{&t.Heartbeat, &d.Heartbeat},
		{&t.Election, &d.Election},
		{&t.Lease, &d.Lease},
		{&t.Commit, &d.Commit},
		{&t.Transport, &d.Transport},
		{&t.Enqueue, &d.Enqueue},
		{&t.SnapshotGap, &d.SnapshotGap},
	} {
		if *p.v <= 0 {
			*p.v = *p.d
		}
	}
	return t
}

// ServerDialer connects to one server: whoever else is at its address is an
// error.
type ServerDialer interface {
	DialServer(id member.ID, addr string, timeout time.Duration) (net.Conn, error)
}

// Config makes a Node. Either Transport or Stream is given.
type Config struct {
	ID        member.ID
	Dir       string // "": in memory
	Timings   Timings
	Log       hclog.Logger
	Advertise string // this server's address as the others dial it

	// Stream carries Raft's connections; Run closes it. It should be a
	// ServerDialer too.
	Stream raft.StreamLayer
	// Transport replaces Stream in tests.
	Transport raft.Transport

	// Address returns where a server is now, "" where that is not known: then
	// the address in the Raft configuration is used. It is called from many
	// goroutines and must not block. Nil: always the configuration's.
	Address func(member.ID) string

	// SnapshotEvery is after how many entries a snapshot is taken, Trailing how
	// many entries are kept for followers that lag. 0: the default.
	SnapshotEvery, Trailing uint64
}

// Server is one server of the Raft configuration.
type Server struct {
	ID    member.ID
	Addr  string
	Voter bool
}
