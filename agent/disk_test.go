package agent_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/agenttest"
	"github.com/rondel-project/rondel/agent/config"
)

func onDisk(t *testing.T, mode string) []agenttest.Option {
	return append(inMode(mode), agenttest.OnDisk(t.TempDir()), agenttest.Configure(func(_ string, cfg *config.Runtime) {
		cfg.Cluster.Durability, cfg.Cluster.StallTimeout, cfg.Session.Fsync = config.Disk, 0, "no"
	}))
}

// All members end at once, and everything acknowledged is there again, however
// they come back.
func TestDisk_allMembersEndAtOnce(t *testing.T) {
	for mode, members := range map[string]int{"serve": 5, "refuse": 3} {
		t.Run(mode, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := agenttest.NewCluster(t, members, onDisk(t, mode)...)
				names := c.Names()
				value := map[string]int{}
				for i := range 60 {
					cl := c.Member(names[i%len(names)]).Client
					id := ok(t, "create", cl.Create(attrs{"n": 0}, "")).ID
					for n := range 2 {
						ok(t, "write", cl.Patch(id, attrs{"n": n + 1}))
					}
					value[id] = 2
				}
				var deleted []string
				for id := range value {
					if len(deleted) < 10 {
						deleted = append(deleted, id)
					}
				}
				for _, id := range deleted {
					ok(t, "delete", c.Member(names[0]).Client.Delete(id))
					delete(value, id)
				}
				for _, name := range names {
					c.Crash(name)
				}
				time.Sleep(5 * time.Second)
				for i, name := range names {
					c.Restart(name, true)
					time.Sleep(time.Duration(i*i) * time.Second) // the last ones are late
				}
				c.WaitHealthy(time.Minute)
				for id, want := range value {
					a := ok(t, "read", c.Member(names[1]).Client.Read(id))
					if got := a.Attr("n"); got != fmt.Sprint(want) {
						t.Fatalf("a session is %s, want %d", got, want)
					}
				}
				for _, id := range deleted {
					if a := c.Member(names[2]).Client.Read(id); a.Status != http.StatusNotFound {
						t.Errorf("a deleted session answers %v", a)
					}
				}
			})
		})
	}
}

// A member that comes back with its disk after a session was deleted does not
// bring it back, and is not filled with what it has.
func TestDisk_memberComesBackWithOldDisk(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3, onDisk(t, "serve")...)
		names := c.Names()
		cl := c.Member(names[0]).Client
		kept, gone := ok(t, "create", cl.Create(attrs{"n": 1}, "")).ID, ok(t, "create", cl.Create(attrs{"n": 1}, "")).ID
		c.Crash(names[2])
		c.WaitDown(names[2], 10*time.Second)
		ok(t, "delete", cl.Delete(gone))
		ok(t, "write", cl.Patch(kept, attrs{"n": 2}))
		c.Restart(names[2], true)
		c.WaitHealthy(time.Minute)
		c.Crash(names[0])
		c.WaitDown(names[0], 20*time.Second)
		for _, name := range names[1:] {
			back := c.Member(name).Client
			if got := ok(t, "read", back.Read(kept)).Attr("n"); got != "2" {
				t.Errorf("kept session is %s, want 2", got)
			}
			if a := back.Read(gone); a.Status != http.StatusNotFound {
				t.Errorf("a deleted session answers %v", a)
			}
		}
	})
}
