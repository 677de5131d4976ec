package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// outcome is what came of one request.
type outcome struct {
	planned
	began, ended time.Time
	why          string // it failed; empty: a good answer
	name         string // of the instance that answered
	counter      int    // that it told, with sessions
	floor        int    // what had been acknowledged to the client before it began
}

// story is all that happened in a run.
type story struct {
	outcomes []outcome
	homes    []string       // of each client
	dead     string         // the instance that was killed
	gone     time.Time      // when it certainly was
	runs     map[string]int // how often instances began a POST, by key
	counters []int          // of each client afterwards; nil without sessions; -1: its session is gone
}

// count is what a story amounts to.
type count struct {
	sent, posts             int
	failedGETs              int
	failedSent, failedOther int // POSTs that may have reached an instance before it was gone, and others
	twice                   int // POSTs run more than once
	slowest                 time.Duration
	slow                    int // good answers after more than 250 ms
	last                    time.Duration
	moved                   int // clients of living instances that came to another one
	kinds                   map[string]int
	// With sessions:
	lost  int // acknowledged additions that are not there
	gone  int // sessions that are no more
	stale int // answers that told less than had been acknowledged before
	kept  bool
}

// tell counts a story.
func tell(s *story) count {
	c := count{sent: len(s.outcomes), kinds: map[string]int{}, kept: s.counters != nil}
	acknowledged := make([]int, len(s.homes))
	moved := map[int]bool{}
	for i := range s.outcomes {
		o := &s.outcomes[i]
		if o.key != "" {
			c.posts++
		}
		if o.why != "" {
			c.kinds[o.why]++
			c.last = max(c.last, o.ended.Sub(s.gone))
			switch {
			case o.key == "":
				c.failedGETs++
			case s.runs[o.key] > 0 || o.began.Before(s.gone):
				c.failedSent++
			default:
				c.failedOther++
			}
			continue
		}
		took := o.ended.Sub(o.began)
		c.slowest = max(c.slowest, took)
		if took > slow {
			c.slow++
		}
		if home := s.homes[o.client]; home != s.dead && o.name != home {
			moved[o.client] = true
		}
		if o.key != "" {
			acknowledged[o.client]++
		}
		if c.kept && o.counter < o.floor {
			c.stale++
		}
	}
	c.moved = len(moved)
	for _, n := range s.runs {
		if n > 1 {
			c.twice++
		}
	}
	for i, n := range s.counters {
		if n < 0 {
			c.gone++
			n = 0
		}
		c.lost += max(0, acknowledged[i]-n)
	}
	return c
}

// slow is what no answer should take.
const slow = 250 * time.Millisecond

// broken are the promises of Rondel that a run has not kept.
func (c *count) broken() (out []string) {
	for _, p := range []struct {
		n    int
		what string
	}{
		{c.failedGETs, "failed GETs"}, {c.twice, "POSTs run twice"}, {c.failedOther, "failed POSTs that had not been sent"},
		{c.slow, "answers after more than 250 ms"}, {c.moved, "clients of living instances moved"},
		{c.lost, "acknowledged additions lost"}, {c.gone, "sessions gone"}, {c.stale, "answers behind what was acknowledged"},
	} {
		if p.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if !c.kept {
		out = append(out, "no sessions were kept")
	}
	return out
}

func (c *count) String() string {
	s := fmt.Sprintf("%d sent, failed: %d GETs, %d POSTs already sent, %d others; %d run twice; slowest %.0f ms, %d over 250 ms; %d moved; last failure after %.2f s",
		c.sent, c.failedGETs, c.failedSent, c.failedOther, c.twice, float64(c.slowest)/1e6, c.slow, c.moved, c.last.Seconds())
	if c.kept {
		s += fmt.Sprintf("; sessions: %d additions lost, %d gone, %d answers behind", c.lost, c.gone, c.stale)
	}
	var kinds []string
	for kind, n := range c.kinds {
		kinds = append(kinds, fmt.Sprintf("%d × %s", n, kind))
	}
	slices.Sort(kinds)
	if len(kinds) > 0 {
		s += " (" + strings.Join(kinds, ", ") + ")"
	}
	return s
}

// table is what was counted of each peer in all its runs.
func table(peers []string, runs map[string][]count) string {
	var b strings.Builder
	b.WriteString("| proxy | GETs failed | POSTs failed that had been sent | other POSTs failed | POSTs run twice | slowest good answer, ms | clients of the living moved | last failure, s | session contents lost |\n")
	b.WriteString("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, p := range peers {
		cs := runs[p]
		if len(cs) == 0 {
			continue
		}
		cell := func(of func(*count) string) string {
			var all []string
			for i := range cs {
				all = append(all, of(&cs[i]))
			}
			return strings.Join(all, " / ")
		}
		n := func(of func(*count) int) string { return cell(func(c *count) string { return fmt.Sprint(of(c)) }) }
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", p,
			n(func(c *count) int { return c.failedGETs }), n(func(c *count) int { return c.failedSent }), n(func(c *count) int { return c.failedOther }),
			n(func(c *count) int { return c.twice }), n(func(c *count) int { return int(c.slowest.Milliseconds()) }), n(func(c *count) int { return c.moved }),
			cell(func(c *count) string {
				if len(c.kinds) == 0 {
					return "–"
				}
				return fmt.Sprintf("%.2f", max(0, c.last.Seconds()))
			}),
			cell(func(c *count) string {
				if !c.kept {
					return "none kept"
				}
				return fmt.Sprint(c.lost + c.gone + c.stale)
			}))
	}
	return b.String()
}
