package agent

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/replicate"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/store"
)

// sessionsDir is where in the data directory sessions are kept.
const sessionsDir = "sessions"

// keepOnDisk opens the store of sessions where the cluster keeps them on disk.
func (a *Agent) keepOnDisk(cfg config.Runtime, log hclog.Logger) (err error) {
	if cfg.Cluster.Durability != config.Disk {
		return nil
	}
	a.store, err = store.Open(store.Options{
		Dir: a.id.path(sessionsDir), Member: string(a.id.id), Sync: store.Policy(cfg.Session.Fsync), Slots: ring.Slots, Log: log, Kernel: kernelRun(),
	})
	if err != nil {
		return fmt.Errorf("open the store of sessions: %w", err)
	}
	return nil
}

// loadFromDisk fills the engine with what an earlier run has kept.
func (a *Agent) loadFromDisk() error {
	if a.store == nil {
		return nil
	}
	began := time.Now()
	r, err := a.store.Load(a.engine.Load)
	if err != nil {
		return fmt.Errorf("load the sessions on disk: %w", err)
	}
	held := a.engine.Figures().Held
	switch {
	case r.Damage != nil:
		told := []any{"file", r.Damage.File, "offset", r.Damage.Offset, "error", r.Damage.Err, "sessions", held}
		if r.Kept != "" { // a new log takes the file's name
			told = append(told, "kept", r.Kept)
		}
		a.log.Error("the log of sessions is damaged: what follows is not used, and this member is filled by the others", told...)
	case r.Why != "":
		a.log.Warn("the sessions on disk may be less than was acknowledged: this member is filled by the others", "reason", r.Why, "sessions", held)
	case r.Entries > 0:
		a.log.Info("sessions loaded from disk", "sessions", held, "took", time.Since(began).Round(time.Millisecond))
	}
	a.engine.SetStore(r.ID, false)
	return nil
}

// runStore writes what the engine logs. It ends after the engine.
func (a *Agent) runStore(ctx context.Context) error { return a.store.Run(ctx, keeper{a.engine}) }

// diskOf returns the engine's disk, nil where there is none.
func (a *Agent) diskOf() replicate.Disk {
	if a.store == nil {
		return nil
	}
	return a.store
}

// storeStats is what `rondel info` shows of the store.
func (a *Agent) storeStats() map[string]string {
	if a.store == nil {
		return map[string]string{"durability": "memory"}
	}
	s := a.store.State()
	out := map[string]string{
		"durability": "disk", "fsync": a.cfg.Load().Session.Fsync, "whole": strconv.FormatBool(s.Whole),
		"log_bytes": strconv.FormatInt(s.Bytes, 10),
	}
	if !s.Whole {
		out["reason"] = s.Reason
	}
	return out
}

// storeUnready says why sessions here are as good as in memory only, "" where
// they are not.
func (a *Agent) storeUnready(me *ring.Member) string {
	if a.store == nil {
		return ""
	}
	return unkept(a.store.State(), me)
}

// unkept says why a restart would not count on a member's disk, "" where it
// would: it holds everything, and the table, in which the member is me, has its id.
func unkept(s store.State, me *ring.Member) string {
	switch {
	case !s.Whole:
		return "sessions are not on disk here: " + s.Reason
	case s.ID != me.Store:
		return "sessions are on disk here again, which the cluster has yet to note"
	}
	return ""
}

// keeper is the engine as the store knows it.
type keeper struct{ *replicate.Engine }

// Dump implements store.Keeper.
func (k keeper) Dump(slot int) uint64 { return k.Engine.Dump(ring.Slot(slot)) }

// kernelRun names the run of this machine, "" where it cannot be told.
func kernelRun() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
