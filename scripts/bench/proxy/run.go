//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rondel-project/rondel/scripts/bench/load"
	"github.com/rondel-project/rondel/scripts/bench/peers"
)

// stand is a peer that runs.
type stand struct {
	peer  peers.Peer
	addr  string
	tls   string
	procs []*peers.Process
}

// field is a set of peers that run beside each other, and what is around them.
type field struct {
	settings
	r         *peers.Runner
	instances []*peers.Process
	load      int // the processor of the load; -1: any
	threads   int
	res       *results
}

func bench(ctx context.Context, s settings) error {
	if s.profile != "" {
		if err := os.MkdirAll(s.profile, 0o755); err != nil { //nolint:gosec // figures, for everybody
			return err
		}
	}
	res := &results{began: time.Now(), settings: s}
	for _, free := range []bool{false, true} {
		if err := s.compare(ctx, free, res); err != nil {
			return err
		}
	}
	for _, more := range []func(context.Context, *results) error{s.growth, s.idleSockets} {
		if err := more(ctx, res); err != nil {
			return err
		}
	}
	if len(res.rows) == 0 && len(res.sockets) == 0 {
		return errors.New("no case of that name, or no peer")
	}
	fmt.Print("\n", res.text())
	if s.report != "" {
		if err := res.page(s.report); err != nil {
			return err
		}
	}
	if bad := res.refused(); len(bad) > 0 {
		return fmt.Errorf("answered wrongly, so without figures: %q", bad)
	}
	return nil
}

// newField is a field with nothing on it. The caller closes its runner.
func (s *settings) newField(free bool, res *results) (*field, error) {
	r, err := peers.New()
	if err != nil {
		return nil, err
	}
	f := &field{settings: *s, r: r, load: 0, threads: 1, res: res}
	if free {
		f.load, f.threads = -1, 2
	}
	return f, nil
}

// cpu is where the proxies run.
func (f *field) cpu() int {
	if f.load < 0 {
		return -1
	}
	return 1
}

// plain starts n instances.
func (f *field) plain(ctx context.Context, n int) ([]string, error) {
	addrs, err := peers.Ports(n)
	if err != nil {
		return nil, err
	}
	p, err := peers.Plain(f.r, addrs, f.load)
	if err != nil {
		return nil, err
	}
	f.instances = append(f.instances, p)
	return addrs, p.AwaitPort(ctx, addrs[n-1])
}

// start starts a peer; its TLS port, too, if there are a certificate and a key.
func (f *field) start(ctx context.Context, p peers.Peer, s peers.Setting) (*stand, error) {
	ports, err := peers.Ports(2)
	if err != nil {
		return nil, err
	}
	s.Addr, s.Threads, s.CPU = ports[0], f.threads, f.cpu()
	if s.Cert != "" {
		s.TLS = ports[1]
	}
	proc, err := p.Start(ctx, f.r, s)
	if err != nil {
		return nil, err
	}
	return &stand{peer: p, addr: s.Addr, tls: s.TLS, procs: []*peers.Process{proc}}, nil
}

// compare measures the cases with peers that are pinned, or those that are not.
func (s *settings) compare(ctx context.Context, free bool, res *results) error {
	var mine []caseOf
	for _, c := range cases {
		if c.free == free && s.only.MatchString(c.name) {
			mine = append(mine, c)
		}
	}
	if len(mine) == 0 {
		return nil
	}
	f, err := s.newField(free, res)
	if err != nil {
		return err
	}
	defer f.r.Close()
	at, err := f.plain(ctx, 3)
	if err != nil {
		return err
	}
	cert, key, err := peers.Certificate(f.r)
	if err != nil {
		return err
	}
	var stands []*stand
	for _, p := range s.everyone() {
		if !s.peers.MatchString(p.Name) && p.Name != base {
			continue
		}
		st, err := f.start(ctx, p, peers.Setting{Instances: at, Cert: cert, Key: key})
		if errors.Is(err, peers.ErrMissing) {
			res.missing(p.Name, err)
			continue
		}
		if err != nil {
			return err
		}
		stands = append(stands, st)
	}
	for _, c := range mine {
		if err := f.measure(ctx, c, stands); err != nil {
			return err
		}
	}
	return nil
}

// measure runs the rounds of one case. The one before the first warms up, and the one
// who begins is another in each.
func (f *field) measure(ctx context.Context, c caseOf, stands []*stand) error {
	var in []*stand
	plans := map[*stand]load.Plan{}
	for _, st := range stands {
		if st.peer.Name == spliced && !c.splice {
			continue
		}
		clients, err := st.clients(ctx, c.plan.TLS, 24, 3)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", c.name, st.peer.Name, err)
		}
		p := c.plan
		if !c.fresh {
			p.Clients = clients
		}
		in, plans[st] = append(in, st), p
	}
	return f.turns(ctx, c.name, in, plans)
}

func (f *field) turns(ctx context.Context, name string, in []*stand, plans map[*stand]load.Plan) error {
	for _, st := range in {
		f.res.list(name, st.peer.Name)
	}
	for round := range f.rounds + 1 {
		for i := range in {
			st := in[(i+round)%len(in)]
			p := plans[st]
			p.Addr, p.Conns, p.Threads, p.For = st.addr, conns, f.threads, f.each
			if p.TLS {
				p.Addr = st.tls
			}
			if round == 0 {
				p.For = time.Second
			}
			profile := ""
			if f.profile != "" && round == f.rounds {
				profile = f.profiled(name, st)
			}
			row, err := f.once(ctx, st, p, profile)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", name, st.peer.Name, err)
			}
			if round > 0 || len(row.errors) > 0 {
				f.res.add(name, st.peer.Name, row)
			}
			if round > 0 {
				fmt.Fprintf(os.Stderr, "%s, round %d: %-16s %s\n", name, round, st.peer.Name, row)
			}
		}
	}
	return nil
}

// once drives one peer once; profile is a file for a profile of it, or empty.
func (f *field) once(ctx context.Context, st *stand, p load.Plan, profile string) (r row, err error) {
	t, err := f.drive(ctx, order{Plan: p, Peer: peers.PIDs(st.procs), Beside: peers.PIDs(f.instances), Profile: profile})
	if err != nil {
		return r, err
	}
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	each := func(d time.Duration) float64 { return ms(d) / float64(max(t.Tally.Requests, 1)) * 1000 }
	r = row{
		cpu: each(t.Peer), rate: float64(t.Tally.Requests) / t.Tally.Took.Seconds(),
		p50: ms(t.Tally.Latencies.Quantile(0.5)), p99: ms(t.Tally.Latencies.Quantile(0.99)),
		rss: float64(t.RSS) / (1 << 20), others: t.Others.Seconds() / t.Tally.Took.Seconds(), load: each(t.Own),
		errors: t.Tally.Errors,
	}
	if t.Tally.Requests == 0 && len(t.Tally.Errors) == 0 {
		r.errors = map[string]int{"no request was answered": 1}
	}
	return r, nil
}
