package stopper

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestGroup_stopWaitsForAll(t *testing.T) {
	t.Parallel()
	g := New()
	var ended atomic.Int32
	for range 10 {
		if !g.Go(func(ctx context.Context) { <-ctx.Done(); ended.Add(1) }) {
			t.Fatal("refused before Stop")
		}
	}
	g.Stop()
	if n := ended.Load(); n != 10 {
		t.Fatalf("%d of 10 ended", n)
	}
	if g.Go(func(context.Context) { t.Error("ran after Stop") }) {
		t.Fatal("accepted after Stop")
	}
	g.Stop()
	<-g.Done()
}
