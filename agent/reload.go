package agent

import (
	"fmt"

	"github.com/rondel-project/rondel/agent/config"
)

// Reload takes over a configuration of which only options that can change
// differ from the present one, as a whole or not at all.
func (a *Agent) Reload(cfg config.Runtime) error {
	// A change of the catalog must not bring the old routes back in between.
	a.feed.mu.Lock()
	defer a.feed.mu.Unlock()
	old := a.cfg.Load()
	certificates := func() {}
	if a.doors != nil && a.doors.secure != nil {
		var err error
		if certificates, err = a.doors.secure.prepare(cfg.Proxy); err != nil {
			return err
		}
	}
	if a.doors != nil {
		if err := a.doors.access.Set(accessLog(cfg.Proxy.AccessLog)); err != nil {
			return err
		}
		if err := a.doors.proxy.Reload(proxyConfig(cfg, a.feed.fallback)); err != nil {
			_ = a.doors.access.Set(accessLog(old.Proxy.AccessLog))
			return fmt.Errorf("proxy: %w", err)
		}
	}
	if err := a.services.local.SetConfigured(configured(cfg)); err != nil {
		if a.doors != nil {
			// The old one was good; nothing else has changed yet.
			_ = a.doors.proxy.Reload(proxyConfig(*old, a.feed.fallback))
			_ = a.doors.access.Set(accessLog(old.Proxy.AccessLog))
		}
		return fmt.Errorf("services: %w", err)
	}
	certificates()
	a.engine.SetDefaults(defaults(cfg))
	a.cfg.Store(&cfg)
	return nil
}

// Reopen makes the access log's file anew if it was moved away.
func (a *Agent) Reopen() {
	if a.doors != nil {
		a.doors.access.Reopen()
	}
}
