//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rondel-project/rondel/scripts/bench/load"
	"github.com/rondel-project/rondel/scripts/bench/peers"
)

// order is what the process of the load is to do: to carry out a plan, and to look at
// what processes spend just before and just after.
type order struct {
	Plan         load.Plan
	Peer, Beside []int  // processes of the peer, and of the instances
	Profile      string // a file for a profile of the peer; empty: none
}

// told is what came of it.
type told struct {
	Tally     load.Tally
	Peer, Own time.Duration // processor time of the peer, and of the load
	Others    time.Duration // of all that is neither those nor the instances
	RSS       int           // of the peer
}

// serveLoad is the role of that process.
func serveLoad() error {
	var o order
	if err := gob.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return err
	}
	t, err := o.carryOut()
	if err != nil {
		return err
	}
	return gob.NewEncoder(os.Stdout).Encode(t)
}

func (o *order) carryOut() (t told, err error) {
	look := func() (all [4]time.Duration) {
		var errs [4]error
		all[0], errs[0] = peers.CPU(o.Peer)
		all[1], errs[1] = peers.CPU([]int{os.Getpid()})
		all[2], errs[2] = peers.CPU(o.Beside)
		all[3], errs[3] = peers.Busy()
		err = errors.Join(append(errs[:], err)...)
		return all
	}
	end, failed := o.record()
	if failed != nil {
		return t, failed
	}
	before := look()
	tally, failed := load.Run(o.Plan)
	after := look()
	if failed = errors.Join(failed, end()); failed != nil {
		return t, failed
	}
	for i := range after {
		after[i] -= before[i]
	}
	t = told{Tally: *tally, Peer: after[0], Own: after[1], Others: after[3] - after[0] - after[1] - after[2]}
	rss, failed := peers.RSS(o.Peer)
	t.RSS = rss
	return t, errors.Join(err, failed)
}

// drive has an order carried out in a process of its own.
func (f *field) drive(ctx context.Context, o order) (t told, err error) {
	self, err := os.Executable()
	if err != nil {
		return t, err
	}
	var plan, answer bytes.Buffer
	if err := gob.NewEncoder(&plan).Encode(o); err != nil {
		return t, err
	}
	proc, err := f.r.Start(peers.Program{
		Name: "load", Args: []string{self, loadRole}, CPU: f.load, Stdin: &plan, Stdout: &answer,
		Env: []string{"GOGC=400", "GOMAXPROCS=" + strconv.Itoa(f.threads)},
	})
	if err != nil {
		return t, err
	}
	select {
	case <-proc.Ended():
	case <-ctx.Done():
		proc.Kill()
		return t, ctx.Err()
	}
	if err := proc.Err(); err != nil {
		return t, err
	}
	if err := gob.NewDecoder(&answer).Decode(&t); err != nil {
		return t, fmt.Errorf("what the load says: %w", err)
	}
	return t, nil
}

// profiled is the file for the profile of a peer in a case.
func (f *field) profiled(name string, st *stand) string {
	return filepath.Join(f.profile, strings.NewReplacer(" ", "-", ",", "").Replace(name+" "+st.peer.Name)+".perf")
}

// record has perf write a profile of the peer for as long as the load takes.
func (o *order) record() (end func() error, err error) {
	if o.Profile == "" {
		return func() error { return nil }, nil
	}
	var pids []string
	for _, pid := range o.Peer {
		pids = append(pids, strconv.Itoa(pid))
	}
	cmd := exec.Command("perf", "record", "-q", "-F", "1999", "-g", "-o", o.Profile, "-p", strings.Join(pids, ","),
		"--", "sleep", strconv.FormatFloat(o.Plan.For.Seconds(), 'f', 1, 64))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("a profile needs perf: %w", err)
	}
	return cmd.Wait, nil
}
