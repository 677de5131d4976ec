package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/consensus"
	"github.com/rondel-project/rondel/agent/gossip"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

func TestSettingsDiffer_namesBoth(t *testing.T) {
	t.Parallel()
	base := ring.Settings{Replicas: 2, MinCopies: 2, ReapAfter: 10 * time.Minute, StallTimeout: 30 * time.Second}
	for name, tc := range map[string]struct {
		change func(*ring.Settings)
		want   string
	}{
		"nothing":            {func(*ring.Settings) {}, ""},
		"replicas":           {func(s *ring.Settings) { s.Replicas = 1 }, "session.replicas is 1 here and 2 in the cluster"},
		"partition":          {func(s *ring.Settings) { s.Refuse = true }, "session.on_partition is refuse here and serve in the cluster"},
		"reap":               {func(s *ring.Settings) { s.ReapAfter = time.Hour }, "ring.reap_after is 1h0m0s here and 10m0s in the cluster"},
		"durability":         {func(s *ring.Settings) { s.Disk, s.StallTimeout = true, 0 }, "session.durability is disk here and memory in the cluster"},
		"stall":              {func(s *ring.Settings) { s.StallTimeout = time.Minute }, "ring.stall_timeout is 1m0s here and 30s in the cluster"},
		"what follows alone": {func(s *ring.Settings) { s.MinCopies = 1 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := base
			tc.change(&own)
			if got := strings.Join(settingsDiffer(own, base), "; "); got != tc.want {
				t.Errorf("differences %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSettings_minCopies(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		expect, replicas int
		want             uint8
	}{
		"one member":  {1, 2, 1},
		"three":       {3, 2, 2},
		"no replicas": {3, 0, 1},
		"joins later": {0, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cfg config.Runtime
			cfg.Join.BootstrapExpect, cfg.Cluster.Replicas = tc.expect, tc.replicas
			if got := settings(cfg).MinCopies; got != tc.want {
				t.Errorf("MinCopies = %d, want %d", got, tc.want)
			}
		})
	}
}

func TestFirstCluster_isUnguessable(t *testing.T) {
	t.Parallel()
	a, b := firstCluster(config.Runtime{}), firstCluster(config.Runtime{})
	if a.ID == b.ID || a.Keys[0].Secret == b.Keys[0].Secret {
		t.Error("two clusters begin with the same id or key")
	}
}

func TestVotes(t *testing.T) {
	t.Parallel()
	list := []consensus.Server{{ID: "a", Voter: true}, {ID: "b"}}
	for id, want := range map[member.ID]bool{"a": true, "b": false, "c": false} {
		if got := votes(list, id); got != want {
			t.Errorf("votes(%s) = %v", id, got)
		}
		if got := listed(list, id); got != (id != "c") {
			t.Errorf("listed(%s) = %v", id, got)
		}
	}
}

func TestOtherVoter(t *testing.T) {
	t.Parallel()
	r := newRoster()
	r.set([]gossip.Member{
		{ID: "self", Status: member.Alive}, {ID: "alive", Status: member.Alive},
		{ID: "dead", Status: member.Failed},
	}, nil)
	for name, tc := range map[string]struct {
		list []consensus.Server
		want bool
	}{
		"alone":            {[]consensus.Server{{ID: "self", Voter: true}}, false},
		"one is dead":      {[]consensus.Server{{ID: "self", Voter: true}, {ID: "dead", Voter: true}}, false},
		"without a vote":   {[]consensus.Server{{ID: "self", Voter: true}, {ID: "alive"}}, false},
		"nobody knows him": {[]consensus.Server{{ID: "stranger", Voter: true}}, false},
		"here":             {[]consensus.Server{{ID: "self", Voter: true}, {ID: "alive", Voter: true}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := otherVoter(tc.list, "self", r); got != tc.want {
				t.Errorf("otherVoter = %v", got)
			}
		})
	}
}
