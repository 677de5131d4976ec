package wire

import (
	"fmt"
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
	ack := make([]byte, 16)
	ny.Handle(kindText, func(Hello, []byte) { ny.SendBuffered(toX, Foreground, kindText, ack) })
	ny.OnBatchEnd(func(Hello, Lane) { ny.Flush(toX, Foreground) })
	payload := make([]byte, size)
	var acked, sent atomic.Int64
	total := int64(b.N)
	done := make(chan struct{})
	nx.Handle(kindText, func(Hello, []byte) {
		if sent.Load() < total {
			sent.Add(1)
			nx.SendBuffered(toY, Foreground, kindText, payload)
		}
		if acked.Add(1) == total {
			close(done)
		}
	})
	nx.OnBatchEnd(func(Hello, Lane) { nx.Flush(toY, Foreground) })
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
