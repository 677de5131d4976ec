package stage

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondel-project/rondel/api"
)

// Options say how a stage is to be set up.
type Options struct {
	Program string // rondel's executable
	Dir     string // for data and logs, kept; empty: a temporary one, removed

	// Addresses are those of the machines; nil: whatever this system has. Some
	// or all may be the same, which then differ in their ports.
	Addresses []netip.Addr

	// OnEnd is called, from a goroutine of the process's own, when a process
	// has ended that Kill and Close did not end. It may be nil.
	OnEnd func(*Process)
}

// Stage is three machines and the front.
type Stage struct {
	Front *Front

	opts     Options
	dir      string
	remove   bool // dir, at the end
	places   []Place
	holders  []*holder
	reserved []net.PacketConn
	clients  []*api.Client

	mu       sync.Mutex // guards agents, shops and wanted
	agents   []*Process
	shops    []*Process
	expected map[*Process]bool // to end

	background sync.WaitGroup
	stop       context.CancelFunc
}

// New chooses addresses and ports and makes the directory. It starts nothing.
func New(opts Options) (_ *Stage, err error) {
	s := &Stage{opts: opts, expected: map[*Process]bool{}, agents: make([]*Process, machines), shops: make([]*Process, machines), stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	front, err := listenFront() // first: it may share its address with an agent
	if err != nil {
		return nil, err
	}
	s.Front = newFront(front)
	if opts.Addresses == nil {
		opts.Addresses = addresses()
	}
	for _, addr := range opts.Addresses {
		h := &holder{}
		s.holders = append(s.holders, h)
		reserved, reserveErr := reserve(addr)
		if reserveErr == nil {
			s.reserved = append(s.reserved, reserved)
		}
		place, err := h.hold(addr, reserveErr == nil)
		if err != nil {
			return nil, err
		}
		s.places = append(s.places, place)
		client, err := api.NewClient(api.Config{Address: place.API(), Timeout: 2 * time.Second})
		if err != nil {
			return nil, err
		}
		s.clients = append(s.clients, client)
	}
	for i, p := range s.places {
		asks := func(ctx context.Context) bool {
			h, err := s.clients[i].Health().Serving(ctx)
			return err == nil && h.Healthy
		}
		s.Front.targets = append(s.Front.targets, target{proxy: p.ProxyAddress(), asks: asks, serving: &atomic.Bool{}})
	}
	return s, s.makeDir()
}

func listenFront() (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(home().String(), strconv.Itoa(portFront)))
	if err == nil {
		return l, nil
	}
	if l, err = net.Listen("tcp", net.JoinHostPort(home().String(), "0")); err != nil {
		return nil, fmt.Errorf("open the front address: %w", err)
	}
	return l, nil
}

func (s *Stage) makeDir() (err error) {
	if s.opts.Dir == "" {
		s.dir, err = os.MkdirTemp("", "rondel-demo-")
		s.remove = err == nil
	} else {
		// The processes have working directories of their own.
		if s.dir, err = filepath.Abs(s.opts.Dir); err == nil {
			err = os.MkdirAll(s.dir, 0o700)
		}
	}
	if err != nil {
		return fmt.Errorf("make a directory for the demo: %w", err)
	}
	text, err := configuration()
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.configFile(), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the agents' configuration: %w", err)
	}
	return nil
}

// configuration is one for all agents. The key keeps two demos at once from
// taking each other's agents for their own.
func configuration() (string, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return "", fmt.Errorf("make a gossip key: %w", err)
	}
	return fmt.Sprintf(`# Of all three agents of the demo.
bootstrap_expect = %d
encrypt          = %q

route "shop" {
  service = "shop"
  retry {
    on = ["connect", "idempotent", "keyed"] # the shop honours Idempotency-Key
  }
}
`, machines, base64.StdEncoding.EncodeToString(key)), nil
}

func (s *Stage) configFile() string { return filepath.Join(s.dir, "rondel.hcl") }

// Dir returns where data and logs are.
func (s *Stage) Dir() string { return s.dir }

// Program returns rondel's executable, as to be typed.
func (s *Stage) Program() string { return s.opts.Program }

// Start starts the front, the agents and the shops, and returns when all is
// ready.
func (s *Stage) Start(ctx context.Context) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.background.Go(func() { _ = s.Front.Run(running) })
	for i := range machines {
		if err := s.holders[i].release(); err != nil {
			return fmt.Errorf("free the ports of %s: %w", agentName(i), err)
		}
		if err := s.launch(s.agentProcess(i), i); err != nil {
			return err
		}
		if err := s.launch(s.shopProcess(i), i); err != nil {
			return err
		}
	}
	return s.ready(ctx)
}

func agentName(i int) string { return fmt.Sprintf("agent-%d", i+1) }
func shopName(i int) string  { return fmt.Sprintf("shop-%d", i+1) }

func (s *Stage) agentProcess(i int) *Process {
	p := s.places[i]
	args := []string{"agent", "-node=" + agentName(i), "-data-dir=" + filepath.Join(s.dir, agentName(i)), "-config-file=" + s.configFile(), "-bind=" + p.Addr.String(), "-client=" + p.Addr.String()}
	for _, port := range []struct {
		flag       string
		got, usual int
	}{
		{"http-port", p.HTTP, portHTTP}, {"gossip-port", p.Gossip, portGossip}, {"rpc-port", p.RPC, portRPC}, {"proxy-port", p.Proxy, portProxy},
	} {
		if port.got != port.usual {
			args = append(args, fmt.Sprintf("-%s=%d", port.flag, port.got))
		}
	}
	for j, other := range s.places {
		if j != i {
			args = append(args, "-retry-join="+other.at(other.Gossip))
		}
	}
	return &Process{Kind: Agent, Name: agentName(i), Place: p, Args: args, program: s.opts.Program, log: filepath.Join(s.dir, agentName(i)+".log")}
}

func (s *Stage) shopProcess(i int) *Process {
	p := s.places[i]
	args := []string{"demo", "shop", "-name=" + shopName(i), "-member=" + agentName(i), "-listen=" + p.at(p.Shop)}
	for j := range machines {
		args = append(args, "-agent="+s.places[(i+j)%machines].API())
	}
	return &Process{Kind: Shop, Name: shopName(i), Place: p, Args: args, program: s.opts.Program, log: filepath.Join(s.dir, shopName(i)+".log")}
}

// launch starts a process in its place.
func (s *Stage) launch(p *Process, i int) error {
	s.background.Add(1)
	err := p.start(func(p *Process) {
		defer s.background.Done()
		s.mu.Lock()
		expected := s.expected[p]
		s.mu.Unlock()
		if !expected && s.opts.OnEnd != nil {
			s.opts.OnEnd(p)
		}
	})
	if err != nil {
		s.background.Done()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Kind == Agent {
		s.agents[i] = p
	} else {
		s.shops[i] = p
	}
	return nil
}

// Agents returns the agents' processes, in order.
func (s *Stage) Agents() []*Process { return s.list(s.agents) }

// Shops returns the shops' processes, in order.
func (s *Stage) Shops() []*Process { return s.list(s.shops) }

func (s *Stage) list(of []*Process) []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(of)
}

// Find returns the process of that name, or nil.
func (s *Stage) Find(name string) *Process {
	for _, p := range append(s.Agents(), s.Shops()...) {
		if p != nil && p.Name == name {
			return p
		}
	}
	return nil
}

// Kill ends a process as kill -9 does and returns when it is gone. One that has
// ended already has done so by itself, although nobody may have been told yet.
func (s *Stage) Kill(p *Process) error {
	s.mu.Lock()
	if p.Alive() {
		s.expected[p] = true
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), killTime)
	defer cancel()
	return p.kill(ctx)
}

// Restart starts a process that has ended again, with the same command.
func (s *Stage) Restart(p *Process) error {
	i := slices.Index(s.Agents(), p)
	if p.Kind == Shop {
		i = slices.Index(s.Shops(), p)
	}
	again := &Process{Kind: p.Kind, Name: p.Name, Place: p.Place, Args: p.Args, program: p.program, log: p.log}
	return s.launch(again, i)
}

// Close ends everything and removes the directory.
func (s *Stage) Close() error {
	var errs []error
	for _, p := range append(s.Shops(), s.Agents()...) {
		if p != nil {
			errs = append(errs, s.Kill(p))
		}
	}
	s.stop()
	if s.Front != nil {
		if err := s.Front.listen.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	for _, h := range s.holders {
		errs = append(errs, h.release())
	}
	for _, r := range s.reserved {
		errs = append(errs, r.Close())
	}
	for _, c := range s.clients {
		c.Close()
	}
	if errors.Join(errs...) == nil {
		s.background.Wait() // a process that cannot be killed would hold it for ever
	}
	if s.remove {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
