package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/session"
)

// BenchmarkGrowth measures what a write costs in clusters of 3, 6 and 12 agents,
// all in this process, their clients too: once with 64 clients in all, once with
// 21 for each agent. What the agents cost while nobody writes is measured just
// before and taken off. It is part of `make bench-sessions`.
func BenchmarkGrowth(b *testing.B) {
	if os.Getenv("ROUNDS") == "" {
		b.Skip("make bench-sessions sets ROUNDS and SECS")
	}
	rounds, d := knob(b, "ROUNDS"), time.Duration(knob(b, "SECS"))*time.Second
	sizes := []int{3, 6, 12}
	type result struct{ idle, few, many float64 }
	results := map[int][]result{}
	for range rounds {
		for _, n := range sizes {
			b.Run(fmt.Sprint("agents=", n), func(b *testing.B) {
				g := growCluster(b, n)
				g.warm(b)
				idle := cpuTime()
				<-time.After(d)
				r := result{idle: (cpuTime() - idle).Seconds() / d.Seconds()}
				r.few = g.cost(b, 64, d, r.idle)
				r.many = g.cost(b, 21*n, d, r.idle)
				results[n] = append(results[n], r)
			})
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "\n%d rounds of %v, agents and clients in one process, 1 KiB, medians; µs of processor time for a write\n\n", rounds, d)
	fmt.Fprintln(&out, "| agents | 64 clients | of that with 3 | 21 clients an agent | of that with 3 | idle, % of a core an agent |")
	fmt.Fprintln(&out, "|---:|---:|---:|---:|---:|---:|")
	of := func(n int, f func(result) float64) float64 {
		var all []float64
		for _, r := range results[n] {
			all = append(all, f(r))
		}
		slices.Sort(all)
		return (all[len(all)/2] + all[(len(all)-1)/2]) / 2
	}
	for _, n := range sizes {
		if len(results[n]) == 0 {
			return // left out by the pattern
		}
		few, many := func(r result) float64 { return r.few }, func(r result) float64 { return r.many }
		fmt.Fprintf(&out, "| %d | %.1f | %.2f | %.1f | %.2f | %.1f |\n", n, of(n, few), of(n, few)/of(3, few), of(n, many), of(n, many)/of(3, many),
			of(n, func(r result) float64 { return r.idle })/float64(n)*100)
	}
	fmt.Println(out.String())
}

// grown is a cluster with sessions that are spread over its agents.
type grown struct {
	s   *site
	ids [][]session.ID // of each agent
}

func growCluster(b *testing.B, n int) *grown {
	g := &grown{s: &site{}}
	for range n {
		g.s.addAgent(b, n)
	}
	for _, a := range g.s.agents {
		awaitBench(b, func() error {
			if why := (backend{a}).Unready(); len(why) > 0 {
				return errors.New(strings.Join(why, ", "))
			}
			return nil
		})
	}
	for _, a := range g.s.agents {
		var ids []session.ID
		for range 1536 / n {
			id, ok := a.engine.View().Mint(a.id.id, time.Now())
			if !ok {
				b.Fatal("no id")
			}
			r := a.engine.Do(context.Background(), &session.Request{Kind: session.Create, ID: id, Attrs: values(1), Acks: session.AcksDefault})
			if r.Status != session.OK {
				b.Fatal(r.Code, r.Error)
			}
			ids = append(ids, id)
		}
		g.ids = append(g.ids, ids)
	}
	return g
}

// warm writes until the heap has grown to its size.
func (g *grown) warm(b *testing.B) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	for last, end := m.NumGC+3, time.Now().Add(time.Minute); m.NumGC < last && time.Now().Before(end); runtime.ReadMemStats(&m) {
		g.write(b, 64, 200*time.Millisecond)
	}
}

// write has clients write for as long as d, each at one owner, and returns how
// often they did.
func (g *grown) write(b *testing.B, clients int, d time.Duration) int {
	var workers []func() error
	attrs := values(1)
	for i := range clients {
		a, ids := g.s.agents[i%len(g.s.agents)], g.ids[i%len(g.s.agents)]
		at := i
		workers = append(workers, func() error {
			at = (at + 7) % len(ids)
			// On a machine that is busy with something else too, a write may take too
			// long: its client sends it again.
			var r *session.Response
			for range 10 {
				if r = a.engine.Do(context.Background(), &session.Request{Kind: session.Put, ID: ids[at], Attrs: attrs, Acks: session.AcksDefault}); r.Status == session.OK {
					return nil
				}
			}
			return errors.New(r.Error)
		})
	}
	lats, err := drive(d, workers)
	if err != nil {
		b.Fatal(err)
	}
	return len(lats)
}

// cost returns the microseconds of a write beside what the agents cost idle.
func (g *grown) cost(b *testing.B, clients int, d time.Duration, idle float64) float64 {
	began, cpu := time.Now(), cpuTime()
	n := g.write(b, clients, d)
	used := (cpuTime() - cpu).Seconds() - idle*time.Since(began).Seconds()
	return used / float64(n) * 1e6
}
