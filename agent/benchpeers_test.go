package agent

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkPeers measures three agents against Redis with two replicas, all of
// them processes of their own on this machine, interleaved round by round. It is
// `make bench-sessions`; the knobs are ROUNDS and SECS in the environment, ONLY, a
// pattern for the names of cases, PROFILE, a directory for CPU profiles, and
// AGAINST, the test program of another commit, whose agents are measured beside.
//
// What counts is the processor time of the server processes alone, and there
// are 64 clients with one operation in flight each on either side. For Redis and
// HTTP they are connections from this process. Nobody but agents speaks the
// agents' own protocol: there they are in a fourth agent, a witness that holds
// no sessions and forwards each write to its owner. That agent is not counted.
// Only "clients inside" has them in the owners, and counted with those.
func BenchmarkPeers(b *testing.B) {
	if os.Getenv("ROUNDS") == "" {
		b.Skip("make bench-sessions sets ROUNDS and SECS")
	}
	rounds, seconds := knob(b, "ROUNDS"), knob(b, "SECS")
	redis := startRedis(b)
	rondel := startAgents(b, os.Args[0], 3)
	cases := []peerCase{
		{name: "Redis SET + WAIT 2", pids: redis.pids, run: redis.set},
		{name: "Redis GET", pids: redis.pids, run: redis.get},
	}
	cases = append(cases, rondel.cases(b, "")...)
	if program := os.Getenv("AGAINST"); program != "" {
		cases = append(cases, startAgents(b, program, 3).cases(b, "before: ")...)
	}
	if only := os.Getenv("ONLY"); only != "" {
		want, err := regexp.Compile(only)
		if err != nil {
			b.Fatal(err)
		}
		cases = slices.DeleteFunc(cases, func(c peerCase) bool { return !want.MatchString(c.name) })
	}
	results := map[string][]peerResult{}
	for round := range rounds + 1 {
		for _, c := range cases {
			if dir := os.Getenv("PROFILE"); dir != "" && round == rounds && !strings.Contains(c.name, "Redis") && !strings.HasPrefix(c.name, "before") {
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

// cases are the loads on agents, compared with Redis or with each other.
func (s *rondelPeers) cases(b *testing.B, prefix string) []peerCase {
	for _, p := range s.procs {
		p.create(b, "home", 512, "home", 1)
		p.create(b, "large", 64, "large", 100)
		p.create(b, "small", 64, "small", 1)
	}
	for _, p := range s.procs {
		p.ask(b, order{Do: "warm", IDs: p.ids["home"]})
	}
	const set, get, small = "Redis SET + WAIT 2", "Redis GET", "100 B in a session of 1 KiB"
	cases := []peerCase{
		{"own transport, three owners", set, s.pids, s.own("home", 3)},
		{"own transport, one owner", set, s.pids, s.own("home", 1)},
		{"own sessions, clients inside", set, s.pids, s.inside("home")},
		{"HTTP PUT, at the owner", set, s.pids, s.http("PUT", "home", 0)},
		{"HTTP PUT, at another agent", set, s.pids, s.http("PUT", "home", 1)},
		{"HTTP GET, at the owner", get, s.pids, s.http("GET", "home", 0)},
		{"HTTP GET, at another agent", get, s.pids, s.http("GET", "home", 1)},
		{small, "", s.pids, s.http("PATCH", "small", 0)},
		{"100 B in a session of 100 KiB", prefix + small, s.pids, s.http("PATCH", "large", 0)},
	}
	for i := range cases {
		cases[i].name = prefix + cases[i].name
	}
	return cases
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
