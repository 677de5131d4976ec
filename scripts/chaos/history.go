package main

import (
	"sync"
	"time"
)

// history is what one session's writer was told: of a number that each
// operation makes one more, be it an increment, the length of a list that grows,
// or what a put writes. One writer works on a session,
// one operation after the other, each until it is acknowledged.
type history struct {
	mu      sync.Mutex
	acked   int64 // operations acknowledged
	value   int64 // the last one's answer
	at      time.Time
	since   time.Time // gaps are counted from here on
	longest time.Duration
	faults  faultCount
}

// faultCount is what must all be zero.
type faultCount struct {
	Lost, Doubled, Resurrected, Missing, Stale int
}

func (f faultCount) add(o faultCount) faultCount {
	return faultCount{f.Lost + o.Lost, f.Doubled + o.Doubled, f.Resurrected + o.Resurrected, f.Missing + o.Missing, f.Stale + o.Stale}
}

func (f faultCount) any() bool { return f != faultCount{} }

// ack notes that an operation was acknowledged with a value. Each is
// exactly one more than the one before: less is a write lost, more is one done
// twice.
func (h *history) ack(value int64, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch diff := value - h.value; {
	case diff < 1:
		h.faults.Lost += int(1 - diff)
	case diff > 1:
		h.faults.Doubled += int(diff - 1)
	}
	h.value = value
	h.acked++
	h.gap(now)
	h.at = now
}

// again notes what an operation answered that had been acknowledged with a value
// already, and was sent once more: the same.
func (h *history) again(first, second int64) {
	if first == second {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults.Doubled++
}

// emptied notes that the count begins again at 0.
func (h *history) emptied() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.value = 0
}

func (h *history) gap(now time.Time) {
	if from := later(h.at, h.since); !from.IsZero() {
		h.longest = max(h.longest, now.Sub(from))
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// begin starts to count gaps anew, and end returns the longest since: also one
// that has not ended.
func (h *history) begin(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since, h.longest = now, 0
}

func (h *history) end(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gap(now)
	return h.longest
}

// floor is the value that any read that begins now must show at least.
func (h *history) floor() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.value
}

// read notes what a read showed that began when the value was floor already.
func (h *history) read(floor, value int64) {
	if value < floor {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.faults.Stale++
	}
}

// missing notes that somebody said the session does not exist.
func (h *history) missing() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults.Missing++
}

// final compares with what the session holds when nobody writes any more. What
// is wrong is counted once: the writer goes on from what is there.
func (h *history) final(value int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case value < h.value:
		h.faults.Lost += int(h.value - value)
	case value > h.value:
		h.faults.Doubled += int(value - h.value)
	}
	h.value = value
}

// take returns the faults found since the last call, and the writes
// acknowledged.
func (h *history) take() (f faultCount, acked int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, acked = h.faults, h.acked
	h.faults, h.acked = faultCount{}, 0
	return f, acked
}
