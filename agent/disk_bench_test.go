package agent

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/replicate"
	"github.com/rondel-project/rondel/agent/session"
)

// BenchmarkDisk compares what a write costs with sessions on disk, under each
// fsync policy, with what it costs in memory: three agents in one process per
// kind, whole-value writes of 1 KiB at the owner by 64 clients, acknowledged by
// both successors. The kinds take turns, so that what else the machine does
// falls on all of them alike. Each op is one write of each kind; the metrics are
// ratios to memory, of elapsed time and of processor time.
func BenchmarkDisk(b *testing.B) {
	kinds := []string{"memory", "no", "everysec", "always"}
	benches := make([]*writeBench, len(kinds))
	for i, kind := range kinds {
		benches[i] = newWriteBench(b, kind)
	}
	b.ResetTimer()
	const turn = 2000
	for left := b.N; left > 0; left -= turn {
		for _, w := range benches {
			w.run(b, min(left, turn))
		}
	}
	b.StopTimer()
	memory := benches[0]
	b.ReportMetric(float64(memory.took.Microseconds())/float64(b.N), "memory-µs/op")
	for i, w := range benches[1:] {
		b.ReportMetric(w.took.Seconds()/memory.took.Seconds(), kinds[i+1]+"-time")
		b.ReportMetric(w.cpu.Seconds()/memory.cpu.Seconds(), kinds[i+1]+"-cpu")
	}
}

// writeBench is one cluster that is written to.
type writeBench struct {
	ids       []session.ID
	homes     []*replicate.Engine
	attrs     []session.Attr
	took, cpu time.Duration
}

func newWriteBench(b *testing.B, kind string) *writeBench {
	b.Helper()
	s, dir := &site{}, b.TempDir()
	for i := range 3 {
		s.addAgent(b, 3, func(cfg *config.Runtime) {
			if kind == "memory" {
				return
			}
			cfg.Node.DataDir = filepath.Join(dir, string(rune('a'+i)))
			cfg.Cluster.Durability, cfg.Cluster.StallTimeout = config.Disk, 0
			cfg.Session.Fsync = kind
		})
	}
	deadline := time.After(30 * time.Second)
	for _, a := range s.agents {
		for len((backend{a}).Unready()) > 0 {
			select {
			case <-deadline:
				b.Fatal((backend{a}).Unready())
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	w := &writeBench{attrs: []session.Attr{{Name: "v", Value: make([]byte, 1024), Type: "application/octet-stream"}}}
	for i := range 1024 {
		a := s.agents[i%3]
		id, ok := a.engine.View().Mint(a.id.id, time.Now())
		if !ok {
			b.Fatal("no id")
		}
		r := a.engine.Do(context.Background(), &session.Request{Kind: session.Create, ID: id, Attrs: w.attrs, Acks: session.AcksDefault})
		if r.Status != session.OK {
			b.Fatal(r.Code, r.Error)
		}
		w.ids, w.homes = append(w.ids, id), append(w.homes, a.engine)
	}
	return w
}

// run makes n writes by 64 clients.
func (w *writeBench) run(b *testing.B, n int) {
	b.Helper()
	var next atomic.Int64
	var clients sync.WaitGroup
	cpu, start := cpuTime(), time.Now()
	for range 64 {
		clients.Go(func() {
			for {
				i := int(next.Add(1))
				if i > n {
					return
				}
				k := i * 7 % len(w.ids)
				r := w.homes[k].Do(context.Background(), &session.Request{Kind: session.Put, ID: w.ids[k], Attrs: w.attrs, Acks: session.AcksDefault})
				if r.Status != session.OK {
					b.Error(r.Code, r.Error)
					return
				}
			}
		})
	}
	clients.Wait()
	w.took += time.Since(start)
	w.cpu += cpuTime() - cpu
}
