//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/rondel-project/rondel/scripts/bench/peers"
)

// scene is one run of one proxy: three instances behind it, one of which dies.
type scene struct {
	plan
	r         *peers.Runner
	addrs     []string
	instances []*peers.Process
	keys      []*keys
	front     string
	agents    []peers.Agent
	members   []*peers.Process
}

// victim is the instance that is killed.
const victim = 1

// play runs a scene.
func play(ctx context.Context, p plan, who contender) (*story, error) {
	r, err := peers.New()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s := &scene{plan: p, r: r}
	ports, err := peers.Ports(4)
	if err != nil {
		return nil, err
	}
	s.addrs, s.front = ports[:3], ports[3]
	if who.rondel != "" {
		err = s.cluster(ctx, who.rondel)
	} else {
		err = s.beside(ctx, who.peer)
	}
	if err != nil {
		return nil, err
	}
	clients, homes, err := s.clients(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, c := range clients {
			c.close()
		}
	}()
	out := &story{homes: homes, dead: peers.InstanceName(victim), runs: map[string]int{}}
	if err := s.send(ctx, who, clients, out); err != nil {
		return nil, err
	}
	if who.rondel != "" {
		if out.counters, err = s.counters(ctx, clients); err != nil {
			return nil, err
		}
	}
	s.r.Stop(s.instances...)
	for _, k := range s.keys {
		k.addTo(out.runs)
	}
	return out, nil
}

// instance starts instance i.
func (s *scene) instance(ctx context.Context, i int, api string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	k := &keys{}
	p, err := s.r.Start(peers.Program{Name: peers.InstanceName(i), CPU: -1, Stdout: k, Args: []string{self, instanceRole, peers.InstanceName(i), s.addrs[i], s.work.String(), api}})
	if err != nil {
		return err
	}
	s.instances, s.keys = append(s.instances, p), append(s.keys, k)
	return p.AwaitPort(ctx, s.addrs[i])
}

// beside starts a peer in front of instances that keep no sessions.
func (s *scene) beside(ctx context.Context, p peers.Peer) error {
	for i := range s.addrs {
		if err := s.instance(ctx, i, ""); err != nil {
			return err
		}
	}
	_, err := p.Start(ctx, s.r, peers.Setting{Addr: s.front, Instances: s.addrs, Threads: 2, CPU: -1})
	return err
}

// cluster starts three agents with an instance beside each. The proxy of the first
// one takes the requests.
func (s *scene) cluster(ctx context.Context, path string) error {
	ports, err := peers.Ports(11)
	if err != nil {
		return err
	}
	for i := range s.addrs {
		a := peers.Agent{
			Name: fmt.Sprint("m", i+1), API: ports[3*i], Gossip: ports[3*i+1], RPC: ports[3*i+2], Of: 3,
			Proxy: s.front, Instances: s.addrs[i : i+1], First: i,
		}
		if i > 0 {
			a.Proxy, a.Join = ports[8+i], s.agents[0].Gossip
		}
		s.agents = append(s.agents, a)
		if err := s.instance(ctx, i, a.API); err != nil {
			return err
		}
		p, err := peers.StartAgent(s.r, path, a)
		if err != nil {
			return err
		}
		s.members = append(s.members, p)
	}
	for i, p := range s.members {
		if err := p.Await(ctx, 30*time.Second, func() error { return healthy(ctx, s.agents[i].API) }); err != nil {
			return err
		}
	}
	return nil
}

func healthy(ctx context.Context, api string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+api+"/v1/health/agent", nil)
	if err != nil {
		return err
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return errors.New(r.Status)
	}
	return nil
}

// clients makes the clients: each knows its instance, and they are at all of them.
func (s *scene) clients(ctx context.Context) (out []*client, homes []string, err error) {
	seen := map[string]bool{}
	for end := time.Now().Add(30 * time.Second); len(out) < s.plan.clients || len(seen) < len(s.addrs); {
		if len(out) == s.plan.clients { // not all instances are known yet
			for _, c := range out {
				c.close()
			}
			out, homes, seen = nil, nil, map[string]bool{}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
			if time.Now().After(end) {
				return nil, nil, errors.New("new clients do not come to all instances")
			}
		}
		c := &client{addr: s.front, cookies: map[string]string{}}
		home := ""
		for range 3 {
			name, _, why := c.do(ctx, "")
			if why != "" {
				return nil, nil, errors.New("a new client: " + why)
			}
			if home != "" && name != home {
				return nil, nil, fmt.Errorf("it does not stick: a client of %s came to %s", home, name)
			}
			home = name
		}
		out, homes, seen[home] = append(out, c), append(homes, home), true
	}
	return out, homes, nil
}

// send sends all requests at their times, and kills the victim at its.
func (s *scene) send(ctx context.Context, who contender, clients []*client, out *story) error {
	requests := s.requests()
	out.outcomes = make([]outcome, len(requests))
	began := time.Now()
	killed := make(chan time.Time, 1)
	go func() {
		<-time.After(s.kill)
		if who.machine {
			// Both at the same time, as on a machine that is lost.
			done := make(chan struct{})
			go func() { defer close(done); s.members[victim].Kill() }()
			s.instances[victim].Kill()
			<-done
		} else {
			s.instances[victim].Kill()
		}
		killed <- time.Now()
	}()
	var all sync.WaitGroup
	for i, q := range requests {
		if d := time.Until(began.Add(q.at)); d > 0 {
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			c := clients[q.client]
			o := outcome{planned: q, floor: c.floor(), began: time.Now()}
			o.name, o.counter, o.why = c.do(ctx, q.key)
			o.ended = time.Now()
			out.outcomes[i] = o
		})
	}
	all.Wait()
	out.gone = <-killed
	return ctx.Err()
}

// counters reads what is in the clients' sessions now, at an agent that lives.
func (s *scene) counters(ctx context.Context, clients []*client) ([]int, error) {
	out := make([]int, len(clients))
	api := &http.Client{Timeout: 5 * time.Second}
	defer api.CloseIdleConnections()
	for i, c := range clients {
		n, err := readCounter(ctx, api, sessionURL(s.agents[0].API, sessionOf(c.cookies)))
		if err != nil {
			return nil, err
		}
		if out[i] = n; n == 0 && c.floor() > 0 {
			out[i] = -1
		}
	}
	return out, nil
}
