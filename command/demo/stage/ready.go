package stage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rondel-project/rondel/api"
)

// The bounds of waiting for the cluster.
const (
	readyTime = 40 * time.Second
	pollEvery = 50 * time.Millisecond
)

// ErrNotReady means that the cluster did not get ready in time.
var ErrNotReady = errors.New("the cluster is not ready")

// ready waits until each agent is healthy and sends traffic to all instances.
func (s *Stage) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	for i := range s.clients {
		if err := s.Healthy(ctx, i); err != nil {
			return err
		}
		if err := s.Serving(ctx, i, machines); err != nil {
			return err
		}
	}
	return nil
}

// Client returns a client of an agent.
func (s *Stage) Client(i int) *api.Client { return s.clients[i] }

// Healthy waits until an agent says that the cluster is whole.
func (s *Stage) Healthy(ctx context.Context, i int) error {
	return s.poll(ctx, i, "to say that the cluster is whole", func() (bool, error) {
		h, err := s.clients[i].Health().Agent(ctx)
		if err != nil {
			return false, err
		}
		if !h.Healthy {
			return false, fmt.Errorf("%v", h.Reasons)
		}
		return true, nil
	})
}

// Serving waits until an agent knows so many healthy instances.
func (s *Stage) Serving(ctx context.Context, i, instances int) error {
	return s.poll(ctx, i, fmt.Sprintf("to know %d healthy instances", instances), func() (bool, error) {
		all, _, err := s.clients[i].Catalog().Service(ctx, "shop", true, api.Wait{})
		if err != nil {
			return false, err
		}
		return len(all) >= instances, fmt.Errorf("it knows %d", len(all))
	})
}

// poll asks until it is so. A process that has ended meanwhile without being
// told to is the better explanation.
func (s *Stage) poll(ctx context.Context, i int, what string, ask func() (bool, error)) error {
	var err error // the last that tells more than that time is up
	for {
		done, now := ask()
		if done {
			return nil
		}
		if ctx.Err() == nil || err == nil {
			err = now
		}
		if fallen := s.fallen(); fallen != nil {
			return fmt.Errorf("%w: %s ended while starting (%s); the end of its log:\n%s", ErrNotReady, fallen.Name, fallen.Fate(), fallen.tail(12))
		}
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), context.Canceled) {
				return context.Canceled
			}
			return fmt.Errorf("%w: waited for %s %s: %w; the end of its log:\n%s", ErrNotReady, agentName(i), what, err, s.Agents()[i].tail(12))
		case <-time.After(pollEvery):
		}
	}
}

// fallen returns a process that ended by itself.
func (s *Stage) fallen() *Process {
	for _, p := range append(s.Agents(), s.Shops()...) {
		if p == nil || p.Alive() {
			continue
		}
		s.mu.Lock()
		expected := s.expected[p]
		s.mu.Unlock()
		if !expected {
			return p
		}
	}
	return nil
}
