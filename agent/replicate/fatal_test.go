package replicate

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// rotten is an engine whose link and clock panic from a time on.
type rotten struct {
	nowhere
	e    *Engine
	bad  bool
	died chan string
	over chan struct{} // closed: the goroutine that panicked ends in place of the process
}

func (r *rotten) Flush() {
	if r.bad {
		panic("rotten link")
	}
}

func newRotten(t *testing.T) *rotten {
	c := newTrio(t, false)
	r := &rotten{died: make(chan string, 1), over: make(chan struct{})}
	r.e = NewEngine(Options{Config: c.nodes[1].cfg, Link: r, Clock: func() Time {
		if r.bad {
			panic("rotten clock")
		}
		return c.now
	}}, hclog.NewNullLogger())
	r.e.fatal = func(p any, stack []byte) {
		r.died <- fmt.Sprint(p, string(stack))
		<-r.over
		runtime.Goexit()
	}
	r.e.Adopt(c.table)
	r.bad = true
	return r
}

// TestEngine_panicEndsTheProcess: also where whoever called recovers it, and
// with the lock held, so that nobody sees the core after it.
func TestEngine_panicEndsTheProcess(t *testing.T) {
	t.Parallel()
	req := &session.Request{Kind: session.Get, ID: "s"}
	for name, do := range map[string]func(e *Engine){
		"Do":      func(e *Engine) { e.Do(context.Background(), req) },
		"Start":   func(e *Engine) { e.Start(req, make(mailbox, 1)) },
		"Touch":   func(e *Engine) { e.Touch("s") },
		"tick":    (*Engine).tick,
		"Flush":   (*Engine).Flush,
		"Synced":  func(e *Engine) { e.Synced(1) },
		"Load":    func(e *Engine) { _ = e.Load(nil, 0) },
		"Dump":    func(e *Engine) { e.Dump(0) },
		"Adopt":   func(e *Engine) { e.Adopt(&ring.Table{}) },
		"Owned":   func(e *Engine) { e.Owned(Filter{}) },
		"Figures": func(e *Engine) { e.node = nil; e.Figures() },
		"receive": func(e *Engine) { e.mu.Lock(); e.receive("", [16]byte{}, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRotten(t)
			back := make(chan any, 1)
			go func() {
				defer func() { back <- recover() }()
				do(r.e)
			}()
			select {
			case what := <-r.died:
				if !strings.Contains(what, "agent/replicate.") {
					t.Errorf("it died without a stack: %s", what)
				}
				if r.e.mu.TryLock() {
					t.Error("the lock was let go")
				}
				close(r.over)
				<-back
			case p := <-back:
				t.Fatalf("the process lives on, its caller has recovered %v", p)
			}
		})
	}
}

const dieVar = "RONDEL_TEST_DIE"

// TestDie: a panic that was taken away from its goroutine ends a process that
// recovers it there, and tells where it began.
func TestDie(t *testing.T) {
	t.Parallel()
	if os.Getenv(dieVar) != "" {
		defer func() { _ = recover() }()
		e := NewEngine(Options{Link: nowhere{}, Clock: func() Time { panic("rotten clock") }}, hclog.NewNullLogger())
		e.tick()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestDie$")
	cmd.Env = append(os.Environ(), dieVar+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 2 {
		t.Fatalf("it ended with %v: %s", err, out)
	}
	for _, want := range []string{"in the session core: rotten clock", "(*Engine).tick"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("no %q in %s", want, out)
		}
	}
}
