package agent

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/replicate"
	"github.com/rondel-project/rondel/agent/session"
)

// BenchmarkSessions measures the session engine of three agents in one process
// that speak to each other over loopback: 64 clients, values of 1 KiB, each
// write acknowledged by both successors. cpu-µs/op is the processor time of all
// three agents and of the clients.
func BenchmarkSessions(b *testing.B) {
	s := &site{}
	for range 3 {
		s.addAgent(b, 3)
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
	value := make([]byte, 1024)
	for i := range value {
		value[i] = 'a' + byte(i%26)
	}
	attrs := []session.Attr{{Name: "v", Value: value, Type: "application/octet-stream"}}
	var ids []session.ID
	var homes []*replicate.Engine
	for i := range 1024 {
		a := s.agents[i%3]
		id, ok := a.engine.View().Mint(a.id.id, time.Now())
		if !ok {
			b.Fatal("no id")
		}
		r := a.engine.Do(context.Background(), &session.Request{Kind: session.Create, ID: id, Attrs: attrs, Acks: session.AcksDefault})
		if r.Status != session.OK {
			b.Fatal(r.Code, r.Error)
		}
		ids, homes = append(ids, id), append(homes, a.engine)
	}
	run := func(name string, do func(i int) *session.Response) {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(32)
			start := cpuTime()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for i := int(time.Now().UnixNano()) & 1023; pb.Next(); i = (i + 7) & 1023 {
					if r := do(i); r.Status != session.OK {
						b.Error(r.Code, r.Error)
						return
					}
				}
			})
			b.ReportMetric(float64((cpuTime()-start).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
	run("put/owner", func(i int) *session.Response {
		return homes[i].Do(context.Background(), &session.Request{Kind: session.Put, ID: ids[i], Attrs: attrs, Acks: session.AcksDefault})
	})
	run("put/any", func(i int) *session.Response {
		return s.agents[(i+1)%3].engine.Do(context.Background(), &session.Request{Kind: session.Put, ID: ids[i], Attrs: attrs, Acks: session.AcksDefault})
	})
	run("get/owner", func(i int) *session.Response {
		return homes[i].Do(context.Background(), &session.Request{Kind: session.Get, ID: ids[i]})
	})
	run("get/any", func(i int) *session.Response {
		return s.agents[(i+1)%3].engine.Do(context.Background(), &session.Request{Kind: session.Get, ID: ids[i]})
	})
	small := []session.Attr{{Name: "s", Value: value[:100], Type: "x/y"}}
	for _, size := range []int{1 << 10, 100 << 10} {
		big := attrs
		for k := 1024; k < size; k += 1024 {
			big = append(big, session.Attr{Name: fmt.Sprint("a", k), Value: value, Type: "x/y"})
		}
		for i := range 256 {
			r := homes[i].Do(context.Background(), &session.Request{Kind: session.Put, ID: ids[i], Attrs: big, Acks: session.AcksDefault})
			if r.Status != session.OK {
				b.Fatal(r.Code, r.Error)
			}
		}
		run(fmt.Sprintf("patch-100B-of-%dKiB", size>>10), func(i int) *session.Response {
			i &= 255
			return homes[i].Do(context.Background(), &session.Request{Kind: session.Patch, ID: ids[i], Attrs: small, Acks: session.AcksDefault})
		})
	}
}

// cpuTime returns the processor time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails only for a bad argument
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
