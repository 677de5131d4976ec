package proxy

import (
	"fmt"
	"testing"
	"time"
)

// comesUp makes one instance of a route come up at a moment.
func comesUp(i *instance, at time.Time, slow time.Duration) {
	i.SlowStart = slow
	i.seen, i.wasUsable = true, false
	i.cameUp(at)
	i.group.slowly(at.Add(slow))
}

// What comes up grows from little to its whole weight, in a straight line.
func TestSlowStart_grows(t *testing.T) {
	t.Parallel()
	rt := routeOver(RoundRobin, 100, 100)
	up := time.Now()
	comesUp(rt.active[0], up, 10*time.Second)
	for after, want := range map[time.Duration]float64{0: leastShare, time.Second: 0.1, 5 * time.Second: 0.5, 9 * time.Second: 0.9, 10 * time.Second: 1, time.Hour: 1} {
		if got := rt.active[0].share(up.Add(after)); got < want-0.001 || got > want+0.001 {
			t.Errorf("after %v its share is %v, not %v", after, got, want)
		}
	}
	if got := rt.active[1].share(up); got != 1 {
		t.Errorf("one that was up all the time has %v", got)
	}
}

// New clients come by the share, whatever the way they are spread.
func TestSlowStart_everyBalance(t *testing.T) {
	t.Parallel()
	for _, how := range []Balance{RoundRobin, WeightedRoundRobin, Random, LeastLoad, Hash} {
		for _, tc := range []struct {
			after time.Duration
			want  float64 // of three, one of which has this share
		}{{time.Second, 0.1}, {5 * time.Second, 0.5}, {10 * time.Second, 1}} {
			rt := routeOver(how, 100, 100, 100)
			up := time.Now()
			comesUp(rt.active[1], up, 10*time.Second)
			got := 0
			const clients = 6000
			for n := range clients {
				k := picker{now: up.Add(tc.after)}
				i := k.once(rt, rt.active, []byte(fmt.Sprint(n)), false)
				if how == LeastLoad {
					i.inFlight.Add(1) // where all are idle the least idle one gets nothing
				}
				if i == rt.active[1] {
					got++
				}
			}
			want := clients * tc.want / (2 + tc.want)
			if d := float64(got) - want; d < -220 || d > 220 {
				t.Errorf("%d: with a share of %v it got %d of %d, want %.0f", how, tc.want, got, clients, want)
			}
		}
	}
}

// A key that has gone over to the one that is growing stays there.
func TestSlowStart_keysReturnOnce(t *testing.T) {
	t.Parallel()
	rt := routeOver(Hash, 100, 100, 100)
	up := time.Now()
	comesUp(rt.active[2], up, 10*time.Second)
	back := map[int]bool{}
	for after := time.Duration(0); after <= 11*time.Second; after += time.Second {
		for n := range 1000 {
			k := picker{now: up.Add(after)}
			i := k.once(rt, rt.active, []byte(fmt.Sprint(n)), false)
			if back[n] && i != rt.active[2] {
				t.Fatalf("key %d left again", n)
			}
			back[n] = i == rt.active[2]
		}
	}
}

// Where all start slowly they do so relative to each other.
func TestSlowStart_allAtOnce(t *testing.T) {
	t.Parallel()
	for _, how := range []Balance{RoundRobin, WeightedRoundRobin, Random} {
		rt := routeOver(how, 100, 100, 100)
		up := time.Now()
		for _, i := range rt.active {
			comesUp(i, up, 10*time.Second)
		}
		count := map[string]int{}
		for range 3000 {
			k := picker{now: up}
			count[k.once(rt, rt.active, nil, false).ID]++
		}
		for id, n := range count {
			if n < 850 || n > 1150 {
				t.Errorf("%d: %s got %d of 3000", how, id, n)
			}
		}
	}
}

// Only what was down before comes up: neither what a proxy meets for the first
// time nor what stays healthy.
func TestSlowStart_whoComesUp(t *testing.T) {
	t.Parallel()
	p, err := New(Options{Config: routed(func(r *Route) {})})
	if err != nil {
		t.Fatal(err)
	}
	in := Instance{Service: "shop", ID: "a", Member: "m1", Addr: "127.0.0.1:1", Weight: 100, Health: Passing, SlowStart: time.Minute}
	share := func(health Health, maintenance bool) float64 {
		in.Health, in.Maintenance = health, maintenance
		p.SetInstances([]Instance{in})
		return p.snap.Load().any[0].group.members[0].share(time.Now())
	}
	for _, step := range []struct {
		name        string
		health      Health
		maintenance bool
		slow        bool
	}{
		{"met for the first time", Passing, false, false},
		{"a warning", Warning, false, false},
		{"a warning is over", Passing, false, false},
		{"critical", Critical, false, false},
		{"up again", Passing, false, true},
	} {
		if got := share(step.health, step.maintenance); (got < 1) != step.slow {
			t.Errorf("%s: share %v", step.name, got)
		}
	}
	b := p.snap.Load().any[0].group.members[0].backend
	b.up.Store(0)
	if share(Passing, true) != 1 || share(Passing, false) == 1 {
		t.Error("the end of maintenance is no slow start")
	}
}
