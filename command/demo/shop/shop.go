package shop

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Config is what an instance needs to know.
type Config struct {
	Name   string    // of the instance
	Member string    // name of the agent beside it
	Listen string    // host:port
	Agents []string  // HTTP APIs, the agent beside it first
	Log    io.Writer // lines about what goes wrong

	Host string // of Listen
	Port int
}

// Shop is one instance.
type Shop struct {
	cfg      Config
	agents   agents
	listen   net.Listener
	template *template.Template
}

// New binds the address of an instance.
func New(cfg Config) (*Shop, error) {
	if len(cfg.Agents) == 0 {
		return nil, errors.New("a shop needs the address of an agent")
	}
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen address %q: %w", cfg.Listen, err)
	}
	agents, err := newAgents(cfg.Agents)
	if err != nil {
		return nil, err
	}
	page, err := parsePage()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("open the shop: %w", err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	cfg.Host = host
	if cfg.Port, err = strconv.Atoi(port); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &Shop{cfg: cfg, agents: agents, listen: l, template: page}, nil
}

// Run serves until ctx ends, then takes the instance out of traffic and
// finishes the requests that are under way.
func (s *Shop) Run(ctx context.Context) error {
	defer s.agents.close()
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	var background sync.WaitGroup
	defer background.Wait()
	registering, stop := context.WithCancel(ctx)
	var register sync.WaitGroup
	defer register.Wait()
	defer stop()
	register.Go(func() { s.keepRegistered(registering) })

	served := make(chan error, 1)
	background.Go(func() { served <- server.Serve(s.listen) })
	select {
	case err := <-served:
		return fmt.Errorf("serve the shop: %w", err)
	case <-ctx.Done():
	}
	register.Wait() // or what is on its way there would undo what follows
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	s.deregister(end)
	if err := server.Shutdown(end); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}
