package consensus

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Work that ends since leadership is being handed over is no failure; should that
// come to nothing, it begins again.
func TestLead_handingOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log lines
		f := newFleet(t)
		defer f.stopAll()
		s := f.start(0, "a0", "", func(cfg *Config) { cfg.Log = hclog.New(&hclog.LoggerOptions{Output: &log}) })
		f.bootstrap(1)
		f.leader()
		ctx, cancel := context.WithCancel(t.Context())
		runs := 0
		var lead sync.WaitGroup
		lead.Go(func() {
			err := s.Lead(ctx, func(ctx context.Context, _ Term) error {
				if runs++; runs == 1 {
					return fmt.Errorf("propose: %w", raft.ErrLeadershipTransferInProgress)
				}
				<-ctx.Done()
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		time.Sleep(5 * time.Second)
		cancel()
		lead.Wait()
		if text := log.text(); runs != 2 || strings.Contains(text, "leader work failed") || strings.Contains(text, "could not hand over") {
			t.Errorf("after %d runs of the work:\n%s", runs, text)
		}
	})
}
