package config

import "time"

// SessionFile is the section "session".
type SessionFile struct {
	Backend     *string   `opt:"backend"`
	Replicas    *int      `opt:"replicas"`
	OnPartition *string   `opt:"on_partition"`
	Durability  *string   `opt:"durability"`
	Fsync       *string   `opt:"fsync"`
	TTL         *Duration `opt:"ttl"`
	MaxAge      *Duration `opt:"max_age"`
	MaxCount    *int      `opt:"max_count"`
	MaxSize     *Size     `opt:"max_size"`
	AlwaysLoad  *bool     `opt:"always_load"`
}

// Session is what one agent's session engine needs to know. All of it but
// Backend and Fsync can be changed by a reload.
type Session struct {
	Backend    string        `opt:"session.backend"`
	Fsync      string        `opt:"session.fsync"` // durability = "disk": when a change is on the disk itself
	TTL        time.Duration `opt:"session.ttl,reload"`
	MaxAge     time.Duration `opt:"session.max_age,reload"`
	MaxCount   int           `opt:"session.max_count,reload"`
	MaxSize    int64         `opt:"session.max_size,reload"`
	AlwaysLoad bool          `opt:"session.always_load,reload"`
}

// maxSessionSize leaves a whole session room in the queue between two agents,
// which holds 16 MiB (agent/wire), while another is in it.
const maxSessionSize = 7 << 20

func defaultSession() *SessionFile {
	return &SessionFile{
		Backend:     ptr("ring"),
		Replicas:    ptr(2),
		OnPartition: ptr(string(Serve)),
		Durability:  ptr(string(Memory)),
		Fsync:       ptr("always"),
		TTL:         ptr(Duration(30 * time.Minute)),
		MaxAge:      ptr(Duration(24 * time.Hour)),
		MaxCount:    ptr(1_000_000),
		MaxSize:     ptr(Size(1 << 20)),
		AlwaysLoad:  ptr(false),
	}
}

func (f *SessionFile) runtime(c *checker) Session {
	c.oneOf("session.backend", *f.Backend, "ring")
	c.oneOf("session.fsync", *f.Fsync, "always", "everysec", "no")
	c.durationBetween("session.ttl", *f.TTL, time.Second, 365*24*time.Hour)
	c.durationBetween("session.max_age", *f.MaxAge, time.Second, 10*365*24*time.Hour)
	c.between("session.max_count", *f.MaxCount, 1, 1<<31-1)
	c.sizeBetween("session.max_size", *f.MaxSize, 1<<10, maxSessionSize)
	if *f.MaxAge < *f.TTL {
		c.fail("session.max_age", *f.MaxAge, "must not be below session.ttl, "+f.TTL.String())
	}
	return Session{
		Backend:    *f.Backend,
		Fsync:      *f.Fsync,
		TTL:        time.Duration(*f.TTL),
		MaxAge:     time.Duration(*f.MaxAge),
		MaxCount:   *f.MaxCount,
		MaxSize:    int64(*f.MaxSize),
		AlwaysLoad: *f.AlwaysLoad,
	}
}
