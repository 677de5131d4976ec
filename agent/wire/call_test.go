package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	methodEcho = 1
	methodWait = 2
	methodFail = 3
	methodLeft = 4
)

// answering starts a node with a few methods.
func answering(t *testing.T, o Options, self Hello) *node {
	n := prepare(t, o, self)
	n.HandleCall(methodEcho, func(_ context.Context, from Hello, body []byte) ([]byte, error) {
		return append([]byte(from.Name+":"), body...), nil
	})
	n.HandleCall(methodWait, func(ctx context.Context, _ Hello, _ []byte) ([]byte, error) {
		n.record(func() { n.got = append(n.got, "started") })
		<-ctx.Done()
		n.record(func() { n.got = append(n.got, "ended") })
		return nil, ctx.Err()
	})
	n.HandleCall(methodFail, func(_ context.Context, _ Hello, body []byte) ([]byte, error) {
		if len(body) > 0 {
			return nil, fmt.Errorf("while testing: %w", &CodedError{Code: "not_leader", Message: "ask another"})
		}
		return nil, errors.New("plain")
	})
	n.HandleCall(methodLeft, func(ctx context.Context, _ Hello, _ []byte) ([]byte, error) {
		deadline, ok := ctx.Deadline()
		return fmt.Append(nil, ok, time.Until(deadline)), nil
	})
	return n.start(t)
}

func TestCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a := mem(t, n, hello("a"))
		b := answering(t, Options{Listener: n.listen("b"), Dial: n.dial}, hello("b"))
		got, err := a.Call(t.Context(), "b", methodEcho, []byte("x"))
		if err != nil || string(got) != "a:x" {
			t.Fatalf("%q, %v", got, err)
		}
		var coded *CodedError
		if _, err = a.Call(t.Context(), "b", methodFail, []byte("x")); !errors.As(err, &coded) || *coded != (CodedError{"not_leader", "ask another"}) {
			t.Fatal(err)
		}
		if _, err = a.Call(t.Context(), "b", methodFail, nil); !errors.As(err, &coded) || *coded != (CodedError{CodeInternal, "plain"}) {
			t.Fatal(err)
		}
		if _, err = a.Call(t.Context(), "b", 99, nil); !errors.As(err, &coded) || coded.Code != CodeUnknownMethod {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		if got, err = a.Call(ctx, "b", methodLeft, nil); err != nil || string(got) != "true 1.5s" {
			t.Fatalf("%q, %v", got, err)
		}
		cancel()
		if n.dialled("b") != 1 {
			t.Fatalf("%d connections", n.dialled("b"))
		}
		if _, err = a.Call(t.Context(), "nobody", methodEcho, nil); !errors.Is(err, ErrUnreachable) {
			t.Fatal(err)
		}
		a.stop()
		b.stop()
	})
}

func TestCall_cancelReachesHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a := mem(t, n, hello("a"))
		b := answering(t, Options{Listener: n.listen("b"), Dial: n.dial}, hello("b"))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			b.until(t, "the handler", func() bool { return len(b.messages()) == 1 })
			cancel()
		}()
		if _, err := a.Call(ctx, "b", methodWait, nil); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		b.until(t, "its end", func() bool { return len(b.messages()) == 2 })
		// A handler that runs for long keeps the connection from being idle.
		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if _, err := a.Call(ctx, "b", methodWait, nil); !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(fmt.Sprint(err), CodeDeadline) {
			t.Fatal(err)
		}
		if n.dialled("b") != 1 {
			t.Fatalf("%d connections", n.dialled("b"))
		}
		a.stop()
		b.stop()
	})
}

func TestCall_peerDies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a := mem(t, n, hello("a"))
		b := answering(t, Options{Listener: n.listen("b"), Dial: n.dial}, hello("b"))
		go func() {
			b.until(t, "the handler", func() bool { return len(b.messages()) == 1 })
			b.stop()
		}()
		if _, err := a.Call(t.Context(), "b", methodWait, nil); !errors.Is(err, ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		if _, err := a.Call(t.Context(), "b", methodEcho, nil); !errors.Is(err, ErrUnreachable) {
			t.Fatal(err)
		}
		b2 := answering(t, Options{Listener: n.listen("b"), Dial: n.dial}, hello("b"))
		if _, err := a.Call(t.Context(), "b", methodEcho, nil); err != nil {
			t.Fatal(err)
		}
		a.stop()
		b2.stop()
	})
}

func TestCall_blackHole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a := mem(t, n, hello("a"))
		stop := silent(n.listen("b"), hello("b"))
		start := time.Now()
		if _, err := a.Call(t.Context(), "b", methodEcho, nil); !errors.Is(err, ErrOutcomeUnknown) || time.Since(start) > 3*time.Second {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		n.hole("b", true)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := a.Call(ctx, "b", methodEcho, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		start = time.Now()
		if _, err := a.Call(t.Context(), "b", methodEcho, nil); !errors.Is(err, ErrUnreachable) || time.Since(start) > 2*time.Second {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		a.stop()
		stop()
	})
}

func TestCall_manyAtOnce(t *testing.T) {
	t.Parallel()
	a := prepare(t, patient(Options{Listener: listenLoopback(t)}), hello("a")).start(t)
	b := answering(t, patient(Options{Listener: listenLoopback(t)}), hello("b"))
	big := strings.Repeat("y", 200_000)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			body := fmt.Sprint(i, big[:i*2000])
			got, err := a.Call(t.Context(), b.peer.Addr, methodEcho, []byte(body))
			if err != nil || string(got) != "a:"+body {
				t.Errorf("call %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	wg.Wait()
}

func TestCall_bounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a := mem(t, n, hello("a"))
		b := answering(t, Options{Listener: n.listen("b"), Dial: n.dial, MaxCalls: 2}, hello("b"))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { a.Call(ctx, "b", methodWait, nil) })
		}
		synctest.Wait()
		var coded *CodedError
		if _, err := a.Call(ctx, "b", methodEcho, nil); !errors.As(err, &coded) || coded.Code != CodeOverloaded {
			t.Fatal(err)
		}
		cancel()
		wg.Wait()
		synctest.Wait()
		if _, err := a.Call(t.Context(), "b", methodEcho, nil); err != nil {
			t.Fatal(err)
		}
		a.stop()
		b.stop()
	})
}
