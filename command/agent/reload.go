package agent

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/config"
)

// reloader is the one way to a new configuration, for SIGHUP and for the API.
type reloader struct {
	load func() (config.Loaded, error)
	log  hclog.Logger

	mu      sync.Mutex // guards agent and current, and lets one reload happen at a time
	agent   Agent
	current config.Runtime
}

func (r *reloader) attach(a Agent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.agent = a
}

// drain is how long requests may take to end when the agent stops.
func (r *reloader) drain() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current.Proxy.Timeouts.Drain
}

// reload reads the configuration again. On an error nothing has changed.
func (r *reloader) reload() (changed, needsRestart []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.agent == nil {
		return nil, nil, fmt.Errorf("nothing was changed: the agent is still starting")
	}
	r.agent.Reopen() // whatever is wrong with the configuration
	loaded, err := r.load()
	if err != nil {
		return nil, nil, fmt.Errorf("nothing was changed, the configuration has problems:\n%w", err)
	}
	changed, needsRestart = config.Changes(r.current, loaded.Runtime)
	if len(changed) == 0 {
		return nil, needsRestart, nil
	}
	next := config.Apply(r.current, loaded.Runtime)
	if err := r.agent.Reload(next); err != nil {
		return nil, nil, fmt.Errorf("nothing was changed: %w", err)
	}
	r.current = next
	r.log.SetLevel(hclog.LevelFromString(next.Log.Level))
	return changed, needsRestart, nil
}

// onSignal is reload for those who can only read the log.
func (r *reloader) onSignal() {
	changed, needsRestart, err := r.reload()
	if err != nil {
		r.log.Error("reload failed", "error", err)
		return
	}
	r.log.Info("configuration reloaded", "changed", changed)
	if len(needsRestart) > 0 {
		r.log.Warn("what differs here needs a restart", "options", needsRestart)
	}
}
