//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"

	"github.com/rondel-project/rondel/scripts/bench/peers"
)

// contender is a proxy to be tried.
type contender struct {
	name    string
	peer    peers.Peer
	rondel  string // the program: three agents instead of a peer
	machine bool   // the agent beside the instance is killed too
	bound   bool   // it must keep Rondel's promises
}

// contenders are all, each peer with what its manual offers for the case. HAProxy's
// checks come every 2 s unless said otherwise.
func contenders(bin string) []contender {
	haproxy := func(name, server string, backend ...string) contender {
		name = "HAProxy, " + name
		return contender{name: name, peer: peers.HAProxy(name, peers.HAProxyOptions{Backend: backend, Server: server})}
	}
	caddy := func(name string, options ...string) contender {
		return contender{name: name, peer: peers.Caddy(name, options...)}
	}
	const redispatch, retries = "option redispatch", "retries 3"
	return []contender{
		{name: "Rondel", rondel: bin, bound: true},
		haproxy("`check`", "check"),
		haproxy("`redispatch`", "check", redispatch, retries),
		haproxy("`redispatch`, `retry-on all-retryable-errors`", "check", redispatch, retries, "retry-on all-retryable-errors"),
		haproxy("`redispatch 1`, `observe layer4`, `on-error mark-down`", "check inter 500 fall 1 observe layer4 error-limit 1 on-error mark-down", redispatch+" 1", retries, "timeout connect 1s"),
		{name: "nginx", peer: peers.Nginx("nginx")},
		caddy("Caddy"),
		caddy("Caddy, `lb_try_duration 5s`, `fail_duration 10s`", "lb_try_duration 5s", "fail_duration 10s"),
		{name: "httputil", peer: peers.Reverse("httputil")},
		{name: "Rondel, agent killed as well", rondel: bin, machine: true},
	}
}

const instanceRole = "instance"

func main() {
	// Nothing may go by way of a proxy, and what is started here ends with this thread.
	for _, name := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"} {
		os.Unsetenv(name)
	}
	runtime.LockOSThread()
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench-failover:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case instanceRole:
			return serveInstance(args[1:])
		case peers.ReverseRole:
			return peers.ServeReverse(args[1:])
		}
	}
	flags := flag.NewFlagSet("bench-failover", flag.ContinueOnError)
	bin, only := flags.String("bin", "bin/rondel", "the program of Rondel"), flags.String("peers", ".", "the proxies whose name matches")
	rounds, secs := flags.Int("rounds", 5, "how often each is tried"), flags.Int("secs", 14, "how long one try lasts, in seconds")
	report := flags.String("report", "", "write the page to this file too")
	if err := flags.Parse(args); err != nil {
		return err
	}
	which, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if flags.NArg() > 0 || *rounds < 1 || *secs < 4 {
		return errors.New("want no arguments, and times above 3 s")
	}
	path, err := filepath.Abs(*bin)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := plan{rate: 500, clients: 60, each: time.Duration(*secs) * time.Second, kill: 3 * time.Second, work: 10 * time.Millisecond}
	return bench(ctx, p, path, which, *rounds, *report)
}

func bench(ctx context.Context, p plan, bin string, which *regexp.Regexp, rounds int, report string) error {
	began, runs := time.Now(), map[string][]count{}
	var names, broken []string
	for round := range rounds {
		for _, who := range contenders(bin) {
			if !which.MatchString(who.name) {
				continue
			}
			s, err := play(ctx, p, who)
			if errors.Is(err, peers.ErrMissing) {
				if round == 0 {
					fmt.Fprintln(os.Stderr, who.name, "is left out:", err)
				}
				continue
			}
			if err != nil {
				return fmt.Errorf("%s: %w", who.name, err)
			}
			c := tell(s)
			if round == 0 {
				names = append(names, who.name)
			}
			runs[who.name] = append(runs[who.name], c)
			fmt.Fprintf(os.Stderr, "round %d: %s: %s\n", round+1, who.name, &c)
			if bad := c.broken(); who.bound && len(bad) > 0 {
				broken = append(broken, fmt.Sprintf("round %d: %q", round+1, bad))
			}
		}
	}
	if len(names) == 0 {
		return errors.New("no proxy of that name")
	}
	text := table(names, runs)
	fmt.Print("\n", text)
	if report != "" {
		if err := page(report, p, rounds, time.Since(began), text); err != nil {
			return err
		}
	}
	if len(broken) > 0 {
		return fmt.Errorf("promises of Rondel that were not kept: %v", broken)
	}
	return nil
}
