package agent_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rondel-project/rondel/agent/agenttest"
)

var (
	seeds     = flag.Int("seeds", defaultSeeds, "how many random schedules of faults to run in each mode")
	firstSeed = flag.Uint64("seed", 0, "run only this schedule")
)

// What clients saw of each session is what one copy of it could have answered:
// in refuse mode whatever fails, in serve mode when members die.
func TestLinearizable(t *testing.T) {
	for _, mode := range []string{"refuse", "serve"} {
		for i := range *seeds {
			seed := rand.Uint64() % 1e9
			if *firstSeed != 0 {
				if seed = *firstSeed; i > 0 {
					break
				}
			}
			t.Run(fmt.Sprint(mode, "/", seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { runSchedule(t, mode, seed) })
			})
		}
	}
}

const (
	scheduleTime     = 12 * time.Second
	scheduleMembers  = 5
	scheduleSessions = 6
	scheduleClients  = 6
)

func runSchedule(t *testing.T, mode string, seed uint64) {
	c := agenttest.NewCluster(t, scheduleMembers, append(inMode(mode), agenttest.OnDisk(t.TempDir()))...)
	h := &history{start: time.Now(), session: map[string]int{}}
	var ids []string
	for i := range scheduleSessions {
		id := ok(t, "create", c.Members()[i%scheduleMembers].Create(attrs{"n": 0}, "")).ID
		ids, h.session[id] = append(ids, id), i
	}
	stop := make(chan struct{})
	var work sync.WaitGroup
	for u := range scheduleClients {
		rng := rand.New(rand.NewPCG(seed, uint64(u)+1))
		work.Go(func() {
			for i := 1; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(5+rng.IntN(80)) * time.Millisecond):
				}
				members := c.Members()
				h.do(u, members[rng.IntN(len(members))], ids[rng.IntN(len(ids))], rng.IntN(400), u*1_000_000+i)
			}
		})
	}
	f := &faults{c: c, rng: rand.New(rand.NewPCG(seed, 0)), cuts: mode == "refuse"}
	for until := time.Now().Add(scheduleTime); time.Now().Before(until); {
		f.next()
	}
	c.Heal()
	c.WaitHealthy(2 * time.Minute)
	close(stop)
	work.Wait()
	for _, m := range c.Members() {
		for _, id := range ids {
			h.do(scheduleClients, m, id, readsBelow-1, 0)
		}
	}
	for _, id := range ids {
		if a := c.Other().Read(id); a.OK() {
			watchOf(t, c, id).copies(3)
		}
	}
	result, _ := porcupine.CheckOperationsVerbose(sessionModel, h.ops, time.Minute)
	t.Logf("%d operations, %d of unknown outcome; faults: %v", len(h.ops), h.unknown, f.done)
	switch result {
	case porcupine.Illegal:
		t.Errorf("no single copy could have answered like this; schedule %d", seed)
		h.show(t)
	case porcupine.Unknown:
		t.Logf("the check took too long")
	}
}

// faults is one random schedule.
type faults struct {
	c    *agenttest.Cluster
	rng  *rand.Rand
	cuts bool // also of the network
	done []string
}

func (f *faults) sleep(least, most time.Duration) {
	time.Sleep(least + time.Duration(f.rng.Int64N(int64(most-least))))
}

func (f *faults) note(format string, args ...any) {
	f.done = append(f.done, fmt.Sprintf(format, args...))
}

// next makes one fault and, most of the time, waits until it is over. A second
// process dies only when all copies of the first are restored: no protocol
// survives the loss of all copies.
func (f *faults) next() {
	f.sleep(100*time.Millisecond, 1500*time.Millisecond)
	names := f.c.Names()
	one := names[f.rng.IntN(len(names))]
	two := names[f.rng.IntN(len(names))]
	kinds := 2
	if f.cuts {
		kinds = 6
	}
	switch kind := f.rng.IntN(kinds); {
	case kind < 2 && f.c.Healthy():
		f.note("kill %s", one)
		f.c.Crash(one)
		f.sleep(0, 3*time.Second)
		f.c.Restart(one, true)
	case kind < 2:
	case kind == 2:
		f.note("cut %s", one)
		f.c.Cut(one)
		f.sleep(200*time.Millisecond, 5*time.Second)
		f.c.Heal()
	case kind == 3 && one != two:
		f.note("cut %s %s", one, two)
		f.c.Cut(one, two)
		f.sleep(200*time.Millisecond, 5*time.Second)
		f.c.Heal()
	case kind == 4 && one != two:
		f.note("link %s-%s", one, two)
		f.c.CutLink(one, two)
		f.sleep(200*time.Millisecond, 5*time.Second)
		f.c.Heal()
	case kind == 5:
		f.note("slow %s", one)
		f.c.Slow(one, time.Duration(1+f.rng.IntN(300))*time.Millisecond)
		f.sleep(200*time.Millisecond, 2*time.Second)
		f.c.Heal()
	}
}

type opKind uint8

const (
	opRead opKind = iota
	opWrite
	opDelete
)

type opInput struct {
	session int
	kind    opKind
	value   int
}

type opOutput struct {
	unknown bool
	absent  bool // 404
	value   int
}

// sessionModel is one session kept in one place.
var sessionModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := make([][]porcupine.Operation, scheduleSessions)
		for _, o := range history {
			i := o.Input.(opInput).session
			parts[i] = append(parts[i], o)
		}
		return parts
	},
	Init: func() any { return 0 }, // the number; -1: deleted
	Step: func(state, input, output any) (bool, any) {
		n, in, out := state.(int), input.(opInput), output.(opOutput)
		switch {
		case in.kind == opRead:
			return out.absent == (n < 0) && (out.absent || out.value == n), n
		case out.unknown && n < 0:
			return true, n
		case !out.unknown && out.absent != (n < 0) && in.kind == opWrite:
			return false, n
		case n < 0:
			return true, n
		case in.kind == opDelete:
			return true, -1
		}
		return true, in.value
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// history is what clients did and saw.
type history struct {
	start   time.Time
	session map[string]int

	mu      sync.Mutex // guards all below
	ops     []porcupine.Operation
	unknown int
}

// Of 400 operations so many are reads; one is a delete, the others write.
const readsBelow = 220

func (h *history) do(client int, m *agenttest.Member, id string, dice, value int) {
	in := opInput{session: h.session[id], kind: opWrite, value: value}
	switch {
	case dice < readsBelow:
		in.kind = opRead
	case dice == readsBelow:
		in.kind = opDelete
	}
	call := time.Since(h.start).Nanoseconds()
	var a agenttest.Answer
	switch in.kind {
	case opRead:
		a = m.Read(id)
	case opWrite:
		a = m.Put(id, attrs{"n": value})
	case opDelete:
		a = m.Delete(id)
	}
	o := porcupine.Operation{ClientId: client, Input: in, Call: call, Return: time.Since(h.start).Nanoseconds()}
	out := opOutput{absent: a.Status == 404}
	switch {
	case in.kind == opRead:
		if a.Status != 200 && a.Status != 404 || a.Stale {
			return
		}
		out.value, _ = strconv.Atoi(a.Attr("n"))
	case a.Status == 503:
		return // it has not happened
	case !a.OK() && a.Status != 404:
		out.unknown = true
		// It may yet happen, at any time.
		o.Return = int64(24 * time.Hour)
	}
	o.Output = out
	h.mu.Lock()
	defer h.mu.Unlock()
	if out.unknown {
		// Each client does one thing at a time; this one goes on for ever.
		h.unknown++
		o.ClientId = 1000 + h.unknown
	}
	h.ops = append(h.ops, o)
}

// show logs the history of each session that no single copy could have.
func (h *history) show(t *testing.T) {
	for _, part := range sessionModel.Partition(h.ops) {
		one := sessionModel
		one.Partition = nil
		if porcupine.CheckOperations(one, part) {
			continue
		}
		for _, o := range part {
			t.Logf("%12d %12d client %d: %s", o.Call, o.Return, o.ClientId, one.DescribeOperation(o.Input, o.Output))
		}
	}
}
