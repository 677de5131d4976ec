//go:build linux

package main

import (
	"debug/buildinfo"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"text/template"
	"time"

	"github.com/rondel-project/rondel/scripts/bench/peers"
)

// results are what a run has found.
type results struct {
	settings
	tables
	began   time.Time
	sockets map[string][]socketRow
	who     []string // of sockets, in order
	absent  []string
	idle    string // what an agent spends on sessions that nobody uses
}

func (r *results) addSockets(peer string, s socketRow) {
	if r.sockets == nil {
		r.sockets = map[string][]socketRow{}
	}
	if r.sockets[peer] == nil {
		r.who = append(r.who, peer)
	}
	r.sockets[peer] = append(r.sockets[peer], s)
}

// missing says once that a peer could not be had.
func (r *results) missing(peer string, err error) {
	words := fmt.Sprintf("%s is left out: %v", peer, err)
	for _, w := range r.absent {
		if w == words {
			return
		}
	}
	r.absent = append(r.absent, words)
	fmt.Fprintln(os.Stderr, words)
}

// wanted are the bounds that Rondel is to reach.
func wanted() []bound {
	small, large := cases[0].name, cases[2].name
	const rondel = "Rondel"
	return []bound{
		{"1 KiB: processor time, of HAProxy's", small, rondel, base, cpuOf, 1.1},
		{"1 KiB: p99, of HAProxy's", small, rondel, base, p99Of, 1.5},
		{"1 KiB: processor time, of Caddy's", small, rondel, "Caddy", cpuOf, 0.25},
		{"64 KiB: processor time, of HAProxy's", large, rondel, base, cpuOf, 1},
		{"64 KiB: processor time, of HAProxy's with splicing", large, rondel, spliced, cpuOf, 1},
		{"processor time with many sessions, of that with 10", sessionsCase, manySessions, fewSessions, cpuOf, 1},
		{"the same, with all of them in use", sessionsCase, busySessions, fewSessions, cpuOf, 1},
		{"processor time with 100 instances, of that with 3", instancesCase, manyInstances, fewInstances, cpuOf, 1.1},
	}
}

// text is all tables.
func (r *results) text() string {
	var b strings.Builder
	for _, w := range r.absent {
		b.WriteString(w + "\n\n")
	}
	if t := r.bounds(wanted()); t != "" {
		b.WriteString(t + "\n")
	}
	for _, name := range r.cases {
		to := base
		switch name {
		case sessionsCase:
			to = fewSessions
		case instancesCase:
			to = fewInstances
		}
		b.WriteString(r.table(name, to) + "\n")
		if name == sessionsCase {
			b.WriteString(r.idle + "\n")
		}
	}
	if len(r.who) > 0 {
		b.WriteString(r.socketTable() + "\n")
	}
	return b.String()
}

func (r *results) socketTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | KiB of RSS each | rounds | CPU, ms a second | without them |\n| --- | ---: | --- | ---: | ---: |\n", socketsCase)
	for _, peer := range r.who {
		rows := r.sockets[peer]
		low, high := rows[0].each, rows[0].each
		for _, s := range rows {
			low, high = min(low, s.each), max(high, s.each)
		}
		fmt.Fprintf(&b, "| %s | %.1f | %.1f–%.1f | %.1f | %.1f |\n", peer, median(rows, func(s socketRow) float64 { return s.each }), low, high,
			median(rows, func(s socketRow) float64 { return s.idle }), median(rows, func(s socketRow) float64 { return s.none }))
	}
	return b.String()
}

//go:embed page.md.tmpl
var pageText string

// page writes the page of the website.
func (r *results) page(file string) error {
	form, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	err = form.Execute(out, map[string]any{
		"Rounds": r.rounds, "Secs": r.each.Seconds(), "Conns": conns, "Sessions": r.settings.sessions, "CPUs": runtime.NumCPU(),
		"Versions": strings.Join(versions(r.bin), ", "), "Took": time.Since(r.began).Round(time.Second), "Tables": r.text(),
	})
	if err != nil {
		return err
	}
	return out.Close()
}

// versions are those of the programs that are there, in their own words.
func versions(bin string) (out []string) {
	for _, c := range [][]string{{bin, "version"}, {"haproxy", "-v"}, {"nginx", "-v"}, {"uname", "-sr"}} {
		path, err := peers.Find(c[0])
		if err != nil {
			continue
		}
		text, err := exec.Command(path, c[1:]...).CombinedOutput()
		if err != nil {
			continue
		}
		line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
		line, _, _ = strings.Cut(line, " - ")
		out = append(out, strings.TrimPrefix(line, "nginx version: "))
	}
	if path, err := peers.Find("caddy"); err == nil {
		if info, err := buildinfo.ReadFile(path); err == nil {
			out = append(out, "Caddy "+info.Main.Version)
		}
	}
	return append(out, runtime.Version())
}
