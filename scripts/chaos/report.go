//go:build linux

package main

import (
	_ "embed"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/template"
	"time"

	"golang.org/x/sys/unix"
)

// outcome is what all repetitions of one fault in one mode have come to.
type outcome struct {
	fault   fault
	mode    mode
	total   tally
	gaps    []time.Duration
	promise time.Duration
	healed  time.Duration // the longest time until all agents were healthy again
	took    time.Duration // all repetitions together
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
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %d | %s | %s | %s | %s | %s |", o.fault.name, len(o.gaps), t.Acked,
		t.Lost, t.Doubled, t.Resurrected, t.Missing, t.Stale, short(o.median()), short(o.worst()), promised, short(o.healed), verdict)
}

func short(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// page is what the report's template gets.
type page struct {
	Agents, Rounds  int
	Sessions, Lists int
	Command         string
	Version, Go, OS string
	CPUs            int
	Took            time.Duration
	Modes           []section
	Acked           int64
	Deleted         int
	Sum             faultCount
	Rows, Broken    int
	Promises        []promised
	Missed          []string // promised gaps that were longer
}

// section is the table of one mode.
type section struct {
	Name, Partition, Durability string
	Rows                        []string
}

// promised is what the project promises of gaps, mode by mode.
type promised struct {
	Fault, Serve, Refuse, Disk string
}

//go:embed page.md.tmpl
var pageText string

func newPage(s settings, version string, all []*outcome) page {
	p := page{
		Agents: s.agents, Rounds: s.rounds, Sessions: perAgent * s.agents, Lists: listed, Command: s.command(),
		Version: version, Go: runtime.Version(), OS: kernel(), CPUs: runtime.NumCPU(),
	}
	for _, m := range modes() {
		sec := section{Name: m.name, Partition: m.partition, Durability: m.durability}
		for _, o := range all {
			if o.mode.name != m.name {
				continue
			}
			sec.Rows = append(sec.Rows, o.row())
			p.Acked, p.Deleted, p.Sum, p.Took = p.Acked+o.total.Acked, p.Deleted+o.total.Deleted, p.Sum.add(o.total.faultCount), p.Took+o.took
			p.Rows++
			if !o.kept() {
				p.Broken++
			}
			if o.promise > 0 && o.worst() > o.promise {
				p.Missed = append(p.Missed, fmt.Sprintf("%s, %s: %s instead of %s", m.name, o.fault.name, short(o.worst()), short(o.promise)))
			}
		}
		if len(sec.Rows) > 0 {
			p.Modes = append(p.Modes, sec)
		}
	}
	p.Took = p.Took.Round(time.Minute)
	for _, f := range faults() {
		if f.promise != nil {
			p.Promises = append(p.Promises, promised{f.name, short(f.promise["serve"]), short(f.promise["refuse"]), short(f.promise["disk"])})
		}
	}
	return p
}

// command is the make command that made the report.
func (s settings) command() string {
	c := fmt.Sprintf("make chaos ROUNDS=%d", s.rounds)
	if s.results != "" {
		return c // what is narrowed replaces a part of what the whole has found
	}
	for _, x := range []struct{ name, value string }{{"FAULT", s.fault.String()}, {"MODE", s.mode.String()}} {
		if x.value != "." {
			c += fmt.Sprintf(" %s='%s'", x.name, x.value)
		}
	}
	return c
}

// kernel is the name and release of the system, without the machine's own name.
func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return runtime.GOOS
	}
	release, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), "-")
	return unix.ByteSliceToString(u.Sysname[:]) + " " + release
}

func writeReport(w io.Writer, p page) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	return t.Execute(w, p)
}
