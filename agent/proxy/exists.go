package proxy

import (
	"context"
	"time"
)

const (
	existsTimeout = 100 * time.Millisecond
	existsRetry   = time.Second // after nobody could say
	existsHalf    = 8192
)

// existence remembers until when it holds that an old id names a session.
type existence struct{ *recent[time.Time] }

func newExistence() existence { return existence{newRecent[time.Time](existsHalf)} }

// gone reports whether the session of an id is known not to exist. It asks
// only about ids older than half a TTL, and keeps a good answer for as long.
func (e existence) gone(s Sessions, c *claim, ttl time.Duration, now time.Time) bool {
	if ttl <= 0 || now.Sub(c.issued) <= ttl/2 {
		return false
	}
	if until, ok := e.get(c.id); ok && now.Before(until) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), existsTimeout)
	defer cancel()
	exists, ok := s.Exists(ctx, c.id)
	switch {
	case !ok:
		e.put(c.id, now.Add(existsRetry))
	case exists:
		e.put(c.id, now.Add(ttl/2))
	default:
		return true
	}
	return false
}
