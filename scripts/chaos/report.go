//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// outcome is what all repetitions of one fault in one mode have come to.
type outcome struct {
	fault   fault
	mode    mode
	total   tally
	gaps    []time.Duration
	promise time.Duration
	err     error
}

func (o *outcome) worst() time.Duration {
	if len(o.gaps) == 0 {
		return 0
	}
	return slices.Max(o.gaps)
}

func (o *outcome) median() time.Duration {
	if len(o.gaps) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(o.gaps))
	return s[len(s)/2]
}

// kept reports whether everything that is promised was so.
func (o *outcome) kept() bool {
	return o.err == nil && !o.total.any() && (o.promise == 0 || o.worst() <= o.promise)
}

const header = `| mode | fault | runs | acknowledged | lost | doubled | resurrected | false 404 | stale | gap, median | gap, worst | promised | kept |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
`

func (o *outcome) row() string {
	promised, verdict := "", "yes"
	if o.promise > 0 {
		promised = short(o.promise)
	}
	if !o.kept() {
		verdict = "**no**"
		if o.err != nil {
			verdict += ": " + strings.ReplaceAll(o.err.Error(), "|", "/")
		}
	}
	t := o.total
	return fmt.Sprintf("| %s | %s | %d | %d | %d | %d | %d | %d | %d | %s | %s | %s | %s |\n", o.mode.name, o.fault.name, len(o.gaps),
		t.Acked, t.Lost, t.Doubled, t.Resurrected, t.Missing, t.Stale, short(o.median()), short(o.worst()), promised, verdict)
}

func short(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func writeReport(w io.Writer, all []*outcome, agents int) error {
	var b strings.Builder
	b.WriteString("# Faults and what they cost\n\n")
	fmt.Fprintf(&b, "Made by `make chaos`: %d agents as processes in network namespaces of one machine with 2 cores, writers and readers beside them.\n", agents)
	b.WriteString(`Each writer works on one session, increments a number, and sends each increment again with its Idempotency-Key until it is acknowledged,
through agents that the fault does not strike; another makes sessions and deletes them. When the cluster is healthy again every agent is asked for
every session: an increment that is missing is lost, one too many is doubled, a deleted session that answers is resurrected.
The gap is the longest time in which no write to one of the struck member's sessions was acknowledged.

`)
	b.WriteString("`make chaos` takes some 12 minutes, as root; ROUNDS, FAULT and MODE (regular expressions) narrow or repeat it, REPORT names a file for this page.\n\n")
	b.WriteString(header)
	var acked int64
	var sum faultCount
	broken := 0
	for _, o := range all {
		b.WriteString(o.row())
		acked, sum = acked+o.total.Acked, sum.add(o.total.faultCount)
		if !o.kept() {
			broken++
		}
	}
	fmt.Fprintf(&b, "\n%d acknowledged writes: %d lost, %d doubled; %d deleted sessions came back; %d false 404; %d stale reads. %d of %d rows broke a promise.\n",
		acked, sum.Lost, sum.Doubled, sum.Resurrected, sum.Missing, sum.Stale, broken, len(all))
	_, err := io.WriteString(w, b.String())
	return err
}
