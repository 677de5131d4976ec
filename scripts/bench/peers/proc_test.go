package peers

import (
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	got, err := parseStat([]byte("7 (a ) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 1 1 20 0 1 0 9\n"))
	if err != nil || got != 3*time.Second {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "7 (x) S 1 2", "7 (x) S 1 2 3 4 5 6 7 8 9 10 many 50 1"} {
		if got, err := parseStat([]byte(text)); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestParseBusy(t *testing.T) {
	t.Parallel()
	got, err := parseBusy([]byte("cpu  100 10 20 9999 8888 1 2 3 0 0\ncpu0 1 1 1\n"))
	if err != nil || got != 1360*time.Millisecond {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "cpu 1 2", "intr 1 2 3 4 5 6 7 8 9", "cpu x 10 20 9999 8888 1 2 3 0 0"} {
		if got, err := parseBusy([]byte(text)); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
