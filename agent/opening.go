package agent

import (
	"context"
	"time"

	"github.com/rondel-project/rondel/agent/catalog"
)

// openingWait is how long the proxy's port may queue connections while this
// agent gets to know its cluster.
const openingWait = 5 * time.Second

// serveProxy opens the proxy as soon as requests would get what they need: a
// table, so that they have a session, and an instance of each service. Until
// then connections wait in the queue of the port, as at a server that starts;
// a little late is better than without a session.
func (a *Agent) serveProxy(ctx context.Context) error {
	opening, cancel := context.WithTimeout(ctx, openingWait)
	defer cancel()
	for opening.Err() == nil {
		changed := a.services.catalog.Changed()
		a.tableMu.Lock()
		newTable := a.tableChanged
		a.tableMu.Unlock()
		if !a.engine.View().Keys.Empty() && a.allServed(a.services.catalog.Snapshot()) {
			break
		}
		select {
		case <-changed:
		case <-newTable:
		case <-opening.Done():
		}
	}
	return a.doors.proxy.Run(ctx)
}

// allServed reports whether each service that requests go to has an instance.
func (a *Agent) allServed(s *catalog.Snapshot) bool {
	names := map[string]bool{}
	for _, r := range a.cfg.Load().Routes {
		names[r.Service] = true
	}
	if len(names) == 0 {
		for _, svc := range s.Services() {
			names[svc.Name] = true
		}
	}
	for name := range names {
		if len(s.Passing(name)) == 0 {
			return false
		}
	}
	return len(names) > 0
}
