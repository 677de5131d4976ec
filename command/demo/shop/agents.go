package shop

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rondel-project/rondel/api"
)

// The bounds of one request's calls. An agent has two seconds for a call of its
// own; a session whose owner has died has a new one within a few.
const (
	attemptTime = 2500 * time.Millisecond
	budget      = 8 * time.Second
	pause       = 50 * time.Millisecond
)

// agents are the agents that the shop may ask, the one beside it first.
type agents []*api.Client

// newAgents makes a client for each address.
func newAgents(addresses []string) (agents, error) {
	var out agents
	for _, a := range addresses {
		c, err := api.NewClient(api.Config{Address: a, Timeout: attemptTime})
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func (a agents) close() {
	for _, c := range a {
		c.Close()
	}
}

// try makes a call until an agent says yes or no for certain, or the budget is
// used up. All calls made this way carry an idempotency key or change nothing,
// which is why a repeat is safe even when the outcome of the first is unknown.
func (a agents) try(ctx context.Context, call func(context.Context, *api.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	for next := 0; ; next++ {
		err := call(ctx, a[next%len(a)])
		if err == nil || !passing(err) {
			return err
		}
		if api.IsUnreachable(err) && next < len(a)-1 && ctx.Err() == nil {
			continue
		}
		if !api.IsUnreachable(err) {
			next-- // this one lives; it only cannot tell yet
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// passing reports whether the same call may well succeed a little later.
func passing(err error) bool {
	return api.IsUnreachable(err) || api.HasStatus(err, http.StatusServiceUnavailable) || api.HasStatus(err, http.StatusGatewayTimeout)
}

// unclear reports whether an error says nothing about the cart itself.
func unclear(err error) bool {
	return passing(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrBusy)
}
