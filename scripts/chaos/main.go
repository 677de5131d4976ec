//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings are what the command line says.
type settings struct {
	bin, report, keep, results string
	rounds, agents             int
	fault, mode                *regexp.Regexp
}

func main() {
	// Nothing may go by way of a proxy.
	for _, name := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"} {
		os.Unsetenv(name)
	}
	var s settings
	fault, which := flag.String("fault", ".", "run the faults whose name matches"), flag.String("mode", ".", "in the modes that match: serve, refuse, disk")
	flag.StringVar(&s.bin, "bin", "bin/rondel", "the program to run")
	flag.StringVar(&s.report, "report", "", "write the report to this file too")
	flag.StringVar(&s.results, "results", "", "keep what was found in this file, and go on from it: a fault that strikes again replaces what was found of it")
	flag.StringVar(&s.keep, "keep", "", "keep the agents' logs and data in this directory")
	flag.IntVar(&s.rounds, "rounds", 1, "how often each fault strikes")
	flag.IntVar(&s.agents, "agents", 5, "how many there are, 4 to 9")
	flag.Parse()
	var errs [2]error
	s.fault, errs[0] = regexp.Compile(*fault)
	s.mode, errs[1] = regexp.Compile(*which)
	if err := errors.Join(errs[:]...); err != nil || flag.NArg() > 0 || s.agents < 4 || s.agents > 9 || s.rounds < 1 {
		fmt.Fprintln(os.Stderr, "chaos: use it as this says:", err)
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	kept, err := chaos(ctx, s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	if err != nil || !kept {
		os.Exit(1)
	}
}

// chaos runs all faults in all modes, and reports whether all promises were kept.
func chaos(ctx context.Context, s settings) (kept bool, err error) {
	if os.Geteuid() != 0 {
		return false, errors.New("network namespaces need root")
	}
	bin, err := filepath.Abs(s.bin)
	if err != nil {
		return false, err
	}
	dir := s.keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "chaos"); err != nil {
			return false, err
		}
		defer os.RemoveAll(dir)
	}
	version, err := exec.CommandContext(ctx, bin, "version").Output()
	if err != nil {
		return false, fmt.Errorf("ask %s for its version: %w", s.bin, err)
	}
	name, _, _ := strings.Cut(string(version), "\n")
	all, err := loadResults(s.results)
	if err != nil {
		return false, err
	}
	for _, m := range modes() {
		list := s.faultsOf(m)
		for i := 0; len(list) > 0; i++ {
			// Each time on a new cluster: after a failure the old one is not what
			// the next fault expects.
			done, err := inMode(ctx, s, m, bin, filepath.Join(dir, fmt.Sprint(m.name, i)), list, func(o *outcome) error {
				all = replaced(all, o)
				return errors.Join(saveResults(s.results, all), savePage(s, newPage(s, name, all)))
			})
			if err != nil {
				return false, fmt.Errorf("%s: %w", m.name, err)
			}
			list = list[done:]
		}
	}
	var b bytes.Buffer
	if err := writeReport(&b, newPage(s, name, all)); err != nil {
		return false, err
	}
	fmt.Print("\n", b.String())
	return !slices.ContainsFunc(all, func(o *outcome) bool { return !o.kept() }), nil
}

func (s settings) faultsOf(m mode) (list []fault) {
	for _, f := range faults() {
		if s.mode.MatchString(m.name) && (f.modes == nil || slices.Contains(f.modes, m.name)) && s.fault.MatchString(f.name) {
			list = append(list, f)
		}
	}
	return list
}

// inMode lets faults strike one cluster, until one fails, and returns how many
// have struck.
func inMode(ctx context.Context, s settings, m mode, bin, dir string, list []fault, found func(*outcome) error) (done int, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	working, cancel := context.WithCancel(ctx)
	net, err := newNetwork(working, s.agents)
	if err != nil {
		cancel()
		return 0, err
	}
	defer func() {
		cancel()
		err = errors.Join(err, net.close())
	}()
	c, err := newCluster(ctx, net, bin, dir, s.agents, m)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	w, err := startWriters(ctx, c)
	if err != nil {
		return 0, err
	}
	defer w.stop()
	for i, f := range list {
		o := &outcome{fault: f, mode: m, promise: f.promise[m.name]}
		for range s.rounds {
			if ctx.Err() != nil {
				return i, ctx.Err() // asked to end
			}
			if o.err = strike(ctx, c, w, f, o); o.err != nil {
				break
			}
		}
		if ctx.Err() != nil {
			return i, ctx.Err()
		}
		fmt.Println("| "+m.name, o.row())
		if err := found(o); err != nil {
			return i, err
		}
		if o.err != nil {
			return i + 1, nil
		}
	}
	return len(list), nil
}

// strike lets one fault happen, and waits until all is well again.
func strike(ctx context.Context, c *cluster, w *writers, f fault, o *outcome) error {
	rest(ctx, time.Second)
	r := &run{c: c, w: w, watched: w.sessions}
	began := time.Now()
	w.begin()
	if err := f.strike(ctx, r); err != nil {
		return errors.Join(err, ctx.Err())
	}
	rest(ctx, settle)
	var gap time.Duration
	for _, s := range r.watched {
		gap = max(gap, s.end(time.Now()))
	}
	o.gaps = append(o.gaps, gap)
	struck := time.Now()
	if err := c.healthy(ctx, 90*time.Second); err != nil {
		return err
	}
	o.healed = max(o.healed, time.Since(struck))
	o.took += time.Since(began)
	t, err := w.count(ctx)
	o.total.faultCount = o.total.add(t.faultCount)
	o.total.Acked += t.Acked
	o.total.Deleted += t.Deleted
	return err
}
