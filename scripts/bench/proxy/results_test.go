package main

import (
	"strings"
	"testing"
)

func sample() *tables {
	t := &tables{}
	t.list("small", "base")
	for i, cpu := range []float64{12, 20, 14} {
		t.add("small", "mine", row{cpu: cpu, rate: 100, p50: 1, p99: 6, rss: 20})
		t.add("small", "base", row{cpu: []float64{10, 10, 20}[i], rate: 200, p50: 1, p99: 2, rss: 10})
	}
	return t
}

func TestTables_ratiosAreOfTheSameRound(t *testing.T) {
	t.Parallel()
	mid, low, high, ok := sample().ratio("small", "mine", "base", cpuOf)
	if !ok || mid != 1.2 || low != 0.7 || high != 2 {
		t.Errorf("%v, %v–%v, %v", mid, low, high, ok)
	}
	for _, c := range [][2]string{{"mine", "nobody"}, {"nobody", "base"}} {
		if _, _, _, ok := sample().ratio("small", c[0], c[1], cpuOf); ok {
			t.Errorf("%s can be compared with %s", c[0], c[1])
		}
	}
}

func TestTables_table(t *testing.T) {
	t.Parallel()
	want := "| small | CPU, ms | ratio | rounds | requests/s | ratio | p50, ms | p99, ms | ratio | RSS, MiB | others |\n" +
		"| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n" +
		"| base | 10.0 | 1.00 | 1.00–1.00 | 200 | 1.00 | 1.00 | 2.00 | 1.00 | 10 | 0.00 |\n" +
		"| mine | 14.0 | 1.20 | 0.70–2.00 | 100 | 0.50 | 1.00 | 6.00 | 3.00 | 20 | 0.00 |\n"
	if got := sample().table("small", "base"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTables_errorsRefuseFigures(t *testing.T) {
	t.Parallel()
	all := sample()
	all.rows[key("small", "mine")][1].errors = map[string]int{"status other than 200": 2, "connection broke off": 1}
	const words = "1 × connection broke off, 2 × status other than 200"
	if got := all.table("small", "base"); !strings.Contains(got, "| mine | refused: "+words+" |") {
		t.Error(got)
	}
	if got := all.refused(); len(got) != 1 || got[0] != "small: mine: "+words {
		t.Errorf("%q", got)
	}
	if _, _, _, ok := all.ratio("small", "mine", "base", cpuOf); ok {
		t.Error("they can be compared all the same")
	}
	if got := all.bounds([]bound{{"what", "small", "mine", "base", cpuOf, 1.1}}); got != "" {
		t.Error(got)
	}
}

func TestTables_bounds(t *testing.T) {
	t.Parallel()
	got := sample().bounds([]bound{
		{"a", "small", "mine", "base", cpuOf, 1.2},
		{"b", "small", "mine", "base", cpuOf, 1.1},
		{"c", "small", "mine", "base", p99Of, 1.5},
		{"d", "none", "mine", "base", p99Of, 1.5},
	})
	for _, line := range []string{"| a | 1.20 | 1.20 | 0.70–2.00 | yes |", "| b | 1.10 | 1.20 | 0.70–2.00 | within 10 % |", "| c | 1.50 | 3.00 | 3.00–3.00 | no |"} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("%q is not in\n%s", line, got)
		}
	}
	if strings.Contains(got, "| d |") {
		t.Error("a bound of a case that was not measured")
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	self := func(f float64) float64 { return f }
	for _, c := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}} {
		if got := median(c.of, self); got != c.want {
			t.Errorf("median of %v is %v", c.of, got)
		}
	}
}
