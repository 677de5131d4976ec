package stage

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestHolder_movesToFreePorts(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	for tries := 0; ; tries++ {
		h := &holder{}
		got, err := h.port(home(), port, true)
		if err != nil || got == port {
			t.Fatalf("port %d, error %v; %d is taken", got, err, port)
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", got)); err == nil {
			l.Close()
			t.Error("the port is not held")
		}
		if u, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", got)); err == nil {
			u.Close()
			t.Error("the port is not held for packets")
		}
		if err := h.release(); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", got))
		if err == nil {
			l.Close()
			return
		}
		if tries == 20 { // a port that is free may be given to anybody
			t.Fatal("the port is still held:", err)
		}
	}
}

func TestHolder_noSuchAddress(t *testing.T) {
	t.Parallel()
	h := &holder{}
	if _, err := h.hold(netip.MustParseAddr("192.0.2.1"), true); err == nil || !strings.Contains(err.Error(), "192.0.2.1") {
		t.Errorf("error %v, want one that names the address", err)
	}
}

func TestStage_twoAtOnceShareNothing(t *testing.T) {
	t.Parallel()
	usual := map[int]bool{portHTTP: true, portGossip: true, portRPC: true, portProxy: true, portShop: true}
	used := map[string]bool{}
	for range 2 {
		s, err := New(Options{Program: "/bin/false"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for i, p := range s.places {
			drawn := false
			for _, port := range []int{p.HTTP, p.Gossip, p.RPC, p.Proxy, p.Shop} {
				drawn = drawn || !usual[port]
				if at := p.at(port); used[at] {
					t.Errorf("%s is used twice", at)
				} else {
					used[at] = true
				}
			}
			if drawn { // a free port that was drawn may be drawn again, by anybody
				continue
			}
			if err := s.holders[i].release(); err != nil { // as when its processes are about to start
				t.Fatal(err)
			}
		}
		if at := s.Front.Address(); used[at] {
			t.Errorf("%s is used twice", at)
		} else {
			used[at] = true
		}
	}
}

func TestStage_agentsKnowEachOther(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Program: "/opt/rondel"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	args := strings.Join(s.agentProcess(1).Args, " ")
	for i, p := range s.places {
		if got, want := strings.Contains(args, "-retry-join="+p.at(p.Gossip)+" ") || strings.HasSuffix(args, "-retry-join="+p.at(p.Gossip)), i != 1; got != want {
			t.Errorf("agent-2 joins %s: %v, want %v (%s)", p.at(p.Gossip), got, want, args)
		}
	}
	if p := s.places[1]; p.HTTP != portHTTP && !strings.Contains(args, "-http-port="+strconv.Itoa(p.HTTP)) {
		t.Errorf("agent-2 is not told its port: %s", args)
	}
	if got := s.shopProcess(2).Args; got[5] != "-agent="+s.places[2].API() {
		t.Errorf("the shop's first agent is not the one beside it: %q", got)
	}
}

func TestStage_aProcessThatFallsIsTold(t *testing.T) {
	t.Parallel()
	fails, err := exec.LookPath("false")
	if err != nil {
		t.Fatal(err)
	}
	var (
		mu    sync.Mutex // guards ended
		ended []string
	)
	s, err := New(Options{Program: fails, OnEnd: func(p *Process) {
		mu.Lock()
		defer mu.Unlock()
		ended = append(ended, p.Name)
	}})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "ended while starting") {
		t.Errorf("error %v, want one that says which process ended", err)
	}
	dir := s.Dir()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(ended) == 0 {
		t.Error("nobody was told")
	}
}

func TestStage_givenDirectoryStays(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "kept")
	s, err := New(Options{Program: "/bin/false", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(filepath.Join(dir, "rondel.hcl"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: the key in it is a secret", info, err)
	}
}

func TestStage_missingProgram(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Program: "/nonexistent/rondel"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "agent-1") {
		t.Errorf("error %v", err)
	}
}

func TestProcess_command(t *testing.T) {
	t.Parallel()
	p := &Process{program: "/a b/rondel", Args: []string{"agent", "-node=it's"}}
	if got, want := p.Command(), `'/a b/rondel' agent '-node=it'\''s'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// origin is an agent's proxy as the front sees it.
func origin(t *testing.T, name string, serves *atomic.Bool) (target, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }))
	t.Cleanup(server.Close)
	return target{
		proxy:   strings.TrimPrefix(server.URL, "http://"),
		asks:    func(context.Context) bool { return serves.Load() },
		serving: &atomic.Bool{},
	}, server
}

func TestFront_goesToTheFirstThatServes(t *testing.T) {
	t.Parallel()
	serves := [2]*atomic.Bool{{}, {}}
	serves[0].Store(true)
	serves[1].Store(true)
	one, first := origin(t, "one", serves[0])
	two, second := origin(t, "two", serves[1])
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := newFront(l, one, two)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()

	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	answers := func(want string) {
		t.Helper()
		got := ""
		for range 12000 { // until the front has asked again
			client.CloseIdleConnections()
			resp, err := client.Get(f.URL())
			if err == nil {
				var b [64]byte
				n, _ := resp.Body.Read(b[:])
				resp.Body.Close()
				got = string(b[:n])
			} else {
				got = err.Error()
			}
			if strings.TrimSpace(got) == want {
				return
			}
			select {
			case <-t.Context().Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
		t.Fatalf("answered by %q, want %q", got, want)
	}
	answers("one")
	serves[0].Store(false) // it runs, and says that it does not serve
	answers("two")
	serves[0].Store(true)
	answers("one")
	first.Close() // it is gone
	answers("two")
	second.Close()
	answers("No agent of the demo is up.")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestFront_endsWithOpenConnections(t *testing.T) {
	t.Parallel()
	serves := &atomic.Bool{}
	one, _ := origin(t, "one", serves)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := newFront(l, one)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	c, err := net.Dial("tcp", f.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for its connections")
	}
}
