package shop

import (
	"context"
	"slices"
	"time"

	"github.com/rondel-project/rondel/api"
)

const (
	serviceName   = "shop"
	registerEvery = time.Second
)

// keepRegistered registers the instance with the agent beside it, and again
// whenever that has lost it, as an agent does that was killed and came back.
func (s *Shop) keepRegistered(ctx context.Context) {
	tick := time.NewTicker(registerEvery)
	defer tick.Stop()
	for {
		s.register(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// register is silent about failure: an agent that is down is what the demo is
// about, and the next tick tries again.
func (s *Shop) register(ctx context.Context) {
	beside := s.agents[0].Agent()
	known, err := beside.Services(ctx)
	if err != nil || slices.ContainsFunc(known, func(in api.Service) bool { return in.ID == s.cfg.Name && in.Port == s.cfg.Port }) {
		return
	}
	_ = beside.Register(ctx, api.ServiceRegistration{
		ID: s.cfg.Name, Name: serviceName, Address: s.cfg.Host, Port: s.cfg.Port,
		Checks: []api.ServiceCheck{{HTTP: "/health", Interval: api.Duration(time.Second), Timeout: api.Duration(time.Second)}},
	})
}

func (s *Shop) deregister(ctx context.Context) {
	_ = s.agents[0].Agent().Deregister(ctx, s.cfg.Name)
}
