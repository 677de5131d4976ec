package shop

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rondel-project/rondel/api"
)

const (
	serviceName   = "shop"
	registerEvery = time.Second
	checkEvery    = time.Second
	checkTime     = 500 * time.Millisecond
)

// keepRegistered registers the instance with the agent beside it, and again
// whenever that has lost it, as an agent does that was killed and came back.
func (s *Shop) keepRegistered(ctx context.Context) {
	tick := time.NewTicker(registerEvery)
	defer tick.Stop()
	said := ""
	for {
		// An agent that is down is what the demo is about: it is worth a line,
		// and the next tick tries again.
		now := ""
		if err := s.register(context.WithoutCancel(ctx)); err != nil && ctx.Err() == nil { // each call is bounded by itself
			now = err.Error()
		}
		if now != said && now != "" {
			fmt.Fprintln(s.cfg.Log, "The shop cannot register:", now)
		}
		said = now
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Shop) register(ctx context.Context) error {
	beside := s.agents[0].Agent()
	known, err := beside.Services(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(known, func(in api.Service) bool { return in.ID == s.cfg.Name && in.Port == s.cfg.Port }) {
		return nil
	}
	return beside.Register(ctx, api.ServiceRegistration{
		ID: s.cfg.Name, Name: serviceName, Address: s.cfg.Host, Port: s.cfg.Port,
		Checks: []api.ServiceCheck{{HTTP: "/health", Interval: api.Duration(checkEvery), Timeout: api.Duration(checkTime)}},
	})
}

func (s *Shop) deregister(ctx context.Context) {
	_ = s.agents[0].Agent().Deregister(ctx, s.cfg.Name)
}
