package proxy

import (
	"net/http"
	"sync/atomic"
	"time"
)

// clock keeps the present second as a Date field has it, for responses that
// come without one: whoever passes them on has to say when they came.
type clock struct{ now atomic.Pointer[second] }

type second struct {
	unix int64
	text string
}

func (c *clock) at(now time.Time) string {
	s := c.now.Load()
	if s == nil || s.unix != now.Unix() {
		s = &second{now.Unix(), now.UTC().Format(http.TimeFormat)}
		c.now.Store(s)
	}
	return s.text
}
