package agent

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkPeers measures three agents against Redis with two replicas, all of
// them processes of their own on this machine, interleaved round by round. It is
// `make bench-sessions`; the knobs are ROUNDS and SECS in the environment.
//
// What counts is the processor time of the server processes alone. The clients
// are as light for one side as for the other: 64 connections with one operation
// in flight each, over raw sockets, in this process. Only the cases "own …" have
// their clients inside of the agents, since nobody else speaks the agents' own
// protocol; there the clients' cost counts as the agents'.
func BenchmarkPeers(b *testing.B) {
	if os.Getenv("ROUNDS") == "" {
		b.Skip("make bench-sessions sets ROUNDS and SECS")
	}
	rounds, seconds := knob(b, "ROUNDS"), knob(b, "SECS")
	redis := startRedis(b)
	rondel := startAgents(b, 3)
	rondel.await(b)
	for _, p := range rondel.procs {
		p.create(b, "home", 512, "home", 1)
		p.create(b, "large", 64, "large", 100)
		p.create(b, "small", 64, "small", 1)
	}
	cases := []peerCase{
		{"Redis SET + WAIT 2", "", redis.pids, redis.set},
		{"own transport, at the owner", "Redis SET + WAIT 2", rondel.pids, rondel.own("put", "home", false)},
		{"own transport, by another agent", "Redis SET + WAIT 2", rondel.pids, rondel.own("put", "home", true)},
		{"HTTP PUT, at the owner", "Redis SET + WAIT 2", rondel.pids, rondel.http("PUT", "home", 0)},
		{"HTTP PUT, at another agent", "Redis SET + WAIT 2", rondel.pids, rondel.http("PUT", "home", 1)},
		{"Redis GET", "", redis.pids, redis.get},
		{"HTTP GET, at the owner", "Redis GET", rondel.pids, rondel.http("GET", "home", 0)},
		{"HTTP GET, at another agent", "Redis GET", rondel.pids, rondel.http("GET", "home", 1)},
		{"100 B in a session of 1 KiB", "", rondel.pids, rondel.http("PATCH", "small", 0)},
		{"100 B in a session of 100 KiB", "100 B in a session of 1 KiB", rondel.pids, rondel.http("PATCH", "large", 0)},
	}
	if only := os.Getenv("ONLY"); only != "" {
		cases = slices.DeleteFunc(cases, func(c peerCase) bool { return !strings.Contains(c.name, only) })
	}
	results := map[string][]peerResult{}
	for round := range rounds + 1 {
		for _, c := range cases {
			if dir := os.Getenv("PROFILE"); dir != "" && round == rounds && !strings.Contains(c.name, "Redis") {
				rondel.profile(b, dir+"/"+strings.ReplaceAll(c.name, " ", "-"), time.Duration(seconds)*time.Second-200*time.Millisecond)
			}
			if r := c.measure(b, time.Duration(seconds)*time.Second); round > 0 { // the first warms up
				results[c.name] = append(results[c.name], r)
			}
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "\n%d rounds of %d s, 64 clients, 1 KiB, medians; CPU is of all server processes, ms for 1000 operations\n\n", rounds, seconds)
	fmt.Fprintln(&out, "| case | CPU | ratio | (rounds) | ops/s | ratio | p50 ms | p99 ms | others' cores |")
	fmt.Fprintln(&out, "|---|---:|---:|---|---:|---:|---:|---:|---:|")
	for _, c := range cases {
		rs := results[c.name]
		cpu := median(rs, func(r peerResult) float64 { return r.cpu })
		fmt.Fprintf(&out, "| %s | %.1f | ", c.name, cpu)
		rates := ""
		if base := results[c.to]; base != nil {
			lo, hi := 1e9, 0.0
			for i := range rs {
				lo, hi = min(lo, rs[i].cpu/base[i].cpu), max(hi, rs[i].cpu/base[i].cpu)
			}
			i := -1
			ratio := median(rs, func(r peerResult) float64 { i++; return r.cpu / base[i].cpu })
			i = -1
			rates = fmt.Sprintf("%.2f", median(rs, func(r peerResult) float64 { i++; return r.rate / base[i].rate }))
			fmt.Fprintf(&out, "%.2f | %.2f–%.2f", ratio, lo, hi)
		} else {
			fmt.Fprint(&out, " | ")
		}
		fmt.Fprintf(&out, " | %.0f | %s | %.2f | %.2f | %.2f |\n", median(rs, func(r peerResult) float64 { return r.rate }), rates,
			median(rs, func(r peerResult) float64 { return r.p50 }), median(rs, func(r peerResult) float64 { return r.p99 }),
			median(rs, func(r peerResult) float64 { return r.others }))
	}
	if os.Getenv("ONLY") == "" {
		rondel.idleMemory(b, &out)
		rondel.touches(b, &out)
	}
	fmt.Println(out.String())
}

func knob(b *testing.B, name string) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil || n < 1 {
		b.Fatalf("%s=%q: want a number", name, os.Getenv(name))
	}
	return n
}

// peerCase is one load and the processes that bear it.
type peerCase struct {
	name string
	to   string // the case it is compared with
	pids func() []int
	run  func(b *testing.B, d time.Duration) []time.Duration // latencies
}

type peerResult struct{ cpu, rate, p50, p99, others float64 }

func (c *peerCase) measure(b *testing.B, d time.Duration) peerResult {
	busy, cpu, own, began := machineBusy(b), cpuOf(b, c.pids()), cpuTime(), time.Now()
	lats := c.run(b, d)
	took := time.Since(began)
	cpu = cpuOf(b, c.pids()) - cpu
	others := machineBusy(b) - busy - cpu - (cpuTime() - own)
	if len(lats) == 0 {
		b.Fatalf("%s: no operation ended", c.name)
	}
	slices.Sort(lats)
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	return peerResult{
		cpu: ms(cpu) / float64(len(lats)) * 1000, rate: float64(len(lats)) / took.Seconds(),
		p50: ms(lats[len(lats)/2]), p99: ms(lats[len(lats)*99/100]), others: others.Seconds() / took.Seconds(),
	}
}

func median(rs []peerResult, of func(peerResult) float64) float64 {
	var all []float64
	for _, r := range rs {
		all = append(all, of(r))
	}
	slices.Sort(all)
	return (all[len(all)/2] + all[(len(all)-1)/2]) / 2
}

// ticks a second in /proc, on every Linux that Go runs on.
const ticks = 100

func cpuOf(b *testing.B, pids []int) (sum time.Duration) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Fatal(err)
		}
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		for _, s := range f[11:13] {
			n, _ := strconv.Atoi(s)
			sum += time.Duration(n) * time.Second / ticks
		}
	}
	return sum
}

func machineBusy(b *testing.B) (sum time.Duration) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		b.Fatal(err)
	}
	for i, s := range strings.Fields(strings.SplitN(string(text), "\n", 2)[0])[1:9] {
		if n, _ := strconv.Atoi(s); i != 3 && i != 4 {
			sum += time.Duration(n) * time.Second / ticks
		}
	}
	return sum
}

// drive runs each worker again and again until d is over.
func drive(d time.Duration, workers []func() error) (lats []time.Duration, err error) {
	type share struct {
		lats []time.Duration
		err  error
	}
	shares := make(chan share, len(workers))
	end := time.Now().Add(d)
	for _, work := range workers {
		go func() {
			s := share{lats: make([]time.Duration, 0, 1<<14)}
			for at := time.Now(); at.Before(end); {
				if s.err = work(); s.err != nil {
					break
				}
				now := time.Now()
				s.lats = append(s.lats, now.Sub(at))
				at = now
			}
			shares <- s
		}()
	}
	for range workers {
		s := <-shares
		lats = append(lats, s.lats...)
		if s.err != nil {
			err = s.err
		}
	}
	return lats, err
}

// text is what sessions hold: letters that JSON has no need to escape.
func text(n int) string { return strings.Repeat("abcdefghijklmnopqrstuvwxyz012345", n/32+1)[:n] }
