package demo

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/demo/load"
	"github.com/rondel-project/rondel/command/term"
)

// result is what the self test prints. Its names are stable.
type result struct {
	Passed             bool
	Sessions           int
	AcknowledgedWrites int
	UnknownWrites      int // never acknowledged: each may have happened or not
	SessionsLost       int
	SessionsUnread     int // could not be read in the end
	WritesLost         int // acknowledged ones
	AppliedTwice       int
	StaleReads         int // showed less than was acknowledged before
	Requests           int
	FailedRequests     int
	Failures           map[string]int // what was wrong with them
	GivenUp            int            // operations
	LongestGap         gaps
	Phases             []phase
	Events             []event
}

type gaps struct{ Read, Write api.Duration }

type phase struct {
	Name   string
	Reads  figures
	Writes figures
}

type figures struct {
	Requests   int
	Failed     int
	GivenUp    int
	LongestGap api.Duration
}

type event struct {
	At   api.Duration // since the load began
	What string
}

func resultOf(r load.Report, events []event) result {
	reads, writes := r.Reads(), r.Writes()
	out := result{
		Passed: r.Clean(), Sessions: r.Sessions, AcknowledgedWrites: r.Acknowledged, UnknownWrites: r.Unknown,
		SessionsLost: r.Verdict.SessionsLost, SessionsUnread: r.Unread, WritesLost: r.Verdict.WritesLost, AppliedTwice: r.Verdict.AppliedTwice, StaleReads: r.Verdict.StaleReads,
		Requests: reads.Requests + writes.Requests, FailedRequests: reads.Failed + writes.Failed, GivenUp: reads.GivenUp + writes.GivenUp,
		LongestGap: gaps{milliseconds(reads.LongestGap), milliseconds(writes.LongestGap)},
		Failures:   map[string]int{}, Phases: []phase{}, Events: term.List(events),
	}
	maps.Copy(out.Failures, r.Reasons)
	for _, p := range r.Phases {
		out.Phases = append(out.Phases, phase{p.Name, figuresOf(p.Reads), figuresOf(p.Writes)})
	}
	return out
}

func figuresOf(f load.Figures) figures {
	return figures{f.Requests, f.Failed, f.GivenUp, milliseconds(f.LongestGap)}
}

func milliseconds(d time.Duration) api.Duration { return api.Duration(d.Round(time.Millisecond)) }

func phaseTable(phases []phase) *term.Table {
	t := term.NewTable("Phase", "Reads", "Failed", "Longest gap", "Writes", "Failed", "Longest gap")
	for _, p := range phases {
		t.Row(p.Name, p.Reads.Requests, p.Reads.Failed, p.Reads.LongestGap, p.Writes.Requests, p.Writes.Failed, p.Writes.LongestGap)
	}
	return t
}

// write prints the tables for people.
func (r result) write(w io.Writer) error {
	if err := phaseTable(r.Phases).Write(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t := term.NewTable()
	t.Row("Sessions", r.Sessions)
	t.Row("Writes acknowledged", r.AcknowledgedWrites)
	t.Row("Sessions lost", r.SessionsLost)
	t.Row("Sessions unreadable in the end", r.SessionsUnread)
	t.Row("Acknowledged writes lost", r.WritesLost)
	t.Row("Operations applied twice", r.AppliedTwice)
	t.Row("Reads that showed an older state", r.StaleReads)
	t.Row("Failed requests", fmt.Sprintf("%d of %d", r.FailedRequests, r.Requests+r.FailedRequests))
	for _, why := range slices.Sorted(maps.Keys(r.Failures)) {
		t.Row("  "+why, r.Failures[why])
	}
	t.Row("Operations given up", r.GivenUp)
	t.Row("Writes with unknown outcome", r.UnknownWrites)
	t.Row("Longest gap, read", r.LongestGap.Read)
	t.Row("Longest gap, write", r.LongestGap.Write)
	if err := t.Write(w); err != nil {
		return err
	}
	verdict := "Nothing acknowledged was lost, and nothing happened twice."
	if !r.Passed {
		verdict = "FAILED: see the lines above that should be 0."
	}
	_, err := fmt.Fprintf(w, "\n%s\n", verdict)
	return err
}
