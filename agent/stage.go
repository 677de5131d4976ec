package agent

import (
	"context"
	"fmt"
	"sync"
)

// stage is a group of parts that run together and are stopped together.
type stage struct {
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	fail   func(error)
}

// newStage returns a stage whose parts report errors to fail. It ends only when
// it is stopped: what is above it may still need it when the agent's own
// context is over.
func newStage(ctx context.Context, fail func(error)) *stage {
	s := &stage{fail: fail}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// run starts a part. A part that ends with an error ends the agent.
func (s *stage) run(name string, part func(context.Context) error) {
	s.work.Go(func() {
		if err := part(s.ctx); err != nil && s.ctx.Err() == nil {
			s.fail(fmt.Errorf("%s: %w", name, err))
		}
	})
}

// stop ends the parts and waits for them.
func (s *stage) stop() {
	s.cancel()
	s.work.Wait()
}
