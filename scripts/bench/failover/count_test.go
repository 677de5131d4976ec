package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPlan_requests(t *testing.T) {
	t.Parallel()
	p := plan{rate: 500, clients: 60, each: 14 * time.Second}
	all := p.requests()
	if len(all) != 7000 || all[1].at != 2*time.Millisecond || all[6999].at != 13998*time.Millisecond {
		t.Fatalf("%d requests, the second at %v", len(all), all[1].at)
	}
	keys, posts, gets := map[string]bool{}, map[int]int{}, map[int]int{}
	for _, q := range all {
		if q.key == "" {
			gets[q.client]++
			continue
		}
		posts[q.client]++
		if keys[q.key] {
			t.Fatalf("key %s twice", q.key)
		}
		keys[q.key] = true
	}
	if len(keys) != 1400 {
		t.Errorf("%d POSTs of %d requests", len(keys), len(all))
	}
	for c := range 60 {
		if posts[c] < 20 || gets[c] < 80 {
			t.Errorf("client %d has %d POSTs and %d GETs", c, posts[c], gets[c])
		}
	}
}

// told is a story of three clients at three instances, the second of which dies at 3 s.
func told(outcomes ...outcome) *story {
	return &story{outcomes: outcomes, homes: []string{"b001", "b002", "b003"}, dead: "b002", gone: at(3000), runs: map[string]int{}}
}

func at(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }

func did(client int, key string, from, took int, name, why string) outcome {
	return outcome{planned: planned{client: client, key: key}, began: at(from), ended: at(from + took), name: name, why: why}
}

func TestTell_failures(t *testing.T) {
	t.Parallel()
	s := told(
		did(0, "", 0, 10, "b001", ""),
		did(0, "", 3100, 10, "", "status 502"),
		did(0, "k1", 2995, 10, "", "status 502"),        // under way when it died
		did(1, "k2", 3100, 10, "", "status 502"),        // sent to nobody
		did(1, "k3", 3100, 20, "", "connection closed"), // but this one was run
		did(1, "k4", 3200, 700, "b003", ""),
		did(2, "k5", 3200, 20, "b003", ""),
	)
	s.runs = map[string]int{"k3": 1, "k4": 1, "k5": 2}
	c := tell(s)
	if c.sent != 7 || c.posts != 5 || c.failedGETs != 1 || c.failedSent != 2 || c.failedOther != 1 || c.twice != 1 {
		t.Errorf("%+v", c)
	}
	if c.slowest != 700*time.Millisecond || c.slow != 1 || c.last != 120*time.Millisecond {
		t.Errorf("slowest %v, slow %d, last %v", c.slowest, c.slow, c.last)
	}
	if want := map[string]int{"status 502": 3, "connection closed": 1}; !maps.Equal(c.kinds, want) {
		t.Errorf("%v", c.kinds)
	}
	want := []string{"1 failed GETs", "1 POSTs run twice", "1 failed POSTs that had not been sent", "1 answers after more than 250 ms", "no sessions were kept"}
	if got := c.broken(); !slices.Equal(got, want) {
		t.Errorf("broken %q, want %q", got, want)
	}
}

func TestTell_moved(t *testing.T) {
	t.Parallel()
	c := tell(told(
		did(0, "", 3100, 10, "b003", ""), did(0, "", 3200, 10, "b003", ""), // of the living, moved once
		did(1, "", 3100, 10, "b001", ""), // of the dead
		did(2, "", 3100, 10, "b003", ""),
	))
	if c.moved != 1 {
		t.Errorf("%d moved", c.moved)
	}
}

func TestTell_sessions(t *testing.T) {
	t.Parallel()
	behind := did(0, "", 3300, 10, "b001", "")
	behind.floor, behind.counter = 2, 1
	level := behind
	level.counter = 3
	s := told(
		did(0, "k1", 0, 10, "b001", ""), did(0, "k2", 3100, 10, "b001", ""), did(0, "k3", 3200, 10, "", "status 502"),
		did(1, "k4", 0, 10, "b002", ""), did(1, "k5", 3100, 10, "b003", ""), did(2, "k6", 0, 10, "b003", ""),
		behind, level,
	)
	for _, c := range []struct {
		counters          []int
		lost, gone, stale int
	}{
		{[]int{2, 2, 1}, 0, 0, 1},
		{[]int{3, 2, 1}, 0, 0, 1}, // the failed one may count
		{[]int{1, 2, 1}, 1, 0, 1},
		{[]int{2, -1, 1}, 2, 1, 1},
		{nil, 0, 0, 0},
	} {
		s.counters = c.counters
		got := tell(s)
		if got.lost != c.lost || got.gone != c.gone || got.stale != c.stale || got.kept != (c.counters != nil) {
			t.Errorf("%v: %d lost, %d gone, %d stale", c.counters, got.lost, got.gone, got.stale)
		}
	}
}

func TestTell_allWell(t *testing.T) {
	t.Parallel()
	s := told(did(0, "k1", 0, 10, "b001", ""), did(1, "", 3100, 200, "b001", ""))
	s.counters = []int{1, 0, 0}
	c := tell(s)
	if bad := c.broken(); len(bad) > 0 {
		t.Errorf("%q", bad)
	}
	if s := c.String(); !strings.Contains(s, "2 sent") || !strings.Contains(s, "0 additions lost") {
		t.Error(s)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	well := tell(told(did(0, "", 0, 42, "b001", "")))
	bad := tell(told(did(0, "", 4000, 500, "", "status 502")))
	kept := well
	kept.kept = true
	got := table([]string{"a", "b", "c"}, map[string][]count{"a": {well, bad}, "b": {kept}})
	for _, line := range []string{"| a | 0 / 1 | 0 / 0 | 0 / 0 | 0 / 0 | 42 / 0 | 0 / 0 | – / 1.50 | none kept / none kept |", "| b | 0 | 0 | 0 | 0 | 42 | 0 | – | 0 |"} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("%q is not in\n%s", line, got)
		}
	}
	if strings.Contains(got, "| c |") {
		t.Error("a row of a proxy that did not run")
	}
}

func TestKeys_inAnyPieces(t *testing.T) {
	t.Parallel()
	k := &keys{}
	for _, s := range []string{"k1\nk", "2\nk1", "\nk3"} {
		fmt.Fprint(k, s)
	}
	sum := map[string]int{"k2": 1}
	k.addTo(sum)
	if want := map[string]int{"k1": 2, "k2": 2}; !maps.Equal(sum, want) { // k3 was not written to its end
		t.Errorf("%v", sum)
	}
}
