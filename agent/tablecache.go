package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/rondel-project/rondel/agent/internal/wholefile"
	"github.com/rondel-project/rondel/agent/ring"
)

// tableFile holds the last table that this agent saw, keys among it: a
// restarted agent verifies cookies and knows whom to ask before anybody has
// answered it. What is in it is replaced by any newer table.
const tableFile = "table"

const cacheEvery = time.Second

// cachedTable returns the table that an earlier run has seen, nil where there
// is none. It can be learned again, so a damaged file is no reason to stop.
func (i *identity) cachedTable() (*ring.Table, error) {
	if i.dir == "" {
		return nil, nil
	}
	b, err := os.ReadFile(i.path(tableFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the last table: %w", err)
	}
	t, err := ring.DecodeTable(b)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged and ignored, the cluster knows it: %w", i.path(tableFile), err)
	}
	return t, nil
}

// cacheTable keeps the newest table on disk, at most once a second.
func (a *Agent) cacheTable(ctx context.Context) error {
	if a.id.dir == "" {
		return nil
	}
	tick := time.NewTicker(cacheEvery)
	defer tick.Stop()
	var kept ring.Epoch
	failed := false
	for {
		if t := a.engine.View().Table; t.Epoch > kept {
			err := wholefile.Write(a.id.path(tableFile), ring.AppendTable(nil, t))
			if err == nil {
				kept = t.Epoch
			} else if !failed {
				a.log.Warn("the table cannot be kept on disk", "error", err)
			}
			failed = err != nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
