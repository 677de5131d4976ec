package load_test

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondel-project/rondel/agent/load"
	"github.com/rondel-project/rondel/internal/leaktest"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func draw(rt *rapid.T, name string) load.Load {
	return load.Load{
		CPU:         rapid.Float64Range(0, 1).Draw(rt, name+" cpu"),
		InFlight:    rapid.IntRange(0, 5000).Draw(rt, name+" in flight"),
		RequestRate: rapid.Float64Range(0, 1e6).Draw(rt, name+" rate"),
	}
}

func TestLoad_roundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		in := draw(rt, "load")
		b, err := in.MarshalBinary()
		if err != nil {
			rt.Fatal(err)
		}
		var out load.Load
		if err := out.UnmarshalBinary(b); err != nil {
			rt.Fatal(err)
		}
		if math.Abs(in.CPU-out.CPU) > 1e-4 || in.InFlight != out.InFlight || math.Abs(in.RequestRate-out.RequestRate) > 0.1 {
			rt.Fatalf("%+v became %+v", in, out)
		}
	})
}

func TestLoad_oddValues(t *testing.T) {
	t.Parallel()
	b, err := load.Load{CPU: math.NaN(), InFlight: -1, RequestRate: math.Inf(1)}.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var out load.Load
	if err := out.UnmarshalBinary(b); err != nil || out.CPU != 0 || out.InFlight != 0 || out.RequestRate < 1e6 {
		t.Fatalf("%v %+v", err, out)
	}
}

func TestCompare_isAnOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		a, b, c := draw(rt, "a"), draw(rt, "b"), draw(rt, "c")
		sign := func(n int) int { return max(-1, min(1, n)) }
		if sign(load.Compare(a, b)) != -sign(load.Compare(b, a)) {
			rt.Fatal("not antisymmetric")
		}
		if load.Compare(a, b) <= 0 && load.Compare(b, c) <= 0 && load.Compare(a, c) > 0 {
			rt.Fatal("not transitive")
		}
	})
	if load.Compare(load.Load{CPU: 0.51, InFlight: 1}, load.Load{CPU: 0.5, InFlight: 2}) >= 0 {
		t.Error("a hundredth of the machine outweighs requests")
	}
	if load.Compare(load.Load{CPU: 0.9, InFlight: 1}, load.Load{CPU: 0.5, InFlight: 2}) <= 0 {
		t.Error("a busy machine is taken for a lighter one")
	}
}

func TestDiffers(t *testing.T) {
	t.Parallel()
	a := load.Load{CPU: 0.5, InFlight: 100, RequestRate: 1000}
	for name, tc := range map[string]struct {
		b    load.Load
		want bool
	}{
		"same":        {a, false},
		"noise":       {load.Load{CPU: 0.51, InFlight: 101, RequestRate: 1001}, false},
		"processor":   {load.Load{CPU: 0.6, InFlight: 100, RequestRate: 1000}, true},
		"in flight":   {load.Load{CPU: 0.5, InFlight: 0, RequestRate: 1000}, true},
		"all stopped": {load.Load{}, true},
	} {
		if got := load.Differs(a, tc.b); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAverage_halfLife(t *testing.T) {
	t.Parallel()
	a := load.Average{HalfLife: 3 * time.Second}
	now := time.Unix(1000, 0)
	a.Add(1, now)
	if got := a.Add(0, now.Add(3*time.Second)); math.Abs(got-0.5) > 1e-9 {
		t.Errorf("after one half-life: %v", got)
	}
	// Finer steps decay as coarse ones do.
	b := load.Average{HalfLife: 3 * time.Second}
	b.Add(1, now)
	for i := range 30 {
		b.Add(0, now.Add(time.Duration(i+1)*100*time.Millisecond))
	}
	if math.Abs(b.Value()-0.5) > 1e-9 {
		t.Errorf("in steps: %v", b.Value())
	}
}

func TestSampler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var broken atomic.Bool
		var told []error
		s := load.NewSampler(
			func() (int, uint64) { return 7, uint64(100 * time.Since(start).Seconds()) },
			func(context.Context) (float64, float64, error) {
				if broken.Load() {
					return 0, 0, errors.New("no times")
				}
				up := time.Since(start).Seconds()
				return up / 4, up * 3 / 4, nil
			},
			func(err error) { told = append(told, err) },
		)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(20500 * time.Millisecond)
		l := s.Load()
		if math.Abs(l.CPU-0.25) > 0.01 || l.InFlight != 7 || math.Abs(l.RequestRate-100) > 1 {
			t.Errorf("%+v", l)
		}
		broken.Store(true)
		time.Sleep(5 * time.Second)
		broken.Store(false)
		time.Sleep(5 * time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(told) != 2 || told[0] == nil || told[1] != nil {
			t.Errorf("told %v", told)
		}
	})
}

func TestSystemTimes(t *testing.T) {
	t.Parallel()
	busy, idle, err := load.SystemTimes(t.Context())
	if err != nil || busy+idle <= 0 {
		t.Fatal(busy, idle, err)
	}
}

func FuzzLoad(f *testing.F) {
	b, _ := load.Load{CPU: 0.5, InFlight: 3, RequestRate: 10}.MarshalBinary()
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var l load.Load
		if l.UnmarshalBinary(b) == nil && (l.CPU < 0 || l.CPU > 1 || l.InFlight < 0) {
			t.Fatalf("%+v", l)
		}
	})
}
