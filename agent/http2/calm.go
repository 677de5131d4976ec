package http2

import (
	"time"

	"golang.org/x/net/http2"
)

// What a peer may do without having paid by requests that went their way. A
// stream that is opened and reset costs much here and nothing there, so it
// counts for many frames that only want an answer. The burst lets a client
// cancel a thousand requests at once.
const (
	calmBurst  = 10_000
	calmPerSec = 2_000
	resetCost  = 10
	frameCost  = 1
)

// calm is what is left of the peer's allowance.
type calm struct {
	spent float64
	at    time.Time
}

// spend fails once the peer is beyond bearing.
func (c *calm) spend(cost float64) error {
	now := time.Now()
	c.spent = max(0, c.spent-now.Sub(c.at).Seconds()*calmPerSec) + cost
	c.at = now
	if c.spent > calmBurst {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	return nil
}
