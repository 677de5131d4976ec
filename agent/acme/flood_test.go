package acme_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/acme"
	"github.com/rondel-project/rondel/agent/acmetest"
)

// silent are others that answer no question before its time is up.
type silent struct {
	others
	asked atomic.Int32
}

func (o *silent) Proof(ctx context.Context, _ acme.Kind, _ string) ([]byte, bool) {
	o.asked.Add(1)
	<-ctx.Done()
	return nil, false
}

// However many made-up tokens are asked for, the authority's own question is
// answered by the agent that did not order.
func TestManager_floodOfTokens(t *testing.T) {
	t.Parallel()
	a := acmetest.Start(t, time.Hour)
	toFirst, toSecond := &silent{}, &others{turn: true}
	second := startOpen(t, a, func(o *acme.Options) { o.TLS, o.Others = false, toFirst })

	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	defer flood.Wait()
	defer cancel()
	for n := range 32 {
		flood.Go(func() {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for i := 0; ctx.Err() == nil; i++ {
				if text, ok := second.Answer(ctx, fmt.Sprintf("made-up-%d-%d", n, i)); ok {
					t.Errorf("a made-up token is answered with %q", text)
				}
				<-tick.C
			}
		})
	}
	second.await(t, "the flood", func() bool { return toFirst.asked.Load() >= 8 })

	toSecond.them = second.Manager
	first := start(t, a, func(o *acme.Options) { o.TLS, o.Others = false, toSecond })
	first.await(t, "the certificate", func() bool { return len(first.certificates()) == 1 })
	if a.HTTP.Came() == 0 {
		t.Error("the authority has not asked")
	}
}

func TestManager_whatOthersTellIsBounded(t *testing.T) {
	t.Parallel()
	a := acmetest.Start(t, time.Hour)
	s := start(t, a, func(o *acme.Options) { o.Others = &others{} })
	for name, answer := range map[string]string{"": "x", "a/b": "x", "long": string(make([]byte, 1<<20)), "none": ""} {
		if s.Told(acme.HTTP01, name, []byte(answer)) {
			t.Errorf("%q is kept", name)
		}
	}
	kept := 0
	for n := range 5000 {
		if s.Told(acme.HTTP01, fmt.Sprint("token", n), []byte("x")) {
			kept++
		}
	}
	if kept == 0 || kept == 5000 {
		t.Errorf("%d answers are kept", kept)
	}
	if text, ok := s.Answer(t.Context(), "token0"); !ok || text != "x" {
		t.Errorf("%q, %v", text, ok)
	}
}
