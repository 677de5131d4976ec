package wire

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// BenchmarkSend keeps 64 messages in flight from a to b and back, as writes and
// their acknowledgements are: b answers each with 16 bytes. It reports the CPU
// time of both ends together.
func BenchmarkSend(b *testing.B) {
	for _, size := range []int{200, 1200} {
		for _, inFlight := range []int{1, 64} {
			b.Run(fmt.Sprintf("size=%d/inflight=%d", size, inFlight), func(b *testing.B) {
				benchmarkSend(b, size, inFlight)
			})
		}
	}
}

func benchmarkSend(b *testing.B, size, inFlight int) {
	x, y := hello("x"), hello("y")
	nx := New(Options{Listener: listenLoopback(b), Self: func() Hello { return x }}, quiet)
	ny := New(Options{Listener: listenLoopback(b), Self: func() Hello { return y }}, quiet)
	toX := Peer{ID: x.ID, Boot: x.Boot, Addr: nx.Addr().String()}
	toY := Peer{ID: y.ID, Boot: y.Boot, Addr: ny.Addr().String()}
	fromX, fromY := nx.Outlet(toY, Foreground), ny.Outlet(toX, Foreground)
	ack := make([]byte, 16)
	ny.Handle(kindText, func(_ Hello, ps [][]byte) {
		for range ps {
			fromY.Send(kindText, ack)
		}
		fromY.Flush()
	})
	payload := make([]byte, size)
	var acked, sent atomic.Int64
	total := int64(b.N)
	done := make(chan struct{})
	nx.Handle(kindText, func(_ Hello, ps [][]byte) {
		for range ps {
			if sent.Load() < total {
				sent.Add(1)
				fromX.Send(kindText, payload)
			}
			if acked.Add(1) == total {
				close(done)
			}
		}
		fromX.Flush()
	})
	for _, n := range []*Transport{nx, ny} {
		go n.Run(b.Context())
		defer n.Close()
	}
	b.ReportAllocs()
	start := cpuTime()
	b.ResetTimer()
	first := min(int64(inFlight), total)
	sent.Store(first)
	for range first {
		if err := nx.Send(toY, Foreground, kindText, payload); err != nil {
			b.Fatal(err)
		}
	}
	select {
	case <-done:
	case <-time.After(time.Minute):
		b.Fatalf("%d of %d acknowledged", acked.Load(), total)
	}
	b.StopTimer()
	b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op")
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCall has 1 or 64 callers at once, each with a deadline.
func BenchmarkCall(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) { benchmarkCall(b, callers) })
	}
}

func benchmarkCall(b *testing.B, callers int) {
	x, y := hello("x"), hello("y")
	nx := New(Options{Listener: listenLoopback(b), Self: func() Hello { return x }}, quiet)
	ny := New(Options{Listener: listenLoopback(b), Self: func() Hello { return y }}, quiet)
	ny.HandleCall(methodEcho, func(_ context.Context, _ Hello, body []byte) ([]byte, error) { return body, nil })
	for _, n := range []*Transport{nx, ny} {
		go n.Run(b.Context())
		defer n.Close()
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	body := make([]byte, 200)
	b.ReportAllocs()
	start := cpuTime()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := nx.Call(ctx, ny.Addr().String(), methodEcho, body); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op")
}
