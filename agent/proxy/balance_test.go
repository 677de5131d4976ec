package proxy

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rondel-project/rondel/agent/member"
)

// routeOver makes a route over instances with these weights.
func routeOver(b Balance, weights ...int) *route {
	var list []*instance
	g := &group{}
	for n, w := range weights {
		in := Instance{Service: "s", ID: fmt.Sprintf("i%03d", n), Member: member.ID(fmt.Sprintf("m%03d", n)), Weight: w, Health: Passing}
		list = append(list, &instance{Instance: in, backend: newBackend(key{service: "s", member: in.Member, id: in.ID}, g, nil, 0, nil)})
	}
	rt := &route{Route: Route{Balance: b, HashBalance: 125}, turn: &turn{}, group: g}
	rt.over(list)
	return rt
}

// over makes these the route's instances.
func (rt *route) over(list []*instance) {
	rt.active, rt.spare, rt.limited, rt.reserve, rt.owners, rt.plan = nil, nil, nil, nil, nil, plan{}
	rt.sort(list)
	rt.prepare()
	rt.group.set(list)
}

func (rt *route) pickN(n int, position uint64) map[string]int {
	count := map[string]int{}
	for range n {
		k := picker{now: time.Now(), position: position}
		if i := k.once(rt, rt.active, nil, false); i != nil {
			count[i.ID]++
		}
	}
	return count
}

func TestBalance_roundRobinIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "instances")
		agents := rapid.IntRange(1, 9).Draw(t, "agents")
		each := rapid.IntRange(0, 100).Draw(t, "clients")
		total := map[string]int{}
		for a := range agents {
			rt := routeOver(RoundRobin, make1(n)...)
			for id, c := range rt.pickN(each, uint64(a)) {
				if c < each/n || c > each/n+1 {
					t.Fatalf("agent %d sent %d of %d to %s", a, c, each, id)
				}
				total[id] += c
			}
		}
		if each%n == 0 {
			for _, c := range total {
				if c != agents*each/n {
					t.Fatalf("%v", total)
				}
			}
		}
	})
}

func make1(n int) []int {
	w := make([]int, n)
	for i := range w {
		w[i] = 1
	}
	return w
}

func TestBalance_fewClientsOnManyAgents(t *testing.T) {
	t.Parallel()
	total := map[string]int{}
	for a := range 8 {
		for id, c := range routeOver(RoundRobin, 1, 1, 1, 1).pickN(1, uint64(a)) {
			total[id] += c
		}
	}
	for id, c := range total {
		if c != 2 {
			t.Errorf("%s got %d of 8", id, c)
		}
	}
}

// D-15: exact by weight, and smooth.
func TestBalance_weights(t *testing.T) {
	t.Parallel()
	rt := routeOver(WeightedRoundRobin, 5, 1, 1, 0)
	longest, run, prev := 0, 0, ""
	count := map[string]int{}
	for range 7000 {
		k := picker{now: time.Now()}
		i := k.once(rt, rt.active, nil, false)
		count[i.ID]++
		if i.ID == prev {
			run++
		} else {
			run = 1
		}
		prev, longest = i.ID, max(longest, run)
	}
	if count["i000"] != 5000 || count["i001"] != 1000 || count["i002"] != 1000 || count["i003"] != 0 {
		t.Errorf("%v", count)
	}
	if longest >= 5 {
		t.Errorf("%d in a row", longest)
	}
}

func TestBalance_leastLoad(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 8, 40} {
		rt := routeOver(LeastLoad, make1(n)...)
		for range 10 * n {
			k := picker{now: time.Now()}
			k.once(rt, rt.active, nil, false).inFlight.Add(1)
		}
		for _, i := range rt.active {
			if got := i.inFlight.Load(); n <= fewEnough && got != 10 || got > 20 {
				t.Errorf("of %d, %s got %d", n, i.ID, got)
			}
		}
	}
	rt := routeOver(LeastLoad, 1, 1)
	rt.active[0].report(&Instance{Load: 3})
	if got := rt.pickN(10, 0)["i001"]; got != 10 {
		t.Errorf("others' load was ignored: %d", got)
	}
}

// D-16: the same on every agent, little moves, and what moved returns.
// What applications say of their load counts as if their weight were less.
func TestBalance_leastLoadHeedsApplications(t *testing.T) {
	t.Parallel()
	rt := routeOver(LeastLoad, 100, 100, 100)
	rt.active[1].report(&Instance{Load: 0.5})
	rt.active[2].report(&Instance{Load: 7}) // more than full: nonsense, and yet no reason to send nothing
	count := map[string]int{}
	for range 123 {
		k := picker{now: time.Now()}
		i := k.once(rt, rt.active, nil, false)
		i.inFlight.Add(1)
		count[i.ID]++
	}
	if a, b, c := count["i000"], count["i001"], count["i002"]; a < 2*b-2 || a > 2*b+2 || c < 2 || c > 6 {
		t.Errorf("idle, half and full got %d, %d and %d", a, b, c)
	}
}

func TestBalance_hash(t *testing.T) {
	t.Parallel()
	rt, again, fewer := routeOver(Hash, 1, 1, 1, 1), routeOver(Hash, 1, 1, 1, 1), routeOver(Hash, 1, 1, 1, 1)
	fewer.over(fewer.active[1:])
	count := map[string]int{}
	moved := 0
	for n := range 4000 {
		hashKey := []byte(fmt.Sprint("key", n))
		pick := func(rt *route) string {
			k := picker{now: time.Now()}
			return k.once(rt, rt.active, hashKey, false).ID
		}
		a := pick(rt)
		count[a]++
		if b := pick(again); a != b {
			t.Fatalf("%s: %s and %s", hashKey, a, b)
		}
		if c := pick(fewer); c != a {
			moved++
			if a != "i000" {
				t.Fatalf("%s moved from %s to %s", hashKey, a, c)
			}
		}
	}
	for id, c := range count {
		if math.Abs(float64(c)-1000) > 150 {
			t.Errorf("%s got %d of 4000", id, c)
		}
	}
	if moved != count["i000"] {
		t.Errorf("%d moved", moved)
	}
	if got := rt.pickN(400, 0); got["i000"] != 100 || got["i003"] != 100 {
		t.Errorf("without a key: %v", got)
	}
}

func TestBalance_weightedHash(t *testing.T) {
	t.Parallel()
	rt := routeOver(Hash, 3, 1)
	count := 0
	for n := range 4000 {
		k := picker{now: time.Now()}
		if k.once(rt, rt.active, []byte(fmt.Sprint(n)), false).ID == "i000" {
			count++
		}
	}
	if count < 2850 || count > 3150 {
		t.Errorf("%d of 4000 for a weight of 3 in 4", count)
	}
}

func TestBalance_suspectsComeLast(t *testing.T) {
	t.Parallel()
	for _, b := range []Balance{RoundRobin, WeightedRoundRobin, Random, LeastLoad, Hash} {
		rt := routeOver(b, 1, 1, 1)
		now := time.Now()
		rt.active[0].avoid(now.Add(suspicion))
		k := picker{now: now}
		for range 20 {
			if i := k.once(rt, rt.active, []byte("k"), false); i == nil || i == rt.active[0] {
				t.Fatalf("%d: took %v", b, i)
			}
		}
		k.tried = append(k.tried, rt.active[1:]...)
		if i := k.once(rt, rt.active, nil, false); i != nil {
			t.Errorf("%d: took a suspect", b)
		}
		if i := k.once(rt, rt.active, nil, true); i != rt.active[0] {
			t.Errorf("%d: left out the last one", b)
		}
		if !rt.active[0].suspected(now.Add(999*time.Millisecond)) || rt.active[0].suspected(now.Add(suspicion)) {
			t.Error("suspicion does not last a second")
		}
	}
}

func TestRoute_tiers(t *testing.T) {
	t.Parallel()
	type in struct{ local, backup, draining, critical bool }
	for name, tc := range map[string]struct {
		local         bool
		list          []in
		active, spare string // lists are parted by a stroke
	}{
		"plain":              {false, []in{{}, {}}, "01", ""},
		"backup waits":       {false, []in{{}, {backup: true}}, "0", "1"},
		"backup steps in":    {false, []in{{critical: true}, {backup: true}}, "1", ""},
		"not for a drain":    {false, []in{{draining: true}, {backup: true}}, "", ""},
		"local first":        {true, []in{{}, {local: true}, {local: true, backup: true}}, "1", "0|2"},
		"others when no one": {true, []in{{}, {local: true, critical: true}}, "0", ""},
		"each list in turn":  {true, []in{{local: true}, {backup: true}, {}, {local: true, backup: true}, {}}, "0", "24|3|1"},
		"not asked for":      {false, []in{{}, {local: true}}, "01", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var list []*instance
			for n, i := range tc.list {
				x := Instance{ID: fmt.Sprint(n), Weight: 1, Health: Passing, Local: i.local, Backup: i.backup, Draining: i.draining}
				if i.critical {
					x.Health = Critical
				}
				list = append(list, &instance{Instance: x, backend: &backend{}})
			}
			rt := &route{Route: Route{Local: tc.local}}
			rt.sort(list)
			names := func(l []*instance) (s string) {
				for _, i := range l {
					s += i.ID
				}
				return s
			}
			var spare []string
			for _, l := range rt.spare {
				spare = append(spare, names(l))
			}
			if got := strings.Join(spare, "|"); names(rt.active) != tc.active || got != tc.spare {
				t.Errorf("active %q, spare %q", names(rt.active), got)
			}
		})
	}
}

func FuzzCookie(f *testing.F) {
	for _, s := range []string{"", ".", "a.b", "v1~1~1~x.abcdefghijk", "x.abcdefghijk"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		id, tag := splitCookie(v)
		if len(tag) != 0 && len(tag) != tagLen || len(id)+len(tag) > len(v) {
			t.Errorf("%q: %q and %q", v, id, tag)
		}
		c := readCookie(newSessions(), v)
		if (c.standing == known) != (c.id != "") {
			t.Errorf("%q: %+v", v, c)
		}
	})
}
