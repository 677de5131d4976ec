package load

import (
	"math/bits"
	"time"
)

// Histogram counts durations to within 1.6 %, from 1 µs to hours.
type Histogram struct {
	Counts []uint64
}

// fine is how many bits a duration is kept to.
const fine = 6

// place is where a duration is counted: linear below 2^fine µs, then 2^fine steps
// for each doubling.
func place(d time.Duration) int {
	us := uint64(max(d, 0) / time.Microsecond)
	e := bits.Len64(us >> fine)
	return e<<fine + int(us>>max(e-1, 0)&(1<<fine-1))
}

// floor is the shortest duration that is counted at i.
func floor(i int) time.Duration {
	e, m := i>>fine, uint64(i&(1<<fine-1))
	if e > 0 {
		m = (m | 1<<fine) << (e - 1)
	}
	return time.Duration(m) * time.Microsecond
}

// Record counts d.
func (h *Histogram) Record(d time.Duration) {
	i := place(d)
	if i >= len(h.Counts) {
		h.Counts = append(h.Counts, make([]uint64, i+1-len(h.Counts))...)
	}
	h.Counts[i]++
}

// Add adds what another one has counted.
func (h *Histogram) Add(o *Histogram) {
	if n := len(o.Counts) - len(h.Counts); n > 0 {
		h.Counts = append(h.Counts, make([]uint64, n)...)
	}
	for i, n := range o.Counts {
		h.Counts[i] += n
	}
}

// Quantile returns the duration that a share q of what was counted is not above.
func (h *Histogram) Quantile(q float64) time.Duration {
	var all, sum uint64
	for _, n := range h.Counts {
		all += n
	}
	for i, n := range h.Counts {
		if sum += n; n > 0 && float64(sum) >= q*float64(all) {
			return (floor(i) + floor(i+1)) / 2
		}
	}
	return 0
}
