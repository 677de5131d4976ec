package agent

import (
	"fmt"

	"github.com/rondel-project/rondel/agent/config"
)

// Reload takes over a configuration of which only options that can change
// differ from the present one, as a whole or not at all.
func (a *Agent) Reload(cfg config.Runtime) error {
	old := a.cfg.Load()
	if a.doors != nil {
		a.feed.mu.Lock()
		fallback := a.feed.fallback
		a.feed.mu.Unlock()
		if err := a.doors.proxy.Reload(proxyConfig(cfg, fallback)); err != nil {
			return fmt.Errorf("proxy: %w", err)
		}
	}
	if err := a.services.local.SetConfigured(configured(cfg)); err != nil {
		if a.doors != nil {
			a.feed.mu.Lock()
			fallback := a.feed.fallback
			a.feed.mu.Unlock()
			// The old one was good; nothing else has changed yet.
			_ = a.doors.proxy.Reload(proxyConfig(*old, fallback))
		}
		return fmt.Errorf("services: %w", err)
	}
	a.engine.SetDefaults(defaults(cfg))
	a.cfg.Store(&cfg)
	return nil
}
