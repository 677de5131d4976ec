package main

import (
	"testing"
	"time"
)

func TestHistory_findsWhatIsWrong(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		do   func(h *history)
		want faultCount
	}{
		"all well": {func(h *history) { h.ack(2, now); h.read(2, 3); h.final(2) }, faultCount{}},
		"an acknowledged write lost at a failover": {func(h *history) { h.ack(1, now) }, faultCount{Lost: 1}},
		"lost at the end":                          {func(h *history) { h.ack(2, now); h.final(1) }, faultCount{Lost: 1}},
		"done twice":                               {func(h *history) { h.ack(3, now) }, faultCount{Doubled: 1}},
		"done once more late":                      {func(h *history) { h.ack(2, now); h.final(3) }, faultCount{Doubled: 1}},
		"one too many, seen through two agents":    {func(h *history) { h.final(2); h.final(2); h.ack(3, now) }, faultCount{Doubled: 1}},
		"a read of the past":                       {func(h *history) { h.read(1, 0) }, faultCount{Stale: 1}},
		"an operation answered once more":          {func(h *history) { h.ack(2, now); h.again(2, 2); h.emptied(); h.ack(1, now) }, faultCount{}},
		"answered otherwise the second time":       {func(h *history) { h.ack(2, now); h.again(2, 3) }, faultCount{Doubled: 1}},
		"not found":                                {func(h *history) { h.missing() }, faultCount{Missing: 1}},
	} {
		h := &history{}
		h.ack(1, now)
		tc.do(h)
		if got, _ := h.take(); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestHistory_gaps(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	h := &history{}
	h.ack(1, at(0))
	h.ack(2, at(5000)) // before the fault
	h.begin(at(5010))
	h.ack(3, at(5020))
	h.ack(4, at(5720))
	if got := h.end(at(5800)); got != 700*time.Millisecond {
		t.Errorf("longest gap %v, want 700ms", got)
	}
	if got := h.end(at(9000)); got != 3280*time.Millisecond {
		t.Errorf("a gap that goes on is %v, want 3.28s", got)
	}
}
