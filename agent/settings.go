package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
)

// checkSettings ends an agent whose configuration differs from what the cluster
// has agreed on: two halves of a cluster that keep sessions differently would
// lose some.
func (a *Agent) checkSettings(t *ring.Table) {
	if diffs := settingsDiffer(settings(*a.cfg.Load()), t.Settings); len(diffs) > 0 {
		a.fail(fmt.Errorf("%w: %s; change this agent's configuration", ErrSettings, strings.Join(diffs, ", ")))
	}
	if a.settled.CompareAndSwap(false, true) {
		if err := a.id.setCluster(t.Cluster); err != nil {
			a.fail(fmt.Errorf("remember the cluster: %w", err))
		}
	}
}

func settingsDiffer(own, agreed ring.Settings) (diffs []string) {
	differ := func(option string, own, agreed any) {
		if own != agreed {
			diffs = append(diffs, fmt.Sprintf("%s is %v here and %v in the cluster", option, own, agreed))
		}
	}
	word := func(v bool, yes, no string) string {
		if v {
			return yes
		}
		return no
	}
	differ("session.replicas", own.Replicas, agreed.Replicas)
	differ("session.on_partition", word(own.Refuse, "refuse", "serve"), word(agreed.Refuse, "refuse", "serve"))
	differ("session.durability", word(own.Disk, "disk", "memory"), word(agreed.Disk, "disk", "memory"))
	differ("ring.reap_after", time.Duration(own.ReapAfter), time.Duration(agreed.ReapAfter))
	if own.Disk == agreed.Disk { // else its default differs too
		differ("ring.stall_timeout", time.Duration(own.StallTimeout), time.Duration(agreed.StallTimeout))
	}
	return diffs
}

// fail ends the agent with an error; the first one counts.
func (a *Agent) fail(err error) {
	select {
	case a.fatal <- err:
	default:
	}
}
