package gossip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/rondel-project/rondel/agent/member"
)

const (
	parallelDials  = 3
	defaultPort    = 8701
	resolveTimeout = 5 * time.Second

	retryMin, retryMax = time.Second, 30 * time.Second
	watchEvery         = 10 * time.Second
)

// ErrAddress is what Join returns, among others, for text that is no address.
var ErrAddress = errors.New("not an address")

var errNotSeen = errors.New("it answered but does not list this agent")

// Join makes this agent known to the agents at the given addresses: host,
// host:port, [v6]:port, v6, or several of these separated by commas. Each
// address of each name is dialled, three at a time; one that is dead does not
// hold up the others for more than two seconds. It returns how many were
// reached and list this agent now, and an error for each that was not. With
// ErrNameTaken among them this agent must stop.
func (g *Gossip) Join(ctx context.Context, addrs []string) (int, error) {
	targets, errs := g.resolve(ctx, addrs)
	reached, failed := g.dialAll(ctx, targets, true)
	if reached == 0 && len(targets) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("no address to join but this agent's own"))
	}
	return reached, errors.Join(append(errs, failed...)...)
}

func (g *Gossip) dialAll(ctx context.Context, targets []netip.AddrPort, patient bool) (int, []error) {
	var mu sync.Mutex
	var errs []error
	reached := 0
	var group errgroup.Group
	group.SetLimit(parallelDials)
	for _, to := range targets {
		group.Go(func() error {
			err := g.dial(ctx, to, patient)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				reached++
			case errors.Is(err, errSelf):
			default:
				errs = append(errs, err)
			}
			return nil
		})
	}
	group.Wait() // its functions return no error
	return reached, errs
}

// dial joins the agent at one address. A patient one waits while that agent
// still believes in this one's former run, or in a dead member of its name.
func (g *Gossip) dial(ctx context.Context, to netip.AddrPort, patient bool) error {
	start := time.Now()
	for {
		err := g.dialOnce(ctx, to)
		wait := time.Duration(0)
		switch {
		case errors.Is(err, ErrNameTaken):
			wait = g.times.detection
		case errors.Is(err, errOldPlace):
			wait = g.times.detection + reclaimTime
		}
		if err == nil {
			return nil
		}
		if !patient || time.Since(start) >= wait {
			return fmt.Errorf("join %s: %w", to, err)
		}
		if !sleep(ctx, 300*time.Millisecond) {
			return fmt.Errorf("join %s: %w", to, err)
		}
	}
}

func (g *Gossip) dialOnce(ctx context.Context, to netip.AddrPort) error {
	if to == g.self {
		return errSelf
	}
	if _, err := g.trans.ask(ctx, to, g.introduce(helloAsk)); err != nil {
		return err
	}
	if _, err := g.ml.Join([]string{to.String()}); err != nil {
		if only := errors.Unwrap(err); only != nil {
			err = only // the library's list of one has several lines
		}
		return fmt.Errorf("exchange members: %w", err)
	}
	// That it answered does not prove that it took us in.
	for range 5 {
		p, err := g.trans.ask(ctx, to, g.introduce(helloAsk))
		if err != nil {
			return err
		}
		if p.boot == g.opts.Meta.Boot && (p.seen == member.Alive || p.seen == member.Leaving) {
			return nil
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
	return errNotSeen
}

// RetryJoin joins the given addresses, resolved anew each time, for as long as
// ctx holds: first until one agent is reached, with pauses that grow to 30 s;
// then it keeps an eye on those that are not members, so that two groups that
// started apart find each other. It returns nil when ctx ends, and an error
// that wraps ErrNameTaken when this agent must stop.
func (g *Gossip) RetryJoin(ctx context.Context, addrs []string) error {
	pause := retryMin
	for attempt := 1; ; attempt++ {
		targets, errs := g.resolve(ctx, addrs)
		missing, alone := g.missing(targets)
		reached, failed := g.dialAll(ctx, missing, false)
		errs = append(errs, failed...)
		if ctx.Err() != nil {
			return nil
		}
		// A name may be taken by a member that is dead already.
		if err := errors.Join(failed...); errors.Is(err, ErrNameTaken) {
			_, again := g.dialAll(ctx, missing, true)
			if err := errors.Join(again...); errors.Is(err, ErrNameTaken) {
				return err
			}
		}
		wait := watchEvery
		switch {
		case reached > 0:
			g.log.Info("joined", "reached", reached)
			g.quiet.settle("retry-join")
			pause = retryMin
		case alone && len(errs) > 0:
			g.quiet.say(hclog.Warn, "retry-join", "no agent reached yet, trying on", "attempt", attempt, "error", errors.Join(errs...))
			wait = pause
			pause = min(2*pause, retryMax)
		}
		if !sleep(ctx, wait/2+rand.N(wait/2+1)) {
			return nil
		}
	}
}

// missing returns those targets at which no member is known, and whether this
// agent sees no other.
func (g *Gossip) missing(targets []netip.AddrPort) (out []netip.AddrPort, alone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	here := map[netip.AddrPort]bool{}
	for _, m := range g.list.byName {
		if m.Here() {
			here[m.Gossip()] = true
		}
	}
	for _, t := range targets {
		if !here[t] {
			out = append(out, t)
		}
	}
	return out, len(here) <= 1
}

// resolve turns texts into addresses, this agent's own left out.
func (g *Gossip) resolve(ctx context.Context, addrs []string) ([]netip.AddrPort, []error) {
	var out []netip.AddrPort
	var errs []error
	seen := map[netip.AddrPort]bool{g.self: true}
	for _, list := range addrs {
		for _, text := range strings.Split(list, ",") {
			text = strings.TrimSpace(text)
			found, err := g.resolveOne(ctx, text)
			if err != nil {
				errs = append(errs, fmt.Errorf("join %q: %w", text, err))
			}
			for _, a := range found {
				if !seen[a] {
					seen[a] = true
					out = append(out, a)
				}
			}
		}
	}
	return out, errs
}

func (g *Gossip) resolveOne(ctx context.Context, text string) ([]netip.AddrPort, error) {
	host, port, err := splitAddr(text, defaultPort)
	if err != nil {
		return nil, err
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" {
			return nil, fmt.Errorf("%w for others to use: it has a zone; give a global or private one", ErrAddress)
		}
		return []netip.AddrPort{netip.AddrPortFrom(a.Unmap(), port)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	ips, err := g.opts.Resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var out []netip.AddrPort
	for _, a := range ips {
		if a.Zone() == "" {
			out = append(out, netip.AddrPortFrom(a.Unmap(), port))
		}
	}
	return out, nil
}

// splitAddr takes host, host:port, v6, [v6] and [v6]:port apart.
func splitAddr(text string, port uint16) (string, uint16, error) {
	if text == "" {
		return "", 0, fmt.Errorf("%w: it is empty", ErrAddress)
	}
	bare := text
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		bare = text[1 : len(text)-1]
	}
	if a, err := netip.ParseAddr(bare); err == nil {
		return a.String(), port, nil
	}
	if !strings.Contains(text, ":") {
		return text, port, nil
	}
	host, p, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, fmt.Errorf("%w: want host:port or [v6]:port: %w", ErrAddress, err)
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil || n == 0 || host == "" {
		return "", 0, fmt.Errorf("%w: want host:port, with a port of 1 to 65535", ErrAddress)
	}
	return host, uint16(n), nil
}
