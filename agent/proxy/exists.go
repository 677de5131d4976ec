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

// unsure reports whether somebody has to be asked about an id: only about those
// older than half a TTL, and not again for as long after a good answer.
func (e existence) unsure(c *claim, ttl time.Duration, now time.Time) bool {
	if ttl <= 0 || now.Sub(c.issued) <= ttl/2 {
		return false
	}
	until, ok := e.get(c.id)
	return !ok || !now.Before(until)
}

// gone asks whether the session of an id is known not to exist. It waits for
// the answer, for a while.
func (e existence) gone(s Sessions, c *claim, ttl time.Duration, now time.Time) bool {
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
