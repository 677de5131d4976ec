package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/session"
)

// agentEnv makes the test program one agent of BenchmarkPeers: which one.
const agentEnv = "RONDEL_BENCH_AGENT"

// order is what BenchmarkPeers asks of an agent's process; told is the answer.
type order struct {
	Do      string
	Set     string // of sessions
	Count   int
	KiB     int
	IDs     []session.ID
	Clients int
	Time    time.Duration
	Path    string
}

type told struct {
	Error  string
	HTTP   string
	Gossip string
	IDs    []session.ID
	Lats   []time.Duration
	Heap   uint64
	RSS    uint64
	Reads  uint64
}

// BenchmarkPeersAgent is the process of one agent. It does nothing by itself.
func BenchmarkPeersAgent(b *testing.B) {
	if os.Getenv(agentEnv) == "" {
		b.Skip("BenchmarkPeers runs this in processes of their own")
	}
	var first order
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.NewFile(3, "answers"))
	if err := in.Decode(&first); err != nil {
		b.Fatal(err)
	}
	s := &site{}
	s.addAgent(b, 3, func(cfg *config.Runtime) {
		cfg.Node.Name = os.Getenv(agentEnv)
		cfg.Node.Witness = first.Do == "client"
		if first.Path != "" {
			cfg.Join.Retry = []string{first.Path}
		}
	})
	a := s.agents[0]
	p := &agentProcess{a: a, sets: map[string][]session.ID{}}
	out.Encode(told{HTTP: a.doors.apiPorts[0].Addr().String(), Gossip: a.gossip.Self().Gossip().String()})
	for {
		var o order
		if err := in.Decode(&o); err != nil {
			return
		}
		t, err := p.do(&o)
		if err != nil {
			t.Error = err.Error()
		}
		out.Encode(t)
	}
}

type agentProcess struct {
	a    *Agent
	sets map[string][]session.ID
}

func (p *agentProcess) do(o *order) (t told, err error) {
	switch o.Do {
	case "ready":
		if why := (backend{p.a}).Unready(); len(why) > 0 {
			return t, errors.New(strings.Join(why, ", "))
		}
	case "create":
		for range o.Count {
			id, ok := p.a.engine.View().Mint(p.a.id.id, time.Now())
			if !ok {
				return t, errors.New("no id")
			}
			r := p.a.engine.Do(context.Background(), &session.Request{Kind: session.Create, ID: id, Attrs: values(o.KiB), Acks: session.AcksDefault})
			if r.Status != session.OK {
				return t, errors.New(r.Error)
			}
			p.sets[o.Set] = append(p.sets[o.Set], id)
		}
		t.IDs = p.sets[o.Set]
	case "put":
		var workers []func() error
		attrs := values(1)
		for i := range o.Clients {
			at := i * len(o.IDs) / o.Clients
			workers = append(workers, func() error {
				at = (at + 7) % len(o.IDs)
				r := p.a.engine.Do(context.Background(), &session.Request{Kind: session.Put, ID: o.IDs[at], Attrs: attrs, Acks: session.AcksDefault})
				if r.Status != session.OK {
					return errors.New(r.Error)
				}
				return nil
			})
		}
		t.Lats, err = drive(o.Time, workers)
	case "warm":
		// Memory is fetched from the system as the heap grows to its size; only
		// after that does a write cost what it costs from then on.
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		for last, end := m.NumGC+3, time.Now().Add(time.Minute); m.NumGC < last && time.Now().Before(end); runtime.ReadMemStats(&m) {
			if t, err = p.do(&order{Do: "put", IDs: o.IDs, Clients: 8, Time: 100 * time.Millisecond}); err != nil {
				return t, err
			}
		}
		t = told{}
	case "touch":
		for range o.Count {
			for _, id := range o.IDs {
				p.a.engine.Touch(id)
			}
		}
	case "memory":
		runtime.GC()
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		t.Heap, t.Reads = m.HeapAlloc, p.a.engine.Figures().Reads
		b, _ := os.ReadFile("/proc/self/statm")
		var total, resident uint64
		fmt.Sscan(string(b), &total, &resident)
		t.RSS = resident * uint64(os.Getpagesize())
	case "profile":
		f, err := os.Create(o.Path)
		if err != nil {
			return t, err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return t, err
		}
		go func() {
			<-time.After(o.Time)
			pprof.StopCPUProfile()
			f.Close()
		}()
	}
	return t, err
}

func values(kib int) []session.Attr {
	attrs := []session.Attr{{Name: "v", Value: []byte(`"` + text(1022) + `"`)}}
	for i := 1; i < kib; i++ {
		attrs = append(attrs, session.Attr{Name: fmt.Sprint("v", i), Value: attrs[0].Value})
	}
	return attrs
}

// rondelPeers are agents in processes of their own. client is one more, a
// witness: it holds no session, and forwards what its clients want as any agent
// does.
type rondelPeers struct {
	procs  []*peerProcess
	client *peerProcess
	lines  map[string][]*line
}

type peerProcess struct {
	mu   sync.Mutex
	cmd  *exec.Cmd
	in   *json.Encoder
	out  *json.Decoder
	http string
	ids  map[string][]session.ID
}

// startAgents starts n agents from a test program, this one or that of another
// commit.
func startAgents(b *testing.B, program string, n int) *rondelPeers {
	s := &rondelPeers{lines: map[string][]*line{}}
	var first told
	for i := range n {
		p, t := startAgent(b, program, fmt.Sprint("m", i+1), order{Path: first.Gossip})
		if s.procs = append(s.procs, p); i == 0 {
			first = t
		}
	}
	s.await(b)
	s.client, _ = startAgent(b, program, "client", order{Do: "client", Path: first.Gossip})
	awaitBench(b, func() error { _, err := s.client.try(order{Do: "ready"}); return err })
	return s
}

func startAgent(b *testing.B, program, name string, first order) (*peerProcess, told) {
	answers, theirs, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^$", "-test.bench=^BenchmarkPeersAgent$", "-test.benchtime=1x", "-test.timeout=1h")
	cmd.Env = append(os.Environ(), agentEnv+"="+name)
	cmd.ExtraFiles = []*os.File{theirs}
	var words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &words, &words
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	theirs.Close()
	p := &peerProcess{cmd: cmd, in: json.NewEncoder(stdin), out: json.NewDecoder(bufio.NewReader(answers)), ids: map[string][]session.ID{}}
	b.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
		answers.Close()
		if b.Failed() {
			b.Logf("agent %s: %s", name, words.String())
		}
	})
	t := p.ask(b, first)
	p.http = t.HTTP
	return p, t
}

func (p *peerProcess) ask(b *testing.B, o order) told {
	t, err := p.try(o)
	if err != nil {
		b.Error(o.Do, err)
		panic(err)
	}
	return t
}

func (p *peerProcess) try(o order) (t told, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err = p.in.Encode(o); err == nil {
		err = p.out.Decode(&t)
	}
	if err == nil && t.Error != "" {
		err = errors.New(t.Error)
	}
	return t, err
}

func (p *peerProcess) create(b *testing.B, as string, count int, set string, kib int) {
	p.ids[as] = p.ask(b, order{Do: "create", Set: set, Count: count, KiB: kib}).IDs
}

func (s *rondelPeers) await(b *testing.B) {
	for _, p := range s.procs {
		awaitBench(b, func() error { _, err := p.try(order{Do: "ready"}); return err })
	}
}

func (s *rondelPeers) pids() (out []int) {
	for _, p := range s.procs {
		out = append(out, p.cmd.Process.Pid)
	}
	return out
}

// own has the client's agent write sessions of the first owners by forwarding.
func (s *rondelPeers) own(set string, owners int) func(*testing.B, time.Duration) []time.Duration {
	return func(b *testing.B, d time.Duration) []time.Duration {
		var ids []session.ID
		for i := range s.procs[0].ids[set] {
			for _, p := range s.procs[:owners] {
				ids = append(ids, p.ids[set][i])
			}
		}
		return s.client.ask(b, order{Do: "put", IDs: ids, Clients: clients, Time: d}).Lats
	}
}

// inside has the agents write their own sessions, with the clients inside.
func (s *rondelPeers) inside(set string) func(*testing.B, time.Duration) []time.Duration {
	return func(b *testing.B, d time.Duration) (all []time.Duration) {
		answers := make(chan told, len(s.procs))
		for i, p := range s.procs {
			n := clients / len(s.procs)
			if i < clients%len(s.procs) {
				n++
			}
			go func() {
				t, err := p.try(order{Do: "put", IDs: p.ids[set], Clients: n, Time: d})
				if err != nil {
					t.Error = err.Error()
				}
				answers <- t
			}()
		}
		for range s.procs {
			t := <-answers
			if t.Error != "" {
				b.Fatal(t.Error)
			}
			all = append(all, t.Lats...)
		}
		return all
	}
}

// http drives sessions over HTTP at their owner, or at the off-th agent behind
// it.
func (s *rondelPeers) http(method, set string, off int) func(*testing.B, time.Duration) []time.Duration {
	body := ""
	switch method {
	case "PUT":
		body = `{"Attributes":{"v":"` + text(1022) + `"}}`
	case "PATCH":
		body = `{"Attributes":{"v":"` + text(98) + `"}}`
	}
	return func(b *testing.B, d time.Duration) []time.Duration {
		var workers []func() error
		for i := range clients {
			home := i % len(s.procs)
			at := s.procs[(home+off)%len(s.procs)].http
			var requests [][]byte
			for _, id := range s.procs[home].ids[set] {
				r := fmt.Sprintf("%s /v1/sessions/%s HTTP/1.1\r\nHost: %s\r\n", method, id, at)
				if body != "" {
					r += fmt.Sprintf("Content-Length: %d\r\n", len(body))
				}
				requests = append(requests, []byte(r+"\r\n"+body))
			}
			key := fmt.Sprint(at, i)
			for len(s.lines[key]) == 0 {
				s.lines[key] = append(s.lines[key], dialLine(b, at))
			}
			l, n := s.lines[key][0], i
			workers = append(workers, func() error {
				n = (n + 7) % len(requests)
				return l.http(requests[n])
			})
		}
		lats, err := drive(d, workers)
		if err != nil {
			b.Fatal("rondel: ", err)
		}
		return lats
	}
}

// profile writes a CPU profile of each agent for as long as d, with the process
// going on meanwhile.
func (s *rondelPeers) profile(b *testing.B, name string, d time.Duration) {
	for i, p := range s.procs {
		p.ask(b, order{Do: "profile", Path: fmt.Sprintf("%s-%d.pprof", name, i+1), Time: d})
	}
}

// idleMemory fills the first agent with idle sessions. They are so once the operations
// are forgotten that made them, and what came before counts no more once its are.
func (s *rondelPeers) idleMemory(b *testing.B, out io.Writer) {
	const count, forgotten = 30_000, time.Minute
	p := s.procs[0]
	<-time.After(forgotten)
	before := p.ask(b, order{Do: "memory"})
	p.ask(b, order{Do: "create", Set: "idle", Count: count, KiB: 1})
	<-time.After(forgotten)
	after := p.ask(b, order{Do: "memory"})
	per := func(a, b uint64) float64 { return float64(int64(a)-int64(b)) / count / 1024 }
	fmt.Fprintf(out, "\nidle session of 1 KiB on its owner: %.2f KiB of live heap, %.2f KiB resident (%d sessions)\n",
		per(after.Heap, before.Heap), per(after.RSS, before.RSS), count)
}

// touches has one agent touch another's sessions again and again.
func (s *rondelPeers) touches(b *testing.B, out io.Writer) {
	const times = 200
	ids := s.procs[0].ids["home"]
	before := s.procs[0].ask(b, order{Do: "memory"}).Reads
	s.procs[1].ask(b, order{Do: "touch", IDs: ids, Count: times})
	<-time.After(time.Second)
	told := s.procs[0].ask(b, order{Do: "memory"}).Reads - before
	fmt.Fprintf(out, "\n%d touches of %d sessions by another agent: the owner was told %d times\n", times*len(ids), len(ids), told)
}
