package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rondel-project/rondel/command/demo/stage"
)

// bound is how long one demo may take in all.
const bound = 3 * time.Minute

// theatre is held by who plays: six processes have to keep their time, which they
// cannot beside those of other demos on a small machine.
var theatre sync.Mutex

// lines is an output that can be read while it grows.
type lines struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// played is a demo that runs or has run.
type played struct {
	cmd      *exec.Cmd
	tmp      string // where its temporary files go
	out, err lines
	ended    chan error
}

// play starts a demo, with a temporary directory of its own, so that what it
// leaves behind can be seen.
func play(t *testing.T, args ...string) *played {
	t.Helper()
	theatre.Lock()
	t.Cleanup(theatre.Unlock)
	p := &played{tmp: t.TempDir(), ended: make(chan error, 1)}
	p.cmd = exec.Command(program, append([]string{"demo"}, args...)...)
	p.cmd.Env = append(os.Environ(), "TMPDIR="+p.tmp)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended, unless the test failed early
		if t.Failed() {
			t.Logf("stdout:\n%s\nstderr:\n%s", &p.out, &p.err)
		}
	})
	return p
}

// end waits for the end and returns the exit code.
func (p *played) end(t *testing.T) int {
	t.Helper()
	select {
	case err := <-p.ended:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(bound):
		t.Fatalf("the demo has not ended within %s", bound)
		return 0
	}
}

// leavesNothing checks that files and processes are gone.
func (p *played) leavesNothing(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(p.tmp)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		t.Errorf("%s was left behind", f.Name())
	}
	for _, pid := range offspring(p.tmp) {
		t.Errorf("process %s was left behind", pid)
	}
}

// offspring returns the processes whose command line speaks of a directory, on
// systems that show them.
func offspring(dir string) []string {
	var out []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && bytes.Contains(text, []byte(dir+"/")) {
			out = append(out, filepath.Base(filepath.Dir(f)))
		}
	}
	return out
}

func TestDemo_tellsItsStoryWithoutATerminal(t *testing.T) {
	t.Parallel()
	p := play(t)
	if code := p.end(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	p.leavesNothing(t)
	out := p.out.String()
	if got := strings.Count(out, "kill -9 "); got != 2 {
		t.Errorf("%d processes were killed, want 2", got)
	}
	if got := strings.Count(out, "The cart is still there"); got != 2 {
		t.Errorf("the cart was still there %d times, want 2", got)
	}
	if !strings.Contains(out, " 0 lost, 0 applied twice, 0 sessions lost.") {
		t.Error("the figures are missing")
	}
}

func TestDemo_selftest(t *testing.T) {
	t.Parallel()
	p := play(t, "-selftest", "-duration=8s", "-clients=10", "-format=json")
	code := p.end(t)
	p.leavesNothing(t)
	var got result
	if err := json.Unmarshal([]byte(p.out.String()), &got); err != nil {
		t.Fatalf("stdout is not one JSON document: %v", err)
	}
	if code != 0 || !got.Passed {
		t.Errorf("exit code %d, passed %v", code, got.Passed)
	}
	if got.Sessions != 10 || got.AcknowledgedWrites == 0 || got.SessionsLost+got.WritesLost+got.AppliedTwice+got.SessionsUnread != 0 {
		t.Errorf("%+v", got)
	}
	killed := 0
	for _, e := range got.Events {
		killed += strings.Count(e.What, " killed ")
	}
	if killed < 2 {
		t.Errorf("%d processes were killed: %+v", killed, got.Events)
	}
	t.Logf("longest gaps: read %s, write %s; %d of %d requests failed", got.LongestGap.Read, got.LongestGap.Write, got.FailedRequests, got.Requests)
}

func TestDemo_endsOnSIGTERM(t *testing.T) {
	t.Parallel()
	p := play(t)
	deadline := time.NewTimer(bound)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(p.out.String(), "has put") { // in the middle of the story
		select {
		case <-p.ended:
			t.Fatal("the story does not begin")
		case <-deadline.C:
			t.Fatal("the story does not begin in time")
		case <-tick.C:
		}
	}
	if len(offspring(p.tmp)) == 0 {
		if _, err := os.Stat("/proc/self/cmdline"); err == nil {
			t.Error("no process of the demo is seen: this test would not see one that stays, either")
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t); code != 1 || !strings.Contains(p.err.String(), "stopped before the end") {
		t.Errorf("exit code %d", code)
	}
	p.leavesNothing(t)
}

// A demo that is killed cannot tidy up its files, but its processes go with it.
func TestDemo_killedTakesItsProcessesAlong(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		return // other kernels have no such tie between processes
	}
	p := play(t)
	deadline := time.NewTimer(bound)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	wait := func(what string, so func() bool) {
		t.Helper()
		for !so() {
			select {
			case <-deadline.C:
				t.Fatalf("it did not come to this: %s", what)
			case <-tick.C:
			}
		}
	}
	wait("three agents run", func() bool { return len(offspring(p.tmp)) >= 3 })
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.end(t)
	wait("no process is left", func() bool { return len(offspring(p.tmp)) == 0 })
}

// Where the loopback interface has one address only, ports tell the machines
// apart.
func TestStage_onOneAddress(t *testing.T) {
	t.Parallel()
	theatre.Lock()
	defer theatre.Unlock()
	var s *stage.Stage
	for tries := 0; ; tries++ {
		home := netip.MustParseAddr("127.0.0.1")
		var err error
		if s, err = stage.New(stage.Options{Program: program, Dir: t.TempDir(), Addresses: []netip.Addr{home, home, home}}); err != nil {
			t.Fatal(err)
		}
		if err = s.Start(t.Context()); err == nil {
			break
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		// Of an address that all use, anybody may be given a port before the process
		// is there for which it was held.
		if tries == 5 || !strings.Contains(err.Error(), "address already in use") {
			t.Fatal(err)
		}
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := s.Kill(s.Agents()[0]); err != nil {
		t.Fatal(err)
	}
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	status := ""
	for end := time.Now().Add(bound); status != "200 OK"; { // a takeover may last longer than one request has time
		if time.Now().After(end) {
			t.Fatalf("%s through the front, with one agent dead", status)
		}
		resp, err := client.Get(s.Front.URL() + "cart.json")
		if err != nil {
			status = err.Error()
			continue
		}
		resp.Body.Close()
		status = resp.Status
	}
}

func TestShop_takenAddress(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	out, err := exec.Command(program, "demo", "shop", "-name=a", "-member=b", "-agent=127.0.0.1:1", "-listen="+taken.Addr().String()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), taken.Addr().String()) {
		t.Errorf("%v: %s", err, out)
	}
}

func TestDemo_usage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"help":               {[]string{"-h"}, 0, "-selftest"},
		"help of the shop":   {[]string{"shop", "-h"}, 0, "rondel demo"},
		"unknown option":     {[]string{"-selftset"}, 2, "-selftest"},
		"argument":           {[]string{"now"}, 2, "now"},
		"bare duration":      {[]string{"-selftest", "-duration=20"}, 2, "20s"},
		"short duration":     {[]string{"-selftest", "-duration=1s"}, 2, "5s"},
		"no clients":         {[]string{"-selftest", "-clients=0"}, 2, "1000"},
		"format of no test":  {[]string{"-format=json"}, 2, "-selftest"},
		"clients of no test": {[]string{"-clients=3"}, 2, "-selftest"},
		"shop without name":  {[]string{"shop"}, 2, "missing"},
		"directory a file":   {[]string{"-dir=" + program}, 1, program},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(program, append([]string{"demo"}, c.args...)...)
			text, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(text), c.says) {
				t.Errorf("exit code %d, want %d; it should speak of %q:\n%s", code, c.code, c.says, text)
			}
			if strings.Contains(string(text), fmt.Sprintf("%c", '\t')) {
				t.Error("there are tabs in it")
			}
		})
	}
}
