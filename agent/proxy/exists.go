package proxy

import (
	"context"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
)

const (
	existsTimeout = 100 * time.Millisecond
	existsRetry   = time.Second // after nobody could say
	existsShards  = 64
	existsPerHalf = 8192 // ids remembered in each half of a shard
)

// existence remembers which old ids name a session. Each shard has two halves
// that take turns, so forgetting costs nothing.
type existence struct {
	shards [existsShards]existsShard
}

type existsShard struct {
	mu       sync.Mutex
	now, old map[string]time.Time // until when the answer holds
}

func newExistence() *existence {
	e := &existence{}
	for i := range e.shards {
		e.shards[i].now = map[string]time.Time{}
	}
	return e
}

func (s *existsShard) get(id string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.now[id]
	if !ok {
		until = s.old[id]
	}
	return now.Before(until)
}

func (s *existsShard) put(id string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.now) >= existsPerHalf {
		s.now, s.old = make(map[string]time.Time, existsPerHalf/4), s.now
	}
	s.now[id] = until
}

// gone reports whether the session of an id is known not to exist. It asks
// only about ids older than half a TTL, and keeps a good answer for as long.
func (e *existence) gone(s Sessions, c *claim, ttl time.Duration, now time.Time) bool {
	if ttl <= 0 || now.Sub(c.issued) <= ttl/2 {
		return false
	}
	shard := &e.shards[xxhash.Sum64String(c.id)%existsShards]
	if shard.get(c.id, now) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), existsTimeout)
	defer cancel()
	exists, ok := s.Exists(ctx, c.id)
	switch {
	case !ok:
		shard.put(c.id, now.Add(existsRetry))
	case exists:
		shard.put(c.id, now.Add(ttl/2))
	default:
		return true
	}
	return false
}
