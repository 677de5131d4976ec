package load

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestHistogram_quantilesAreNearTheTrueOnes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Int64Range(0, int64(time.Hour)), 1, 200).Draw(t, "durations")
		q := rapid.Float64Range(0.01, 1).Draw(t, "quantile")
		var a, b Histogram
		for i, d := range all {
			h := &a
			if i%2 == 1 {
				h = &b
			}
			h.Record(time.Duration(d))
		}
		a.Add(&b)
		slices.Sort(all)
		i := 0
		for float64(i+1) < q*float64(len(all)) {
			i++
		}
		want, got := time.Duration(all[i]), a.Quantile(q)
		if off := (got - want).Abs(); off > want/64+time.Microsecond {
			t.Fatalf("quantile %v of %v: %v, not %v", q, all, got, want)
		}
	})
}

func TestHistogram_placesFollowEachOther(t *testing.T) {
	t.Parallel()
	for i := range 1500 {
		if at := place(floor(i)); at != i {
			t.Fatalf("floor of place %d is %v, which belongs to place %d", i, floor(i), at)
		}
		if i > 0 && floor(i) <= floor(i-1) {
			t.Fatalf("places %d and %d begin at %v and %v", i-1, i, floor(i-1), floor(i))
		}
	}
	if got := (&Histogram{}).Quantile(0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
