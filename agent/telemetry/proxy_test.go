package telemetry

import (
	"testing"
	"time"
)

// BenchmarkRoute is what each proxied request pays for being counted.
func BenchmarkRoute(b *testing.B) {
	r := New().Proxy.Route("shop")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Done(200, 700*time.Microsecond)
		}
	})
}
