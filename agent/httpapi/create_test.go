package httpapi

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/session"
)

func TestCreate_oncePerKey(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var mu sync.Mutex
	var wg sync.WaitGroup
	answers := make(map[string]bool)
	for range 20 {
		wg.Go(func() {
			w := h.do("POST", "/v1/sessions", `{"Attributes":{"a":1}}`, "Idempotency-Key", "k")
			mu.Lock()
			defer mu.Unlock()
			answers[w.Body.String()] = true
			if w.Code != 201 {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
		})
	}
	wg.Wait()
	if len(answers) != 1 || len(h.engine.recs) != 1 {
		t.Errorf("%d answers, %d sessions, want one of each", len(answers), len(h.engine.recs))
	}
	h.want(h.do("POST", "/v1/sessions", `{"Attributes":{"a":2}}`, "Idempotency-Key", "k"), 409)
	h.newSession(`{"Attributes":{"a":1}}`)
	if len(h.engine.recs) != 2 {
		t.Errorf("%d sessions, want 2", len(h.engine.recs))
	}
}

func TestCreate_triesAgainUnderTheSameID(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.engine.answer = &session.Response{Status: session.UnknownEnd}
	h.want(h.do("POST", "/v1/sessions", ``, "Idempotency-Key", "k"), 504)
	tried := h.engine.lastRequest().ID
	h.engine.answer = nil
	w := h.want(h.do("POST", "/v1/sessions", ``, "Idempotency-Key", "k"), 201)
	if !strings.HasSuffix(w.Header().Get("Location"), string(tried)) {
		t.Error("the second try has another id")
	}
}

func TestCreates_forgetAndStayBounded(t *testing.T) {
	t.Parallel()
	c := newCreates()
	now := time.Now()
	op := func(n int) *session.Request {
		return &session.Request{Op: session.OpID{byte(n), byte(n >> 8), byte(n >> 16), 1}}
	}
	for n := range createMax + 10 {
		if _, _, mine := c.claim(op(n), now); !mine {
			t.Fatal("a new key is someone else's")
		}
	}
	if len(c.byOp) != createMax || len(c.order) != createMax {
		t.Errorf("%d and %d entries, want %d", len(c.byOp), len(c.order), createMax)
	}
	if _, _, mine := c.claim(op(createMax), now.Add(createKeep)); mine {
		t.Error("a key was forgotten too early")
	}
	c.claim(op(1<<20), now.Add(createKeep+time.Second))
	if len(c.byOp) != 1 {
		t.Errorf("%d entries after their time, want 1", len(c.byOp))
	}
}

func TestCreates_waitersGiveUpAndAPanicFreesThem(t *testing.T) {
	t.Parallel()
	c := newCreates()
	op := &session.Request{Op: session.OpID{1}}
	started, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() { _ = recover() }()
		c.once(t.Context(), &session.Request{Op: op.Op}, func(context.Context) (created, error) {
			close(started)
			<-release
			panic("broken")
		})
	})
	<-started
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.once(gone, op, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a waiter that has gone got %v", err)
	}
	close(release)
	made, err := c.once(t.Context(), op, func(context.Context) (created, error) { return created{id: "x"}, nil })
	if err != nil || made.id != "x" {
		t.Errorf("after the panic: %v, %v", made.id, err)
	}
	wg.Wait()
}
