package main

import (
	"fmt"
	"slices"
	"strings"
)

// row is what one peer did in one round of a case.
type row struct {
	cpu      float64 // ms of processor time for 1,000 requests
	rate     float64 // requests a second
	p50, p99 float64 // ms
	rss      float64 // MiB
	others   float64 // processors that others used meanwhile
	load     float64 // ms of the load's own processor time for 1,000 requests
	errors   map[string]int
}

func (r row) String() string {
	s := fmt.Sprintf("%6.1f ms/1000, %6.0f/s, p50 %5.2f p99 %5.2f ms, %4.0f MiB, load %.1f ms/1000, others %.2f", r.cpu, r.rate, r.p50, r.p99, r.rss, r.load, r.others)
	if len(r.errors) > 0 {
		s += fmt.Sprint(" ERRORS ", r.errors)
	}
	return s
}

// tables are the rows of all rounds, by case and peer.
type tables struct {
	cases []string
	peers map[string][]string // of a case, in order
	rows  map[string][]row    // of a case and peer, one a round
}

func key(name, peer string) string { return name + "\x00" + peer }

// list gives a peer its place in a case.
func (t *tables) list(name, peer string) {
	if t.rows == nil {
		t.rows, t.peers = map[string][]row{}, map[string][]string{}
	}
	if !slices.Contains(t.cases, name) {
		t.cases = append(t.cases, name)
	}
	if !slices.Contains(t.peers[name], peer) {
		t.peers[name] = append(t.peers[name], peer)
	}
}

func (t *tables) add(name, peer string, r row) {
	t.list(name, peer)
	t.rows[key(name, peer)] = append(t.rows[key(name, peer)], r)
}

func (t *tables) of(name, peer string) []row { return t.rows[key(name, peer)] }

// errors are all that a peer had in a case, in words.
func (t *tables) errors(name, peer string) string {
	all := map[string]int{}
	for _, r := range t.of(name, peer) {
		for kind, n := range r.errors {
			all[kind] += n
		}
	}
	var words []string
	for kind, n := range all {
		words = append(words, fmt.Sprintf("%d × %s", n, kind))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// refused are the cases and peers that have no figures.
func (t *tables) refused() (out []string) {
	for _, name := range t.cases {
		for _, peer := range t.peers[name] {
			if words := t.errors(name, peer); words != "" {
				out = append(out, name+": "+peer+": "+words)
			}
		}
	}
	return out
}

// median is the middle of what of says of each row.
func median[T any](rows []T, of func(T) float64) float64 {
	var all []float64
	for _, r := range rows {
		all = append(all, of(r))
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return (all[len(all)/2] + all[(len(all)-1)/2]) / 2
}

// ratio is the median, and the least and the greatest, of a peer's figure divided by
// the base's of the same round. ok is false where they cannot be compared.
func (t *tables) ratio(name, peer, base string, of func(row) float64) (mid, low, high float64, ok bool) {
	mine, theirs := t.of(name, peer), t.of(name, base)
	if len(mine) == 0 || len(mine) != len(theirs) || t.errors(name, peer)+t.errors(name, base) != "" {
		return 0, 0, 0, false
	}
	var all []float64
	for i := range mine {
		if of(theirs[i]) <= 0 {
			return 0, 0, 0, false
		}
		all = append(all, of(mine[i])/of(theirs[i]))
	}
	return median(all, func(f float64) float64 { return f }), slices.Min(all), slices.Max(all), true
}

func cpuOf(r row) float64  { return r.cpu }
func rateOf(r row) float64 { return r.rate }
func p99Of(r row) float64  { return r.p99 }

// table is one case as a table, with ratios to a base.
func (t *tables) table(name, base string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | CPU, ms | ratio | rounds | requests/s | ratio | p50, ms | p99, ms | ratio | RSS, MiB | others |\n", name)
	b.WriteString("| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, peer := range t.peers[name] {
		if words := t.errors(name, peer); words != "" {
			fmt.Fprintf(&b, "| %s | refused: %s | | | | | | | | | |\n", peer, words)
			continue
		}
		rows := t.of(name, peer)
		mid := func(of func(row) float64) float64 { return median(rows, of) }
		ratio := func(of func(row) float64) string {
			if m, _, _, ok := t.ratio(name, peer, base, of); ok {
				return fmt.Sprintf("%.2f", m)
			}
			return ""
		}
		spread := ""
		if _, low, high, ok := t.ratio(name, peer, base, cpuOf); ok {
			spread = fmt.Sprintf("%.2f–%.2f", low, high)
		}
		fmt.Fprintf(&b, "| %s | %.1f | %s | %s | %.0f | %s | %.2f | %.2f | %s | %.0f | %.2f |\n", peer,
			mid(cpuOf), ratio(cpuOf), spread, mid(rateOf), ratio(rateOf),
			mid(func(r row) float64 { return r.p50 }), mid(p99Of), ratio(p99Of),
			mid(func(r row) float64 { return r.rss }), mid(func(r row) float64 { return r.others }))
	}
	return b.String()
}

// bound is something to reach: a figure of one peer, in ratio to another one's.
type bound struct {
	what       string
	name, peer string
	to         string
	of         func(row) float64
	most       float64
}

// bounds says which bounds are met. One counts as met within 10 %, unless it is about
// a growth that is allowed 10 % itself.
func (t *tables) bounds(all []bound) string {
	var b strings.Builder
	b.WriteString("| bound | at most | measured | rounds | met |\n| --- | ---: | ---: | --- | --- |\n")
	n := 0
	for _, x := range all {
		mid, low, high, ok := t.ratio(x.name, x.peer, x.to, x.of)
		if !ok {
			continue
		}
		n++
		met := "no"
		if mid <= x.most {
			met = "yes"
		} else if mid <= 1.1*x.most {
			met = "within 10 %"
		}
		fmt.Fprintf(&b, "| %s | %.2f | %.2f | %.2f–%.2f | %s |\n", x.what, x.most, mid, low, high, met)
	}
	if n == 0 {
		return ""
	}
	return b.String()
}
