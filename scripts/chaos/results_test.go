//go:build linux

package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestResults_aFaultThatStrikesAgainReplacesItself(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "results.json")
	first, second := faults()[0], faults()[1]
	m := modes()[0]
	all := replaced(nil, &outcome{fault: second, mode: m, err: errors.New("not healthy")})
	all = replaced(all, &outcome{fault: first, mode: m, promise: first.promise[m.name], gaps: []time.Duration{2 * time.Second}, total: tally{Acked: 7}})
	if err := saveResults(file, all); err != nil {
		t.Fatal(err)
	}
	all, err := loadResults(file)
	if err != nil || len(all) != 2 || all[0].fault.name != first.name || all[0].total.Acked != 7 || all[0].promise == 0 || all[1].err == nil {
		t.Fatalf("%+v, %v", all, err)
	}
	all = replaced(all, &outcome{fault: second, mode: m, gaps: []time.Duration{time.Second}})
	s := settings{rounds: 2, agents: 5, fault: regexp.MustCompile("."), mode: regexp.MustCompile(".")}
	var b bytes.Buffer
	if err := writeReport(&b, newPage(s, "rondel v0", all)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| " + first.name + " | 1 | 7 |", "2.00 s instead of 1.00 s", "Of 2 rows 1 broke a promise", "make chaos ROUNDS=2 REPORT=",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not on the page:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "not healthy") {
		t.Error("what was replaced is still there")
	}
}
