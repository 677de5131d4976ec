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

// settings are what the command line says.
type settings struct {
	bin, against, profile, report string
	rounds, sessions              int
	each                          time.Duration
	only, peers                   *regexp.Regexp
}

func main() {
	// Nothing may go by way of a proxy, and what is started here ends with this thread.
	for _, name := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"} {
		os.Unsetenv(name)
	}
	runtime.LockOSThread()
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench-proxy:", err)
		os.Exit(1)
	}
}

// Roles in which the program runs itself.
const (
	loadRole    = "load"
	socketsRole = "sockets"
)

func run(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case loadRole:
			return serveLoad()
		case socketsRole:
			return serveSockets(args[1:])
		case peers.ReverseRole:
			return peers.ServeReverse(args[1:])
		}
	}
	s, err := parse(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return bench(ctx, s)
}

func parse(args []string) (s settings, err error) {
	flags := flag.NewFlagSet("bench-proxy", flag.ContinueOnError)
	only, which, secs := flags.String("only", ".", "the cases whose name matches"), flags.String("peers", ".", "the peers whose name matches"), flags.Int("secs", 4, "how long one load lasts, in seconds")
	flags.StringVar(&s.bin, "bin", "bin/rondel", "the program of Rondel")
	flags.StringVar(&s.against, "against", "", "another program of Rondel, to measure beside it")
	flags.StringVar(&s.profile, "profile", "", "keep a profile of each peer and case of the last round in this directory (needs perf)")
	flags.StringVar(&s.report, "report", "", "write the page to this file too")
	flags.IntVar(&s.rounds, "rounds", 5, "how often each peer is measured in each case")
	flags.IntVar(&s.sessions, "sessions", 1_000_000, "how many sessions the case of many has")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	var errs [2]error
	s.only, errs[0] = regexp.Compile(*only)
	s.peers, errs[1] = regexp.Compile(*which)
	if err := errors.Join(errs[:]...); err != nil {
		return s, err
	}
	if flags.NArg() > 0 || s.rounds < 1 || *secs < 1 || s.sessions < 10 {
		return s, errors.New("want no arguments, and numbers above 0")
	}
	s.each = time.Duration(*secs) * time.Second
	for _, path := range []*string{&s.bin, &s.against, &s.profile, &s.report} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return s, err
		}
	}
	if runtime.NumCPU() < 2 {
		return s, errors.New("the proxy needs a processor of its own, and the load another one")
	}
	return s, nil
}
