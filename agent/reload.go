package agent

import (
	"fmt"
	"slices"

	"github.com/rondel-project/rondel/agent/config"
)

// Reload takes over a configuration of which only options that can change
// differ from the present one, as a whole or not at all.
func (a *Agent) Reload(cfg config.Runtime) error {
	// A change of the catalog must not bring the old routes back in between.
	a.feed.mu.Lock()
	defer a.feed.mu.Unlock()
	old := a.cfg.Load()
	var undo []func()
	failed := func(what string, err error) error {
		for _, f := range slices.Backward(undo) {
			f()
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	commit := func() {}
	if a.doors != nil {
		certificates, err := a.doors.secure.prepare(cfg.Proxy)
		if err != nil {
			return err
		}
		ports, fresh, err := a.doors.bindProxy(cfg.Proxy)
		if err != nil {
			return err
		}
		undo = append(undo, func() { closePorts(fresh) })
		if err := a.doors.access.Set(accessLog(cfg.Proxy.AccessLog)); err != nil {
			return failed("proxy", err)
		}
		// The old ones were good; nothing else will have changed by then.
		undo = append(undo, func() { _ = a.doors.access.Set(accessLog(old.Proxy.AccessLog)) })
		if err := a.doors.proxy.Reload(proxyConfig(cfg, a.feed.fallback)); err != nil {
			return failed("proxy", err)
		}
		undo = append(undo, func() { _ = a.doors.proxy.Reload(proxyConfig(*old, a.feed.fallback)) })
		commit = func() {
			certificates()
			a.movePorts(ports)
		}
	}
	if err := a.services.local.SetConfigured(configured(cfg)); err != nil {
		return failed("services", err)
	}
	commit()
	a.engine.SetDefaults(defaults(cfg))
	if a.doors != nil {
		a.doors.api.Reload(cfg.API.Hosts, int(cfg.Session.MaxSize))
	}
	a.cfg.Store(&cfg)
	if !slices.Equal(cfg.Join.Retry, old.Join.Retry) {
		select {
		case a.rejoin <- struct{}{}:
		default: // it will look
		}
	}
	return nil
}

// Reopen makes the access log's file anew if it was moved away.
func (a *Agent) Reopen() {
	if a.doors != nil {
		a.doors.access.Reopen()
	}
}
