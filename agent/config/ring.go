package config

import "time"

// Partition says what members do that are cut off from a leader.
type Partition string

// Serve carries on by gossip and merges later; Refuse refuses writes when the
// lease is over.
const (
	Serve  Partition = "serve"
	Refuse Partition = "refuse"
)

// Durability says where copies of a session live.
type Durability string

// Memory loses sessions when all members stop at once; Disk does not.
const (
	Memory Durability = "memory"
	Disk   Durability = "disk"
)

// RingFile is the section "ring".
type RingFile struct {
	ReapAfter    *Duration `opt:"reap_after"`
	StallTimeout *Duration `opt:"stall_timeout"`
}

// Cluster holds the settings that are kept in the table: every agent must have
// the same, and one that differs stops. It is comparable.
type Cluster struct {
	Replicas     int           `opt:"session.replicas"`
	OnPartition  Partition     `opt:"session.on_partition"`
	Durability   Durability    `opt:"session.durability"`
	ReapAfter    time.Duration `opt:"ring.reap_after"`
	StallTimeout time.Duration `opt:"ring.stall_timeout"`
}

func defaultRing() *RingFile {
	return &RingFile{ReapAfter: ptr(Duration(10 * time.Minute)), StallTimeout: ptr(Duration(0))}
}

func (f *File) cluster(c *checker) Cluster {
	s, r := f.Session, f.Ring
	c.between("session.replicas", *s.Replicas, 0, 2)
	c.oneOf("session.on_partition", *s.OnPartition, string(Serve), string(Refuse))
	c.oneOf("session.durability", *s.Durability, string(Memory), string(Disk))
	if *s.Durability == string(Disk) && *f.Dev {
		c.fail("session.durability", *s.Durability, "needs a data_dir, and -dev keeps everything in memory: start without -dev")
	}
	c.durationBetween("ring.reap_after", *r.ReapAfter, 10*time.Second, 365*24*time.Hour)
	stall := *r.StallTimeout
	switch {
	case stall != 0:
		c.durationBetween("ring.stall_timeout", stall, time.Second, time.Hour)
	case *s.Durability == string(Memory):
		stall = Duration(30 * time.Second)
	default: // what is on a disk is worth waiting for
	}
	return Cluster{
		Replicas:     *s.Replicas,
		OnPartition:  Partition(*s.OnPartition),
		Durability:   Durability(*s.Durability),
		ReapAfter:    time.Duration(*r.ReapAfter),
		StallTimeout: time.Duration(stall),
	}
}
