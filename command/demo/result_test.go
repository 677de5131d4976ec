package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/demo/load"
)

func TestResult_failsForWhatMustNotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		report load.Report
		passed bool
	}{
		"nothing":             {load.Report{}, true},
		"failed requests":     {load.Report{Phases: []load.Phase{{Reads: load.Figures{Failed: 3}}}}, true},
		"old values shown":    {load.Report{Verdict: load.Verdict{StaleReads: 1}}, true},
		"a session lost":      {load.Report{Verdict: load.Verdict{SessionsLost: 1}}, false},
		"a write lost":        {load.Report{Verdict: load.Verdict{WritesLost: 1}}, false},
		"a write twice":       {load.Report{Verdict: load.Verdict{AppliedTwice: 1}}, false},
		"a session not found": {load.Report{Unread: 1}, false},
	} {
		if got := resultOf(c.report, nil).Passed; got != c.passed {
			t.Errorf("%s: passed %v, want %v", name, got, c.passed)
		}
	}
}

func TestResult_table(t *testing.T) {
	t.Parallel()
	r := resultOf(load.Report{
		Sessions: 2, Acknowledged: 30, Unknown: 1, Verdict: load.Verdict{WritesLost: 1},
		Reasons: map[string]int{"the connection broke": 2},
		Phases: []load.Phase{
			{Name: "before", Reads: load.Figures{Requests: 10, LongestGap: 12345 * time.Microsecond}, Writes: load.Figures{Requests: 20, LongestGap: 7 * time.Millisecond}},
			{Name: "agent-1 killed", Reads: load.Figures{Requests: 5, Failed: 1, LongestGap: 1300 * time.Millisecond}, Writes: load.Figures{Requests: 10, Failed: 1, LongestGap: 1400 * time.Millisecond}},
		},
	}, []event{{At: api.Duration(time.Second), What: "agent-1 killed"}})
	var b bytes.Buffer
	if err := r.write(&b); err != nil {
		t.Fatal(err)
	}
	const want = `Phase           Reads  Failed  Longest gap  Writes  Failed  Longest gap
before          10     0       12ms         20      0       7ms
agent-1 killed  5      1       1.3s         10      1       1.4s

Sessions                         2
Writes acknowledged              30
Sessions lost                    0
Sessions unreadable in the end   0
Acknowledged writes lost         1
Operations applied twice         0
Reads that showed an older state 0
Failed requests                  2 of 47
  the connection broke           2
Operations given up              0
Writes with unknown outcome      1
Longest gap, read                1.3s
Longest gap, write               1.4s

FAILED: see the lines above that should be 0.
`
	if got := squeeze(b.String()); got != squeeze(want) {
		t.Errorf("it prints\n%s\nwant\n%s", b.String(), want)
	}
}

// squeeze makes runs of spaces one, since only the words matter here.
func squeeze(s string) string {
	var out []string
	for line := range strings.SplitSeq(s, "\n") {
		out = append(out, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(out, "\n")
}
