package agent_test

import (
	"testing"
	"testing/synctest"

	"github.com/rondel-project/rondel/agent/agenttest"
)

func TestCluster_forms(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		for _, m := range c.Members() {
			t.Logf("%+v", m.Ring())
		}
	})
}
